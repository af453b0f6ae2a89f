-- A source that claims to speak for a window and names not one node or not one pod was asked wrongly
-- (a bad label filter, missing rights) far more often than it saw an empty cluster.
-- severity: critical
-- expects: at least one node and one pod where loads speak for the window
-- remedy: Check the source's rights and filters; if the cluster really stood empty, acknowledge the window.
with known as (
    select
        needed.dataset,
        ops.covered(cast(:cluster_key as smallint), needed.dataset, :start, :end) as spans
    from (values ('pod'), ('node')) as needed (dataset)
),

acknowledged as (
    select
        dataset,
        range_agg(during) as spans
    from ops.gap
    where cluster_key = :cluster_key
        and acknowledged_at is not null
        and during && tstzrange(:start, :end)
    group by dataset
),

stated as (
    select 'pod' as dataset
    where exists (
        select
        from raw.pod_interval as interval
        join ops.spoken(cast(:cluster_key as smallint), 'pod', :start, :end) as spoken using (load_id)
        where interval.start_at >= date_trunc('day', cast(:start as timestamptz), 'UTC')
            and interval.start_at < :end
            and tstzrange(interval.start_at, interval.end_at) && spoken.span
    )
    union all
    select 'node' as dataset
    where exists (
        select
        from raw.node_interval as interval
        join ops.spoken(cast(:cluster_key as smallint), 'node', :start, :end) as spoken using (load_id)
        where interval.start_at >= date_trunc('day', cast(:start as timestamptz), 'UTC')
            and interval.start_at < :end
            and tstzrange(interval.start_at, interval.end_at) && spoken.span
    )
)

select
    known.dataset,
    core.seconds(known.spans) as seconds_spoken_for
from known
left join acknowledged using (dataset)
where not isempty(known.spans)
    and (acknowledged.spans is null or not acknowledged.spans @> tstzrange(:start, :end))
    and known.dataset not in (select stated.dataset from stated)
order by known.dataset
