-- A price that jumps is more often a wrong match or a typing error than news. It is used all the same: a valid price
-- is never dropped.
-- severity: warning
-- expects: a node's price changes by at most 30 % from one hour to the next
-- remedy: Compare both snapshots (bi.price_snapshots), or run `kubetally prices explain`; a price sheet overrides.
with staged as (
    select
        node_key,
        during,
        price_per_hour,
        currency,
        snapshot_ids
    from core.node_price
    where stage_id = :stage_id and price_per_hour is not null
),

published as (
    select
        price.node_key,
        price.during,
        price.price_per_hour,
        price.currency,
        price.snapshot_ids
    from ops.published_hour
    join core.node_price as price
        on price.stage_id = published_hour.stage_id and price.during @> published_hour.hour
    where published_hour.cluster_key = :cluster_key
        and published_hour.hour = cast(:start as timestamptz) - interval '1 hour'
        and published_hour.stage_id <> :stage_id
        and price.price_per_hour is not null
),

followed as (
    select
        node_key,
        during,
        price_per_hour,
        currency,
        snapshot_ids,
        lag(price_per_hour) over life as price_before,
        lag(currency) over life as currency_before,
        lag(snapshot_ids) over life as snapshot_ids_before
    from (
        select * from staged
        union all
        select * from published
    ) as price
    window life as (partition by node_key order by lower(during), upper(during))
)

select
    node.node,
    greatest(lower(followed.during), :start) as from_time,
    followed.price_before,
    followed.price_per_hour,
    followed.currency,
    round(100 * (followed.price_per_hour - followed.price_before) / followed.price_before, 1) as change_percent,
    followed.snapshot_ids_before,
    followed.snapshot_ids
from followed
join core.node using (node_key)
where followed.price_before > 0
    and followed.currency = followed.currency_before
    and abs(followed.price_per_hour - followed.price_before) > 0.3 * followed.price_before
order by abs(followed.price_per_hour - followed.price_before) / followed.price_before desc, node.node
