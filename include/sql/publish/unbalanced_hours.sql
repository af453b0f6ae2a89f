-- The invariant: for every hour and conserving model the lines add up to the cluster's cost, exactly.
-- Grain: the hours that break it, with both totals; none is the only acceptable answer.
-- The cluster's cost is recomputed here from price and seconds, not taken from the allocation.
with cluster_cost as (
    select
        node_hour.hour,
        sum(
            round(cast(node_price.price_per_hour * node_hour.seconds as numeric(60, 30)) / 3600, 18)
        ) as cost
    from core.node_hour
    join core.node_price
        on node_price.stage_id = node_hour.stage_id
        and node_price.node_key = node_hour.node_key
        and node_price.during @> node_hour.hour
    where node_hour.stage_id = :stage_id and not node_hour.is_virtual
    group by node_hour.hour
),

allocated as (
    select
        hour,
        cost_model_key,
        sum(cost) as cost
    from mart.cost_hour
    where stage_id = :stage_id
    group by hour, cost_model_key
)

select
    stage_hour.hour,
    cost_model.cost_model,
    coalesce(allocated.cost, 0) as lines_cost,
    coalesce(cluster_cost.cost, 0) as cluster_cost,
    coalesce(allocated.cost, 0) - coalesce(cluster_cost.cost, 0) as difference
from ops.stage_hour
cross join core.cost_model
left join cluster_cost using (hour)
left join allocated using (hour, cost_model_key)
where stage_hour.stage_id = :stage_id
    and cost_model.cost_model_key in (
        select distinct cost_hour.cost_model_key from mart.cost_hour where cost_hour.stage_id = :stage_id
    )
    and cost_model.during @> stage_hour.hour
    and coalesce(allocated.cost, 0) <> coalesce(cluster_cost.cost, 0)
order by stage_hour.hour, cost_model.cost_model
