-- A node's money is cut by its capacity over time, so the hours must re-add to its segments exactly, and the
-- segments that somebody stated to the statements.
-- severity: critical
-- expects: a node's hours add up to capacity × duration of its segments, and its stated segments to its statements
-- remedy: Stage the window again; if it stays, this is a defect of the consolidation, please report it.
with by_segment as (
    select
        node_key,
        sum(core.seconds(during)) as seconds,
        coalesce(sum(core.seconds(during)) filter (where not is_presumed), 0) as stated_seconds,
        sum(coalesce(cpu_capacity_cores, 0) * core.seconds(during)) as cpu,
        sum(coalesce(memory_capacity_bytes, 0) * core.seconds(during)) as memory,
        sum(coalesce(gpu_capacity, 0) * core.seconds(during)) as gpu
    from core.node_segment
    where stage_id = :stage_id
    group by node_key
),

by_hour as (
    select
        node_key,
        sum(seconds) as seconds,
        sum(cpu_capacity_core_seconds) as cpu,
        sum(memory_capacity_byte_seconds) as memory,
        sum(gpu_capacity_gpu_seconds) as gpu
    from core.node_hour
    where stage_id = :stage_id and hour >= :start and hour < :end
    group by node_key
),

stated as (
    select
        node.node_key,
        sum(core.seconds(tstzrange(interval.start_at, interval.end_at) * spoken.span)) as seconds
    from raw.node_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'node', :start, :end) as spoken using (load_id)
    join core.node on node.cluster_key = :cluster_key and node.uid = interval.uid
    where interval.start_at >= date_trunc('day', cast(:start as timestamptz), 'UTC')
        and interval.start_at < :end
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
    group by node.node_key
)

select
    node.node,
    stated.seconds as stated_seconds,
    by_segment.stated_seconds as staged_seconds,
    by_segment.seconds as segment_seconds,
    by_hour.seconds as hour_seconds,
    by_segment.cpu as segment_cpu_core_seconds,
    by_hour.cpu as hour_cpu_core_seconds,
    by_segment.memory as segment_memory_byte_seconds,
    by_hour.memory as hour_memory_byte_seconds,
    by_segment.gpu as segment_gpu_seconds,
    by_hour.gpu as hour_gpu_seconds
from by_segment
full join by_hour using (node_key)
full join stated using (node_key)
left join core.node using (node_key)
where coalesce(by_segment.seconds, 0) <> coalesce(by_hour.seconds, 0)
    or coalesce(by_segment.stated_seconds, 0) <> coalesce(stated.seconds, 0)
    or coalesce(by_segment.cpu, 0) <> coalesce(by_hour.cpu, 0)
    or coalesce(by_segment.memory, 0) <> coalesce(by_hour.memory, 0)
    or coalesce(by_segment.gpu, 0) <> coalesce(by_hour.gpu, 0)
order by node.node
