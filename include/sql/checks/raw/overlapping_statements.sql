-- Two statements about the same thing at the same time would be integrated twice and billed twice.
-- CPU and memory usage may come in rows of their own, so they are compared apart.
-- severity: critical
-- expects: at any time at most one statement per pod, per node, and per container and measure
-- remedy: The source sent one object twice, or a file was recorded twice; mend it and collect again.
with stated as (
    select
        'pod' as dataset,
        interval.uid as identity,
        interval.namespace || '/' || interval.pod as name,
        tstzrange(interval.start_at, interval.end_at) * spoken.span as during
    from raw.pod_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'pod', :start, :end) as spoken using (load_id)
    where interval.start_at >= date_trunc('day', cast(:start as timestamptz), 'UTC')
        and interval.start_at < :end
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
    union all
    select
        'node',
        interval.uid,
        interval.node,
        tstzrange(interval.start_at, interval.end_at) * spoken.span
    from raw.node_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'node', :start, :end) as spoken using (load_id)
    where interval.start_at >= date_trunc('day', cast(:start as timestamptz), 'UTC')
        and interval.start_at < :end
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
    union all
    select
        'usage/' || measure.name,
        concat_ws('/', coalesce(interval.uid, interval.namespace || '/' || interval.pod), interval.container),
        concat_ws('/', interval.namespace, interval.pod, interval.container),
        tstzrange(interval.start_at, interval.end_at) * spoken.span
    from raw.usage_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'usage', :start, :end) as spoken using (load_id)
    cross join lateral (
        values ('cpu', interval.cpu_used_core_seconds), ('memory', interval.memory_used_byte_seconds)
    ) as measure (name, amount)
    where interval.start_at >= :start
        and interval.start_at < :end
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
        and measure.amount is not null
),

followed as (
    select
        stated.*,
        max(upper(during)) over (
            partition by dataset, identity
            order by lower(during), upper(during)
            rows between unbounded preceding and 1 preceding
        ) as stated_until
    from stated
)

select
    dataset,
    identity,
    name,
    lower(during) as from_time,
    least(stated_until, upper(during)) as to_time
from followed
where stated_until > lower(during)
order by dataset, identity, lower(during)
