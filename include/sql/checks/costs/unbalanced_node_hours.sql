-- The invariant, a step finer than publishing asserts it: not one unit of 1e-18 of a node-hour is lost or made.
-- The node's cost is recomputed from price and seconds, that of a virtual node's pods from their rates; neither is
-- taken from the allocation.
-- severity: critical
-- expects: for every node, hour and cost model the direct lines add up to price × seconds / 3,600, rounded at 18 decimals
-- remedy: This is a defect of the allocation; please report it with the rows shown.
with model as (
    select
        stage_hour.hour,
        cost_model.cost_model_key,
        cost_model.cost_model
    from ops.stage_hour
    join core.cost_model
        on cost_model.during @> stage_hour.hour and cost_model.known @> stage_hour.as_of
    where stage_hour.stage_id = :stage_id
        and cost_model.cost_model in (
            select used.cost_model
            from mart.cost_hour
            join core.cost_model as used using (cost_model_key)
            where cost_hour.stage_id = :stage_id and cost_hour.hour >= :start and cost_hour.hour < :end
        )
        and cost_model.kind = 'resource'
),

node_cost as (
    select
        model.cost_model_key,
        node_hour.hour,
        node_hour.node_key,
        mart.node_cost(node_price.price_per_hour, node_hour.seconds) as cost
    from core.node_hour
    join model using (hour)
    join core.node_price
        on node_price.stage_id = node_hour.stage_id
        and node_price.node_key = node_hour.node_key
        and node_price.during @> node_hour.hour
    where node_hour.stage_id = :stage_id
        and node_hour.hour >= :start
        and node_hour.hour < :end
        and not node_hour.is_virtual
        and node_price.price_per_hour is not null
    union all
    select
        model.cost_model_key,
        priced.hour,
        priced.node_key,
        sum(priced.cpu_cost + priced.memory_cost + priced.gpu_cost)
    from mart.pod_rate_cost(:stage_id, :start, :end) as priced
    join model using (hour)
    group by model.cost_model_key, priced.hour, priced.node_key
),

allocated as (
    select
        cost_model_key,
        hour,
        node_key,
        sum(cost) as cost
    from mart.cost_hour
    where stage_id = :stage_id
        and hour >= :start
        and hour < :end
        and cost is not null
        and not is_distribution
        and pool is null
        and cost_model_key in (select model.cost_model_key from model)
    group by cost_model_key, hour, node_key
),

compared as (
    select
        cost_model_key,
        hour,
        node_key,
        coalesce(allocated.cost, 0) as lines_cost,
        coalesce(node_cost.cost, 0) as node_cost
    from node_cost
    full join allocated using (cost_model_key, hour, node_key)
)

select
    compared.hour,
    cost_model.cost_model,
    node.node,
    compared.lines_cost,
    compared.node_cost,
    compared.lines_cost - compared.node_cost as difference
from compared
join core.cost_model using (cost_model_key)
left join core.node using (node_key)
where compared.lines_cost <> compared.node_cost
order by abs(compared.lines_cost - compared.node_cost) desc, compared.hour, node.node
