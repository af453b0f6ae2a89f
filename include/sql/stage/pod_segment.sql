-- A pod's life in the window, cut where its request, GPU resource, node, phase or labels change.
-- Grain: pod × time; the segments of a pod do not overlap.
-- Invariant: no second is lost or counted twice between statements and segments.
with stated as (
    select
        pod.pod_key,
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
    where interval.start_at >= date_trunc('day', cast(:start as timestamptz), 'UTC')
        and interval.start_at < :end
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
),

segment as (
    select
        pod_key,
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

node_life as (
    select
        node.node,
        node_segment.node_key,
        min(lower(node_segment.during)) as first_at,
        max(upper(node_segment.during)) as last_at
    from core.node_segment
    join core.node using (node_key)
    where node_segment.stage_id = :stage_id
    group by node.node, node_segment.node_key
),

seated as (
    select distinct on (cut.pod_key, lower(cut.span))
        cut.*,
        coalesce(node_life.node_key, unseen.node_key) as node_key
    from cut
    left join node_life on node_life.node = cut.node
    left join core.node as unseen
        on unseen.cluster_key = :cluster_key and unseen.uid = 'node/' || cut.node
    order by
        cut.pod_key,
        lower(cut.span),
        core.seconds(tstzrange(node_life.first_at, node_life.last_at) * cut.span) desc nulls last,
        node_life.last_at desc
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
    span,
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
