-- The staged direct cost lines. Node and pod are -1 where a line has none, so that lines compare by key.
select
    hour,
    cost_model_key,
    revision,
    line,
    coalesce(node_key, -1) as node_key,
    coalesce(pod_key, -1) as pod_key,
    coalesce(pool, '') as pool,
    owner,
    currency,
    cpu_core_seconds,
    memory_byte_seconds,
    gpu_seconds,
    cost
from mart.cost_hour
where stage_id = :stage_id and hour >= :start and hour < :end and not is_distribution
