-- Pods that used far beyond their requests are billed for more than the node costs; the difference is the
-- negative line `overcommit`. A lot of it means requests that no longer say anything.
-- severity: warning
-- expects: overcommit is at most a tenth of a node's cost over the window
with line as (
    select
        cost_model_key,
        node_key,
        currency,
        sum(cost) as cost,
        coalesce(-sum(cost) filter (where line = 'overcommit'), 0) as overcommit_cost
    from mart.cost_hour
    where stage_id = :stage_id
        and hour >= :start
        and hour < :end
        and node_key is not null
        and cost is not null
        and not is_distribution
    group by cost_model_key, node_key, currency
)

select
    node.node,
    cost_model.cost_model,
    round(line.overcommit_cost, 4) as overcommit_cost,
    round(line.cost, 4) as node_cost,
    line.currency
from line
join core.node using (node_key)
join core.cost_model using (cost_model_key)
where line.overcommit_cost > 0.1 * line.cost
order by line.overcommit_cost desc, node.node
