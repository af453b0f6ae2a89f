-- Not finding a price is a state (unpriced); not having looked is a hole that would read as free.
-- severity: critical
-- expects: every hour of every node has its outcome in core.node_price, priced or not
-- remedy: Run the prices step of this stage again; see core.node_price.
select
    node.node,
    min(node_hour.hour) as first_hour,
    max(node_hour.hour) as last_hour,
    count(*) as hours
from core.node_hour
join core.node using (node_key)
where node_hour.stage_id = :stage_id
    and node_hour.hour >= :start
    and node_hour.hour < :end
    and not node_hour.is_virtual
    and not exists (
        select
        from core.node_price
        where node_price.stage_id = node_hour.stage_id
            and node_price.node_key = node_hour.node_key
            and node_price.during @> node_hour.hour
    )
group by node.node
order by node.node
