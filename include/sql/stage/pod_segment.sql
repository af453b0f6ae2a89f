-- A pod's life in the window, cut where its request, GPU resource, node, phase or labels change, and at
-- UTC midnights.
-- Grain: pod × time; the segments of a pod do not overlap.
-- Invariant: no second is lost or counted twice between statements and segments.
with stated as (
    select
        pod.pod_key,
        date_trunc('day', interval.start_at, 'UTC') as day,
        interval.node,
        interval.phase,
        trim_scale(interval.cpu_request_cores) as cpu_request_cores,
        trim_scale(interval.memory_request_bytes) as memory_request_bytes,
        trim_scale(interval.gpu_request) as gpu_request,
        interval.gpu_resource,
        trim_scale(interval.cpu_limit_cores) as cpu_limit_cores,
        trim_scale(interval.memory_limit_bytes) as memory_limit_bytes,
        interval.host_network,
        interval.labels,
        interval.annotations,
        tstzrange(interval.start_at, interval.end_at) * spoken.span as during
    from raw.pod_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'pod', :start, :end) as spoken using (load_id)
    join core.pod on pod.cluster_key = :cluster_key and pod.uid = interval.uid
    where interval.start_at >= :day_start
        and interval.start_at < :end
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
),

segment as (
    select
        pod_key,
        day,
        node,
        phase,
        cpu_request_cores,
        memory_request_bytes,
        gpu_request,
        gpu_resource,
        cpu_limit_cores,
        memory_limit_bytes,
        host_network,
        labels,
        annotations,
        range_agg(during) as spans
    from stated
    group by
        pod_key,
        day,
        node,
        phase,
        cpu_request_cores,
        memory_request_bytes,
        gpu_request,
        gpu_resource,
        cpu_limit_cores,
        memory_limit_bytes,
        host_network,
        labels,
        annotations
),

cut as (
    select
        segment.*,
        part.span
    from segment
    cross join lateral unnest(segment.spans) as part(span)
),

seated as (
    select
        cut.*,
        coalesce(named.node_key, unseen.node_key) as node_key,
        cut.span * coalesce(named.during, cut.span) as during
    from cut
    left join core.node_names(cast(:cluster_key as smallint), :day_start, :day_end) as named
        on named.node = cut.node and named.during && cut.span
    left join core.node as unseen
        on named.node_key is null
        and unseen.cluster_key = :cluster_key
        and unseen.uid = 'node/' || cut.node
)

insert into core.pod_segment (
    stage_id, cluster_key, pod_key, node_key, during, phase, is_holding, cpu_request_cores,
    memory_request_bytes, gpu_request, gpu_resource, cpu_limit_cores, memory_limit_bytes, host_network,
    labels, annotations
)
select
    :stage_id,
    :cluster_key,
    pod_key,
    node_key,
    during,
    phase,
    node is not null and coalesce(phase, '') not in ('Succeeded', 'Failed'),
    cpu_request_cores,
    memory_request_bytes,
    gpu_request,
    gpu_resource,
    cpu_limit_cores,
    memory_limit_bytes,
    host_network,
    labels,
    annotations
from seated
