-- What the lines of a node-hour are for must be the node's capacity: money that balances over quantities that do
-- not would still be shared wrongly.
-- severity: critical
-- expects: for every node, hour and cost model the lines' core-, byte- and GPU-seconds add up to the node's capacity
-- remedy: This is a defect of the allocation; please report it with the rows shown.
with model as (
    select
        stage_hour.hour,
        cost_model.cost_model_key,
        cost_model.cost_model
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
        and cost_model.kind = 'resource'
),

line as (
    select
        cost_model_key,
        hour,
        node_key,
        sum(cpu_core_seconds) as cpu,
        sum(memory_byte_seconds) as memory,
        sum(gpu_seconds) as gpu
    from mart.cost_hour
    where stage_id = :stage_id
        and hour >= :start
        and hour < :end
        and node_key is not null
        and pool is null
        and not is_distribution
    group by cost_model_key, hour, node_key
)

select
    node_hour.hour,
    model.cost_model,
    node.node,
    line.cpu as lines_cpu_core_seconds,
    node_hour.cpu_capacity_core_seconds,
    line.memory as lines_memory_byte_seconds,
    node_hour.memory_capacity_byte_seconds,
    line.gpu as lines_gpu_seconds,
    node_hour.gpu_capacity_gpu_seconds
from core.node_hour
join core.node using (node_key)
join model using (hour)
left join line using (cost_model_key, hour, node_key)
where node_hour.stage_id = :stage_id
    and node_hour.hour >= :start
    and node_hour.hour < :end
    and not node_hour.is_virtual
    and (
        coalesce(line.cpu, 0) <> node_hour.cpu_capacity_core_seconds
        or coalesce(line.memory, 0) <> node_hour.memory_capacity_byte_seconds
        or coalesce(line.gpu, 0) <> node_hour.gpu_capacity_gpu_seconds
    )
order by node_hour.hour, node.node
