-- Part of the hour is unknown: its money goes to the line `uncovered`, so somebody should see why.
-- severity: warning
-- expects: loads speak for all 3,600 seconds of every hour, or the rest is acknowledged
with hour as (
    select
        started as hour,
        tstzrange(started, started + interval '1 hour') as span
    from generate_series(
        cast(:start as timestamptz), cast(:end as timestamptz) - interval '1 hour', interval '1 hour'
    ) as started
),

known as (
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
)

select
    hour.hour,
    known.dataset,
    core.seconds(
        tstzmultirange(hour.span) - known.spans - coalesce(acknowledged.spans, '{}')
    ) as unknown_seconds
from hour
cross join known
left join acknowledged using (dataset)
where known.spans && hour.span
    and not known.spans + coalesce(acknowledged.spans, '{}') @> hour.span
order by hour.hour, known.dataset
