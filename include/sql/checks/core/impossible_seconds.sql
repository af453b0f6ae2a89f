-- An hour has 3,600 seconds, a part is not larger than its whole, and an amount needs time to have been used in.
-- severity: critical
-- expects: seconds and covered seconds are at most 3,600; parts are at most their whole; an amount is known exactly where seconds are
-- remedy: Overlapping statements got through; see raw.*_interval of these objects.
select
    'pod_hour' as fact,
    hour,
    pod_key as key,
    jsonb_build_object(
        'seconds', seconds,
        'cpu_used_covered_seconds', cpu_used_covered_seconds,
        'memory_used_covered_seconds', memory_used_covered_seconds,
        'cpu_request_core_seconds', cpu_request_core_seconds,
        'cpu_request_used_core_seconds', cpu_request_used_core_seconds,
        'memory_request_byte_seconds', memory_request_byte_seconds,
        'memory_request_used_byte_seconds', memory_request_used_byte_seconds
    ) as amounts
from core.pod_hour
where stage_id = :stage_id
    and hour >= :start
    and hour < :end
    and (
        seconds > 3600
        or cpu_used_covered_seconds > 3600
        or memory_used_covered_seconds > 3600
        or cpu_request_used_core_seconds > cpu_request_core_seconds
        or memory_request_used_byte_seconds > memory_request_byte_seconds
        or (cpu_used_core_seconds is null) <> (cpu_used_covered_seconds = 0)
        or (memory_used_byte_seconds is null) <> (memory_used_covered_seconds = 0)
    )
union all
select
    'node_hour',
    hour,
    node_key,
    jsonb_build_object(
        'seconds', seconds,
        'ready_seconds', ready_seconds,
        'covered_seconds', covered_seconds,
        'cpu_capacity_core_seconds', cpu_capacity_core_seconds,
        'cpu_covered_core_seconds', cpu_covered_core_seconds,
        'memory_capacity_byte_seconds', memory_capacity_byte_seconds,
        'memory_covered_byte_seconds', memory_covered_byte_seconds,
        'gpu_capacity_gpu_seconds', gpu_capacity_gpu_seconds,
        'gpu_covered_gpu_seconds', gpu_covered_gpu_seconds
    )
from core.node_hour
where stage_id = :stage_id
    and hour >= :start
    and hour < :end
    and (
        seconds > 3600
        or seconds = 0
        or covered_seconds > seconds
        or ready_seconds > seconds
        or cpu_covered_core_seconds > cpu_capacity_core_seconds
        or memory_covered_byte_seconds > memory_capacity_byte_seconds
        or gpu_covered_gpu_seconds > gpu_capacity_gpu_seconds
    )
order by fact, hour, key
