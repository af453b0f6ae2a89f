-- Pods without usage are billed by request alone; for a whole hour that is a broken scrape, not a quiet cluster.
-- severity: warning
-- expects: at least one usage statement in every hour in which pods are stated
with hour as (
    select
        started as hour,
        tstzrange(started, started + interval '1 hour') as span
    from generate_series(
        cast(:start as timestamptz), cast(:end as timestamptz) - interval '1 hour', interval '1 hour'
    ) as started
),

used as (
    select distinct date_trunc('hour', interval.start_at, 'UTC') as hour
    from raw.usage_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'usage', :start, :end) as spoken using (load_id)
    where interval.start_at >= :start
        and interval.start_at < :end
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
)

select hour.hour
from hour
where hour.hour not in (select used.hour from used)
    and exists (
        select
        from raw.pod_interval as interval
        join ops.spoken(cast(:cluster_key as smallint), 'pod', :start, :end) as spoken using (load_id)
        where interval.start_at >= date_trunc('day', cast(:start as timestamptz), 'UTC')
            and interval.start_at < :end
            and interval.node is not null
            and coalesce(interval.phase, '') not in ('Succeeded', 'Failed')
            and tstzrange(interval.start_at, interval.end_at) * spoken.span && hour.span
    )
    and not exists (
        select
        from ops.gap
        where gap.cluster_key = :cluster_key
            and gap.dataset = 'usage'
            and gap.acknowledged_at is not null
            and gap.during @> hour.span
    )
order by hour.hour
