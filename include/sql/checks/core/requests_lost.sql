-- What the sources stated is what the segments say: nothing lost in a join, nothing counted twice.
-- severity: critical
-- expects: a pod's holding statements, inside their loads' spans, add up to its holding segments
-- remedy: Stage the window again; if it stays, this is a defect of the consolidation, please report it.
with stated as (
    select
        uid,
        sum(seconds) as seconds,
        sum(coalesce(cpu_request_cores, 0) * seconds) as cpu,
        sum(coalesce(memory_request_bytes, 0) * seconds) as memory,
        sum(coalesce(gpu_request, 0) * seconds) as gpu
    from (
        select
            interval.*,
            core.seconds(tstzrange(interval.start_at, interval.end_at) * spoken.span) as seconds
        from raw.pod_interval as interval
        join ops.spoken(cast(:cluster_key as smallint), 'pod', :start, :end) as spoken using (load_id)
        where interval.start_at >= date_trunc('day', cast(:start as timestamptz), 'UTC')
            and interval.start_at < :end
            and tstzrange(interval.start_at, interval.end_at) && spoken.span
            and interval.node is not null
            and coalesce(interval.phase, '') not in ('Succeeded', 'Failed')
    ) as clipped
    group by uid
),

staged as (
    select
        pod.uid,
        sum(core.seconds(during)) as seconds,
        sum(coalesce(cpu_request_cores, 0) * core.seconds(during)) as cpu,
        sum(coalesce(memory_request_bytes, 0) * core.seconds(during)) as memory,
        sum(coalesce(gpu_request, 0) * core.seconds(during)) as gpu
    from core.pod_segment
    join core.pod using (pod_key)
    where pod_segment.stage_id = :stage_id and pod_segment.is_holding
    group by pod.uid
)

select
    uid,
    stated.seconds as stated_seconds,
    staged.seconds as staged_seconds,
    stated.cpu as stated_cpu_core_seconds,
    staged.cpu as staged_cpu_core_seconds,
    stated.memory as stated_memory_byte_seconds,
    staged.memory as staged_memory_byte_seconds,
    stated.gpu as stated_gpu_seconds,
    staged.gpu as staged_gpu_seconds
from stated
full join staged using (uid)
where coalesce(stated.seconds, 0) <> coalesce(staged.seconds, 0)
    or coalesce(stated.cpu, 0) <> coalesce(staged.cpu, 0)
    or coalesce(stated.memory, 0) <> coalesce(staged.memory, 0)
    or coalesce(stated.gpu, 0) <> coalesce(staged.gpu, 0)
order by uid
