-- An unpriced node's lines carry quantities and no cost: the bill is too small until somebody gives a price.
-- severity: warning
-- expects: every node has a price, and every virtual node rates for its pods
select
    node.node,
    node_price.state,
    node_price.reason,
    min(node_hour.hour) as first_hour,
    count(*) as hours
from core.node_hour
join core.node using (node_key)
join core.node_price
    on node_price.stage_id = node_hour.stage_id
    and node_price.node_key = node_hour.node_key
    and node_price.during @> node_hour.hour
where node_hour.stage_id = :stage_id
    and node_hour.hour >= :start
    and node_hour.hour < :end
    and case
        when node_hour.is_virtual then node_price.cpu_price_per_hour
        else node_price.price_per_hour
    end is null
    and node_price.state <> 'ambiguous'
group by node.node, node_price.state, node_price.reason
order by node.node, node_price.reason
