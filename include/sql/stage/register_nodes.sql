-- Gives every node that the window's days speak of a key.
-- Grain: one row per node uid; a node that only pods name gets the uid "node/<name>".
-- Ordered by uid, so that windows registering at once wait for each other and never deadlock.
insert into core.node (cluster_key, uid, node)
select
    cast(:cluster_key as smallint),
    seen.uid,
    seen.node
from (
    select distinct on (stated.uid)
        stated.uid,
        stated.node
    from raw.node_interval as stated
    join ops.spoken(cast(:cluster_key as smallint), 'node', :day_start, :day_end) as spoken using (load_id)
    where stated.start_at >= :day_start
        and stated.start_at < :day_end
        and tstzrange(stated.start_at, stated.end_at) && spoken.span
    union all
    select distinct
        'node/' || held.node,
        held.node
    from raw.pod_interval as held
    join ops.spoken(cast(:cluster_key as smallint), 'pod', :start, :end) as spoken using (load_id)
    where held.start_at >= :day_start
        and held.start_at < :end
        and tstzrange(held.start_at, held.end_at) && spoken.span
        and held.node is not null
        and (held.node, date_trunc('day', held.start_at, 'UTC')) not in (
            select
                stated.node,
                date_trunc('day', stated.start_at, 'UTC')
            from raw.node_interval as stated
            join ops.spoken(cast(:cluster_key as smallint), 'node', :day_start, :day_end) as spoken using (load_id)
            where stated.start_at >= :day_start
                and stated.start_at < :day_end
                and tstzrange(stated.start_at, stated.end_at) && spoken.span
        )
) as seen
order by seen.uid
on conflict (cluster_key, uid) do nothing
