-- A container that used more than its whole machine offers points at a counter reset, a wrong unit or a wrong
-- node. It is billed as stated, hence the warning. A tenth is let pass: counters are not read on the second.
-- severity: warning
-- expects: usage of a container is at most 1.1 times the capacity of its node (of the largest node, where none is named)
with node as (
    select
        interval.node,
        max(interval.cpu_capacity_cores) as cpu_capacity_cores,
        max(interval.memory_capacity_bytes) as memory_capacity_bytes
    from raw.node_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'node', :start, :end) as spoken using (load_id)
    where interval.start_at >= date_trunc('day', cast(:start as timestamptz), 'UTC')
        and interval.start_at < :end
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
        and not coalesce(interval.is_virtual, false)
    group by interval.node
),

largest as (
    select
        max(cpu_capacity_cores) as cpu_capacity_cores,
        max(memory_capacity_bytes) as memory_capacity_bytes
    from node
),

used as (
    select
        interval.*,
        extract(epoch from interval.end_at - interval.start_at) as seconds,
        coalesce(node.cpu_capacity_cores, largest.cpu_capacity_cores) as cpu_capacity_cores,
        coalesce(node.memory_capacity_bytes, largest.memory_capacity_bytes) as memory_capacity_bytes
    from raw.usage_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'usage', :start, :end) as spoken using (load_id)
    left join node using (node)
    cross join largest
    where interval.start_at >= :start
        and interval.start_at < :end
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
)

select
    namespace,
    pod,
    container,
    node,
    start_at,
    seconds,
    cpu_used_core_seconds,
    cpu_capacity_cores,
    memory_used_byte_seconds,
    memory_capacity_bytes
from used
where cpu_used_core_seconds > cpu_capacity_cores * seconds * 1.1
    or memory_used_byte_seconds > memory_capacity_bytes * seconds * 1.1
order by namespace, pod, container, start_at
