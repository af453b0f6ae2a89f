-- What each node offered in each hour, and for how many of its seconds the pod list is known.
-- Grain: node × hour, for as long as the node existed.
with hour as (
    select
        started as hour,
        tstzrange(started, started + interval '1 hour') as span
    from generate_series(
        cast(:start as timestamptz), cast(:end as timestamptz) - interval '1 hour', interval '1 hour'
    ) as started
),

pods_known as (
    select ops.covered(cast(:cluster_key as smallint), 'pod', :start, :end) as spans
),

piece as (
    select
        node_segment.*,
        hour.hour,
        core.seconds(node_segment.during * hour.span) as seconds,
        core.seconds(tstzmultirange(node_segment.during * hour.span) * pods_known.spans) as covered_seconds
    from core.node_segment
    join hour on hour.span && node_segment.during
    cross join pods_known
    where node_segment.stage_id = :stage_id
)

insert into core.node_hour (
    stage_id, cluster_key, hour, node_key, is_virtual, seconds, ready_seconds, covered_seconds,
    cpu_capacity_core_seconds, memory_capacity_byte_seconds, gpu_capacity_gpu_seconds,
    cpu_covered_core_seconds, memory_covered_byte_seconds, gpu_covered_gpu_seconds,
    cpu_allocatable_core_seconds, memory_allocatable_byte_seconds, gpu_allocatable_gpu_seconds
)
select
    :stage_id,
    :cluster_key,
    hour,
    node_key,
    bool_or(is_virtual),
    sum(seconds),
    coalesce(sum(seconds) filter (where is_ready and not is_presumed), 0),
    sum(covered_seconds),
    sum(coalesce(cpu_capacity_cores, 0) * seconds),
    sum(coalesce(memory_capacity_bytes, 0) * seconds),
    sum(coalesce(gpu_capacity, 0) * seconds),
    sum(coalesce(cpu_capacity_cores, 0) * covered_seconds),
    sum(coalesce(memory_capacity_bytes, 0) * covered_seconds),
    sum(coalesce(gpu_capacity, 0) * covered_seconds),
    sum(coalesce(cpu_allocatable_cores, cpu_capacity_cores, 0) * covered_seconds),
    sum(coalesce(memory_allocatable_bytes, memory_capacity_bytes, 0) * covered_seconds),
    sum(coalesce(gpu_allocatable, gpu_capacity, 0) * covered_seconds)
from piece
group by hour, node_key
