-- A price the list carries no longer, or carried only later, stands in: the bill adds up, and may change once the
-- right price is known.
-- severity: warning
-- expects: every price held at the time it is used for
select
    node.node,
    node_price.origin,
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
    and not node_hour.is_virtual
    and node_price.state = 'estimated'
group by node.node, node_price.origin, node_price.reason
order by node.node, node_price.reason
