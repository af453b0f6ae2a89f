-- Cutting a pod's life into hours must not lose or make a second: the hours re-add to the segments exactly.
-- severity: critical
-- expects: a pod's hours add up to request × duration of its holding segments
-- remedy: This is a defect of the consolidation; please report it with the rows shown.
with by_segment as (
    select
        pod_key,
        sum(core.seconds(during)) as seconds,
        sum(coalesce(cpu_request_cores, 0) * core.seconds(during)) as cpu,
        sum(coalesce(memory_request_bytes, 0) * core.seconds(during)) as memory,
        sum(coalesce(gpu_request, 0) * core.seconds(during)) as gpu
    from core.pod_segment
    where stage_id = :stage_id and is_holding
    group by pod_key
),

by_hour as (
    select
        pod_key,
        sum(seconds) as seconds,
        sum(cpu_request_core_seconds) as cpu,
        sum(memory_request_byte_seconds) as memory,
        sum(gpu_request_gpu_seconds) as gpu
    from core.pod_hour
    where stage_id = :stage_id and hour >= :start and hour < :end
    group by pod_key
)

select
    pod.namespace,
    pod.pod,
    by_segment.seconds as segment_seconds,
    by_hour.seconds as hour_seconds,
    by_segment.cpu as segment_cpu_core_seconds,
    by_hour.cpu as hour_cpu_core_seconds,
    by_segment.memory as segment_memory_byte_seconds,
    by_hour.memory as hour_memory_byte_seconds,
    by_segment.gpu as segment_gpu_seconds,
    by_hour.gpu as hour_gpu_seconds
from by_segment
full join by_hour using (pod_key)
left join core.pod using (pod_key)
where coalesce(by_segment.seconds, 0) <> coalesce(by_hour.seconds, 0)
    or coalesce(by_segment.cpu, 0) <> coalesce(by_hour.cpu, 0)
    or coalesce(by_segment.memory, 0) <> coalesce(by_hour.memory, 0)
    or coalesce(by_segment.gpu, 0) <> coalesce(by_hour.gpu, 0)
order by pod.namespace, pod.pod
