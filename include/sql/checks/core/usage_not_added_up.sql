-- A pod's usage is the sum of its containers; it is what the pod is billed by.
-- severity: critical
-- expects: a pod-hour's usage is the sum over its containers, its covered seconds the union of theirs
-- remedy: This is a defect of the consolidation; please report it with the rows shown.
with by_container as (
    select
        pod_key,
        hour,
        sum(cpu_used_core_seconds) as cpu,
        core.seconds(range_agg(cpu_used_covered)) as cpu_covered,
        sum(memory_used_byte_seconds) as memory,
        core.seconds(range_agg(memory_used_covered)) as memory_covered
    from core.container_hour
    where stage_id = :stage_id and hour >= :start and hour < :end
    group by pod_key, hour
),

by_pod as (
    select *
    from core.pod_hour
    where stage_id = :stage_id and hour >= :start and hour < :end
)

select
    hour,
    pod.namespace,
    pod.pod,
    by_container.cpu as containers_cpu_core_seconds,
    by_pod.cpu_used_core_seconds,
    by_container.cpu_covered as containers_cpu_covered_seconds,
    by_pod.cpu_used_covered_seconds,
    by_container.memory as containers_memory_byte_seconds,
    by_pod.memory_used_byte_seconds,
    by_container.memory_covered as containers_memory_covered_seconds,
    by_pod.memory_used_covered_seconds
from by_container
full join by_pod using (pod_key, hour)
left join core.pod using (pod_key)
where by_container.cpu is distinct from by_pod.cpu_used_core_seconds
    or by_container.memory is distinct from by_pod.memory_used_byte_seconds
    or coalesce(by_container.cpu_covered, 0) is distinct from by_pod.cpu_used_covered_seconds
    or coalesce(by_container.memory_covered, 0) is distinct from by_pod.memory_used_covered_seconds
order by hour, pod.namespace, pod.pod
