-- Gives every pod the window speaks of a key.
-- Grain: one row per pod uid; a pod that only a usage source without uids names in an hour gets
-- "namespace/pod".
-- Ordered by uid, so that windows registering at once wait for each other and never deadlock.
with stated as (
    select
        interval.uid,
        interval.namespace,
        interval.pod,
        interval.workload_kind,
        interval.workload_name,
        tstzrange(interval.start_at, interval.end_at) * spoken.span as during
    from raw.pod_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'pod', :start, :end) as spoken using (load_id)
    where interval.start_at >= :day_start
        and interval.start_at < :end
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
),

used as (
    select distinct
        interval.uid,
        interval.namespace,
        interval.pod,
        date_trunc('hour', interval.start_at, 'UTC') as hour
    from raw.usage_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'usage', :start, :end) as spoken using (load_id)
    where interval.start_at >= :start
        and interval.start_at < :end
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
),

named as (
    select
        uid,
        namespace,
        pod,
        workload_kind,
        workload_name,
        0 as preference
    from stated
    union all
    select
        coalesce(uid, namespace || '/' || pod),
        namespace,
        pod,
        null,
        null,
        1
    from used
    where uid is not null
        or not exists (
            select
            from stated
            where stated.namespace = used.namespace
                and stated.pod = used.pod
                and stated.during && tstzrange(used.hour, used.hour + interval '1 hour')
        )
)

insert into core.pod (cluster_key, uid, namespace, pod, workload_kind, workload_name)
select
    cast(:cluster_key as smallint),
    seen.uid,
    seen.namespace,
    seen.pod,
    seen.workload_kind,
    seen.workload_name
from (
    select distinct on (uid) *
    from named
    order by uid, preference, workload_kind nulls last, workload_name nulls last, namespace, pod
) as seen
order by seen.uid
on conflict (cluster_key, uid) do update
set
    workload_kind = excluded.workload_kind,
    workload_name = excluded.workload_name
where pod.workload_kind is null and excluded.workload_kind is not null
