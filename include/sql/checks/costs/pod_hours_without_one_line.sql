-- A pod-hour without a line is not billed; one with two lines is billed twice; a line without a pod-hour bills
-- what never ran.
-- severity: critical
-- expects: every pod-hour has exactly one direct line of its node (workload, shared or unpriced) per cost model, for what it is billed
-- remedy: This is a defect of the allocation; please report it with the rows shown.
with model as (
    select
        stage_hour.hour,
        cost_model.cost_model_key,
        cost_model.cost_model,
        cost_model.cpu_basis,
        cost_model.memory_basis
    from ops.stage_hour
    join core.cost_model
        on cost_model.during @> stage_hour.hour and cost_model.known @> stage_hour.as_of
    where stage_hour.stage_id = :stage_id
        and cost_model.cost_model in (
            select used.cost_model
            from mart.cost_hour
            join core.cost_model as used using (cost_model_key)
            where cost_hour.stage_id = :stage_id and cost_hour.hour >= :start and cost_hour.hour < :end
        )
),

held as (
    select
        model.cost_model_key,
        pod_hour.hour,
        pod_hour.pod_key,
        mart.billed(
            model.cpu_basis,
            pod_hour.cpu_request_core_seconds,
            pod_hour.cpu_request_used_core_seconds,
            pod_hour.cpu_used_core_seconds
        ) as cpu,
        mart.billed(
            model.memory_basis,
            pod_hour.memory_request_byte_seconds,
            pod_hour.memory_request_used_byte_seconds,
            pod_hour.memory_used_byte_seconds
        ) as memory,
        pod_hour.gpu_request_gpu_seconds as gpu
    from core.pod_hour
    join model using (hour)
    where pod_hour.stage_id = :stage_id and pod_hour.hour >= :start and pod_hour.hour < :end
),

line as (
    select
        cost_model_key,
        hour,
        pod_key,
        count(*) as lines,
        bool_and(line in ('workload', 'shared', 'unpriced')) as are_of_pods,
        sum(cpu_core_seconds) as cpu,
        sum(memory_byte_seconds) as memory,
        sum(gpu_seconds) as gpu
    from mart.cost_hour
    where stage_id = :stage_id
        and hour >= :start
        and hour < :end
        and pod_key is not null
        and pool is null
        and not is_distribution
    group by cost_model_key, hour, pod_key
)

select
    hour,
    cost_model.cost_model,
    pod.namespace,
    pod.pod,
    coalesce(line.lines, 0) as lines,
    line.cpu as line_cpu_core_seconds,
    held.cpu as held_cpu_core_seconds,
    line.memory as line_memory_byte_seconds,
    held.memory as held_memory_byte_seconds,
    line.gpu as line_gpu_seconds,
    held.gpu as held_gpu_seconds
from held
full join line using (cost_model_key, hour, pod_key)
join core.cost_model using (cost_model_key)
left join core.pod using (pod_key)
where line.lines is distinct from 1
    or not line.are_of_pods
    or line.cpu is distinct from held.cpu
    or line.memory is distinct from held.memory
    or line.gpu is distinct from held.gpu
order by hour, pod.namespace, pod.pod
