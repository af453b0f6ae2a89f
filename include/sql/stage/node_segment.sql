-- A node's life in the window, cut where something about it changes, and at UTC midnights.
-- Grain: node × time; the segments of a node do not overlap.
-- Why presumed segments: while no source speaks, a node seen on both sides (or on one side, the other
-- being midnight) was there all the same, and somebody paid for it.
-- Why whole days are looked at: an hour without any statement takes its nodes from the hours next to it,
-- and a day in one piece gives the same as its hours one by one.
with stated as (
    select
        node.node_key,
        date_trunc('day', interval.start_at, 'UTC') as day,
        interval.provider_id,
        interval.region,
        interval.zone,
        interval.instance_type,
        interval.os,
        interval.capacity_type,
        interval.cpu_capacity_cores,
        interval.cpu_allocatable_cores,
        interval.memory_capacity_bytes,
        interval.memory_allocatable_bytes,
        interval.gpu_capacity,
        interval.gpu_allocatable,
        interval.gpu_model,
        interval.is_ready,
        coalesce(interval.is_virtual, false) as is_virtual,
        interval.labels,
        interval.created_at,
        tstzrange(interval.start_at, interval.end_at) * spoken.span as during
    from raw.node_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'node', :day_start, :day_end) as spoken using (load_id)
    join core.node on node.cluster_key = :cluster_key and node.uid = interval.uid
    where interval.start_at >= :day_start
        and interval.start_at < :day_end
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
    window life as (partition by node_key, day order by lower(during))
),

run as (
    select
        marked.*,
        sum(is_new) over (partition by node_key, day order by lower(during)) as run_number
    from marked
),

segment as (
    select distinct on (node_key, day, run_number)
        run.*,
        tstzrange(
            min(lower(during)) over (partition by node_key, day, run_number),
            max(upper(during)) over (partition by node_key, day, run_number)
        ) as life
    from run
    order by node_key, day, run_number, lower(during)
),

silence as (
    select
        day,
        part.span
    from generate_series(
        cast(:day_start as timestamptz), cast(:day_end as timestamptz) - interval '1 day', interval '1 day'
    ) as day
    cross join lateral unnest(
        tstzmultirange(tstzrange(day, day + interval '1 day'))
        - ops.covered(cast(:cluster_key as smallint), 'node', day, day + interval '1 day')
    ) as part(span)
),

presumed as (
    select distinct on (beside.node_key, silence.span)
        beside.*,
        tstzrange(
            least(greatest(lower(silence.span), beside.created_at), upper(silence.span)),
            upper(silence.span)
        ) as presumed_life
    from silence
    join segment as beside
        on beside.day = silence.day
        and (upper(beside.life) = lower(silence.span) or lower(beside.life) = upper(silence.span))
    where (
        lower(silence.span) = silence.day
        or exists (
            select
            from segment as before
            where before.node_key = beside.node_key and upper(before.life) = lower(silence.span)
        )
    )
    and (
        upper(silence.span) = silence.day + interval '1 day'
        or exists (
            select
            from segment as after
            where after.node_key = beside.node_key and lower(after.life) = upper(silence.span)
        )
    )
    order by beside.node_key, silence.span, lower(beside.life)
),

lived as (
    select
        segment.*,
        segment.life as lived_during,
        false as is_presumed
    from segment
    union all
    select
        presumed.*,
        true
    from presumed
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
    lived_during * tstzrange(:start, :end),
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
    is_virtual,
    labels
from lived
where lived_during && tstzrange(:start, :end)
