-- Two prices for one node-hour would double its lines.
-- severity: critical
-- expects: at any time a node has at most one price
-- remedy: See the price sheet or the price book for two entries that hold at once.
with followed as (
    select
        node_price.*,
        max(upper(during)) over (
            partition by node_key
            order by lower(during), upper(during)
            rows between unbounded preceding and 1 preceding
        ) as priced_until
    from core.node_price
    where stage_id = :stage_id
)

select
    node.node,
    lower(followed.during) as from_time,
    least(followed.priced_until, upper(followed.during)) as to_time,
    followed.price_per_hour,
    followed.origin
from followed
join core.node using (node_key)
where followed.priced_until > lower(followed.during)
order by node.node, lower(followed.during)
