-- A node's life in the window, cut where something about it changes.
-- Grain: node × time; the segments of a node do not overlap.
-- Why presumed segments: while no source speaks, a node seen on either side (or on one side, the other
-- being the window's edge) was there all the same, and its money must show as uncovered.
with stated as (
    select
        node.node_key,
        interval.*,
        tstzrange(interval.start_at, interval.end_at) * spoken.span as during
    from raw.node_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'node', :start, :end) as spoken using (load_id)
    join core.node on node.cluster_key = :cluster_key and node.uid = interval.uid
    where interval.start_at >= date_trunc('day', cast(:start as timestamptz), 'UTC')
        and interval.start_at < :end
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
),

described as (
    select
        stated.*,
        md5(row(
            provider_id, region, zone, instance_type, os, capacity_type, trim_scale(cpu_capacity_cores),
            trim_scale(cpu_allocatable_cores), trim_scale(memory_capacity_bytes),
            trim_scale(memory_allocatable_bytes), trim_scale(gpu_capacity), trim_scale(gpu_allocatable),
            gpu_model, is_ready, is_virtual, labels
        )::text) as description
    from stated
),

marked as (
    select
        described.*,
        (
            lag(upper(during)) over life is distinct from lower(during)
            or lag(description) over life is distinct from description
        )::integer as is_new
    from described
    window life as (partition by node_key order by lower(during))
),

run as (
    select
        marked.*,
        sum(is_new) over (partition by node_key order by lower(during)) as run_number
    from marked
),

segment as (
    select distinct on (node_key, run_number)
        run.*,
        tstzrange(
            min(lower(during)) over (partition by node_key, run_number),
            max(upper(during)) over (partition by node_key, run_number)
        ) as life
    from run
    order by node_key, run_number, lower(during)
),

silence as (
    select span
    from unnest(
        tstzmultirange(tstzrange(:start, :end))
        - ops.covered(cast(:cluster_key as smallint), 'node', :start, :end)
    ) as part(span)
),

presumed as (
    select distinct on (segment.node_key, silence.span)
        segment.*,
        tstzrange(
            least(greatest(lower(silence.span), segment.created_at), upper(silence.span)),
            upper(silence.span)
        ) as presumed_life
    from silence
    join segment
        on upper(segment.life) = lower(silence.span) or lower(segment.life) = upper(silence.span)
    where (
        lower(silence.span) = :start
        or exists (
            select from segment as before
            where before.node_key = segment.node_key and upper(before.life) = lower(silence.span)
        )
    )
    and (
        upper(silence.span) = :end
        or exists (
            select from segment as after
            where after.node_key = segment.node_key and lower(after.life) = upper(silence.span)
        )
    )
    order by segment.node_key, silence.span, lower(segment.life)
),

lived as (
    select segment.*, segment.life as during_life, false as is_presumed from segment
    union all
    select
        presumed.node_key, presumed.load_id, presumed.start_at, presumed.end_at, presumed.uid, presumed.node,
        presumed.provider_id, presumed.region, presumed.zone, presumed.instance_type, presumed.os,
        presumed.capacity_type, presumed.cpu_capacity_cores, presumed.cpu_allocatable_cores,
        presumed.memory_capacity_bytes, presumed.memory_allocatable_bytes, presumed.gpu_capacity,
        presumed.gpu_allocatable, presumed.gpu_resource, presumed.gpu_model, presumed.is_ready,
        presumed.is_virtual, presumed.created_at, presumed.labels, presumed.during, presumed.description,
        presumed.is_new, presumed.run_number, presumed.life, presumed.presumed_life, true
    from presumed
    where not isempty(presumed.presumed_life)
)

insert into core.node_segment (
    stage_id, cluster_key, node_key, during, is_presumed, provider_id, region, zone, instance_type, os,
    capacity_type, cpu_capacity_cores, cpu_allocatable_cores, memory_capacity_bytes,
    memory_allocatable_bytes, gpu_capacity, gpu_allocatable, gpu_model, is_ready, is_virtual, labels
)
select
    :stage_id,
    :cluster_key,
    node_key,
    during_life,
    is_presumed,
    provider_id,
    region,
    zone,
    instance_type,
    os,
    capacity_type,
    cpu_capacity_cores,
    cpu_allocatable_cores,
    memory_capacity_bytes,
    memory_allocatable_bytes,
    gpu_capacity,
    gpu_allocatable,
    gpu_model,
    is_ready,
    coalesce(is_virtual, false),
    labels
from lived
