-- The invariant: for every hour and conserving model the lines add up to the cluster's cost, exactly.
-- Grain: the hours that break it, with both totals; none is the only acceptable answer.
-- The cluster's cost is recomputed here from prices, seconds and, for pods on virtual nodes, rates, not
-- taken from the allocation. An hour
-- that costs something and has no line at all breaks it too.
with cost as (
    select
        node_hour.hour,
        mart.node_cost(node_price.price_per_hour, node_hour.seconds) as cost
    from core.node_hour
    join core.node_price
        on node_price.stage_id = node_hour.stage_id
        and node_price.node_key = node_hour.node_key
        and node_price.during @> node_hour.hour
    where node_hour.stage_id = :stage_id
        and node_hour.hour >= :start
        and node_hour.hour < :end
        and not node_hour.is_virtual
    union all
    select
        hour,
        cpu_cost + memory_cost + gpu_cost
    from mart.pod_rate_cost(:stage_id, :start, :end)
),

cluster_cost as (
    select
        hour,
        sum(cost) as cost
    from cost
    group by hour
),

allocated as (
    select
        cost_hour.hour,
        cost_model.cost_model,
        sum(cost_hour.cost) as cost
    from mart.cost_hour
    join core.cost_model using (cost_model_key)
    where cost_hour.stage_id = :stage_id
        and cost_hour.hour >= :start
        and cost_hour.hour < :end
    group by cost_hour.hour, cost_model.cost_model
),

billed as (
    select distinct cost_model
    from allocated
)

select
    stage_hour.hour,
    billed.cost_model,
    coalesce(allocated.cost, 0) as lines_cost,
    coalesce(cluster_cost.cost, 0) as cluster_cost,
    coalesce(allocated.cost, 0) - coalesce(cluster_cost.cost, 0) as difference
from ops.stage_hour
left join billed on true
left join cluster_cost using (hour)
left join allocated using (hour, cost_model)
where stage_hour.stage_id = :stage_id
    and coalesce(allocated.cost, 0) <> coalesce(cluster_cost.cost, 0)
order by stage_hour.hour, billed.cost_model
