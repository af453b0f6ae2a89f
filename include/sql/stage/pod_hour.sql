-- What each pod asked for and used in each hour.
-- Grain: pod × hour.
-- Why two requests: max(requested, used) is taken over the seconds both cover, so the part of the
-- request that falls into covered seconds is kept beside the whole.
with hour as (
    select
        started as hour,
        tstzrange(started, started + interval '1 hour') as span
    from generate_series(
        cast(:start as timestamptz), cast(:end as timestamptz) - interval '1 hour', interval '1 hour'
    ) as started
),

used as (
    select
        pod_key,
        hour,
        min(node_key) as node_key,
        sum(cpu_used_core_seconds) as cpu_used_core_seconds,
        range_agg(cpu_used_covered) as cpu_covered,
        sum(memory_used_byte_seconds) as memory_used_byte_seconds,
        range_agg(memory_used_covered) as memory_covered
    from core.container_hour
    where stage_id = :stage_id
    group by pod_key, hour
),

-- Materialized, so that a span is worked out once and not wherever its length is asked for.
spanned as materialized (
    select
        pod_segment.pod_key,
        pod_segment.node_key,
        coalesce(pod_segment.cpu_request_cores, 0) as cpu_request_cores,
        coalesce(pod_segment.memory_request_bytes, 0) as memory_request_bytes,
        coalesce(pod_segment.gpu_request, 0) as gpu_request,
        hour.hour,
        pod_segment.during * hour.span as during
    from core.pod_segment
    join hour on hour.span && pod_segment.during
    where pod_segment.stage_id = :stage_id and pod_segment.is_holding
),

held as materialized (
    select
        spanned.*,
        core.seconds(spanned.during) as seconds,
        tstzmultirange(spanned.during) * used.cpu_covered as cpu_used_during,
        tstzmultirange(spanned.during) * used.memory_covered as memory_used_during
    from spanned
    left join used using (pod_key, hour)
),

requested as (
    select
        pod_key,
        hour,
        (array_agg(node_key order by upper(during) desc))[1] as node_key,
        sum(seconds) as seconds,
        sum(cpu_request_cores * seconds) as cpu_request_core_seconds,
        sum(cpu_request_cores * core.seconds(cpu_used_during)) as cpu_request_used_core_seconds,
        sum(memory_request_bytes * seconds) as memory_request_byte_seconds,
        sum(memory_request_bytes * core.seconds(memory_used_during)) as memory_request_used_byte_seconds,
        sum(gpu_request * seconds) as gpu_request_gpu_seconds
    from held
    group by pod_key, hour
),

seat as (
    select distinct on (pod_segment.pod_key, hour.hour)
        pod_segment.pod_key,
        hour.hour,
        pod_segment.node_key
    from core.pod_segment
    join hour on hour.span && pod_segment.during
    where pod_segment.stage_id = :stage_id and pod_segment.node_key is not null and not pod_segment.is_holding
    order by pod_segment.pod_key, hour.hour, upper(pod_segment.during) desc
)

insert into core.pod_hour (
    stage_id, cluster_key, hour, pod_key, node_key, seconds, cpu_request_core_seconds,
    cpu_request_used_core_seconds, cpu_used_core_seconds, cpu_used_covered_seconds,
    memory_request_byte_seconds, memory_request_used_byte_seconds, memory_used_byte_seconds,
    memory_used_covered_seconds, gpu_request_gpu_seconds
)
select
    :stage_id,
    :cluster_key,
    hour,
    pod_key,
    coalesce(requested.node_key, seat.node_key, used.node_key),
    coalesce(requested.seconds, 0),
    coalesce(requested.cpu_request_core_seconds, 0),
    coalesce(requested.cpu_request_used_core_seconds, 0),
    used.cpu_used_core_seconds,
    coalesce(core.seconds(used.cpu_covered), 0),
    coalesce(requested.memory_request_byte_seconds, 0),
    coalesce(requested.memory_request_used_byte_seconds, 0),
    used.memory_used_byte_seconds,
    coalesce(core.seconds(used.memory_covered), 0),
    coalesce(requested.gpu_request_gpu_seconds, 0)
from requested
full join used using (pod_key, hour)
left join seat using (pod_key, hour)
