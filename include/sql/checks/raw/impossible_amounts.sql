-- A negative amount would be money given back, and NaN or infinity would swallow every sum it enters.
-- severity: critical
-- expects: requests, capacities and usage are finite numbers of 0 or more
-- remedy: Look at the source's own answer for these objects; it must reject them, not pass them on.
with amount as (
    select
        'pod' as dataset,
        interval.namespace || '/' || interval.pod as name,
        interval.start_at,
        measure.*
    from raw.pod_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'pod', :start, :end) as spoken using (load_id)
    cross join lateral (
        values
        ('cpu_request_cores', interval.cpu_request_cores),
        ('memory_request_bytes', interval.memory_request_bytes),
        ('gpu_request', interval.gpu_request),
        ('cpu_limit_cores', interval.cpu_limit_cores),
        ('memory_limit_bytes', interval.memory_limit_bytes)
    ) as measure (measure, amount)
    where interval.start_at >= date_trunc('day', cast(:start as timestamptz), 'UTC')
        and interval.start_at < :end
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
    union all
    select
        'node',
        interval.node,
        interval.start_at,
        measure.*
    from raw.node_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'node', :start, :end) as spoken using (load_id)
    cross join lateral (
        values
        ('cpu_capacity_cores', interval.cpu_capacity_cores),
        ('cpu_allocatable_cores', interval.cpu_allocatable_cores),
        ('memory_capacity_bytes', interval.memory_capacity_bytes),
        ('memory_allocatable_bytes', interval.memory_allocatable_bytes),
        ('gpu_capacity', interval.gpu_capacity),
        ('gpu_allocatable', interval.gpu_allocatable)
    ) as measure (measure, amount)
    where interval.start_at >= date_trunc('day', cast(:start as timestamptz), 'UTC')
        and interval.start_at < :end
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
    union all
    select
        'usage',
        concat_ws('/', interval.namespace, interval.pod, interval.container),
        interval.start_at,
        measure.*
    from raw.usage_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'usage', :start, :end) as spoken using (load_id)
    cross join lateral (
        values
        ('cpu_used_core_seconds', interval.cpu_used_core_seconds),
        ('memory_used_byte_seconds', interval.memory_used_byte_seconds)
    ) as measure (measure, amount)
    where interval.start_at >= :start
        and interval.start_at < :end
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
)

-- Postgres sorts NaN above infinity, so one comparison catches both.
select
    dataset,
    name,
    measure,
    amount::text as amount,
    start_at
from amount
where amount < 0 or amount >= 'Infinity'::numeric
order by dataset, name, start_at, measure
