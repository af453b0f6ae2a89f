-- Everything in the hourly facts is an amount over time: below zero, NaN or infinite means a broken integration.
-- severity: critical
-- expects: every quantity of pod, node and container hours is a finite number of 0 or more
-- remedy: Compare the rows with core.pod_segment, core.node_segment and raw.usage_interval.
with amount as (
    select
        'pod_hour' as fact,
        pod_hour.hour,
        pod_hour.pod_key as key,
        measure.*
    from core.pod_hour
    cross join lateral (
        values
        ('seconds', seconds),
        ('cpu_request_core_seconds', cpu_request_core_seconds),
        ('cpu_request_used_core_seconds', cpu_request_used_core_seconds),
        ('cpu_used_core_seconds', cpu_used_core_seconds),
        ('cpu_used_covered_seconds', cpu_used_covered_seconds),
        ('memory_request_byte_seconds', memory_request_byte_seconds),
        ('memory_request_used_byte_seconds', memory_request_used_byte_seconds),
        ('memory_used_byte_seconds', memory_used_byte_seconds),
        ('memory_used_covered_seconds', memory_used_covered_seconds),
        ('gpu_request_gpu_seconds', gpu_request_gpu_seconds)
    ) as measure (measure, amount)
    where stage_id = :stage_id and hour >= :start and hour < :end
    union all
    select
        'node_hour',
        node_hour.hour,
        node_hour.node_key,
        measure.*
    from core.node_hour
    cross join lateral (
        values
        ('seconds', seconds),
        ('ready_seconds', ready_seconds),
        ('covered_seconds', covered_seconds),
        ('cpu_capacity_core_seconds', cpu_capacity_core_seconds),
        ('memory_capacity_byte_seconds', memory_capacity_byte_seconds),
        ('gpu_capacity_gpu_seconds', gpu_capacity_gpu_seconds),
        ('cpu_covered_core_seconds', cpu_covered_core_seconds),
        ('memory_covered_byte_seconds', memory_covered_byte_seconds),
        ('gpu_covered_gpu_seconds', gpu_covered_gpu_seconds),
        ('cpu_allocatable_core_seconds', cpu_allocatable_core_seconds),
        ('memory_allocatable_byte_seconds', memory_allocatable_byte_seconds),
        ('gpu_allocatable_gpu_seconds', gpu_allocatable_gpu_seconds)
    ) as measure (measure, amount)
    where stage_id = :stage_id and hour >= :start and hour < :end
    union all
    select
        'container_hour',
        container_hour.hour,
        container_hour.pod_key,
        measure.*
    from core.container_hour
    cross join lateral (
        values
        ('cpu_used_core_seconds', cpu_used_core_seconds),
        ('memory_used_byte_seconds', memory_used_byte_seconds)
    ) as measure (measure, amount)
    where stage_id = :stage_id and hour >= :start and hour < :end
)

-- Postgres sorts NaN above infinity, so one comparison catches both.
select
    fact,
    hour,
    key,
    measure,
    amount::text as amount
from amount
where amount < 0 or amount >= 'Infinity'::numeric
order by fact, hour, key, measure
