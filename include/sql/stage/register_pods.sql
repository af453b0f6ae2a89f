-- Gives every pod the window speaks of a key.
-- Grain: one row per pod uid; a pod that only a usage source without uids names gets "namespace/pod".
-- Ordered by uid, so that windows registering at once wait for each other and never deadlock.
insert into core.pod (cluster_key, uid, namespace, pod, workload_kind, workload_name)
select
    cast(:cluster_key as smallint),
    seen.uid,
    seen.namespace,
    seen.pod,
    seen.workload_kind,
    seen.workload_name
from (
    select distinct on (named.uid)
        named.uid,
        named.namespace,
        named.pod,
        named.workload_kind,
        named.workload_name
    from (
        select
            stated.uid,
            stated.namespace,
            stated.pod,
            stated.workload_kind,
            stated.workload_name,
            0 as preference
        from raw.pod_interval as stated
        join ops.spoken(cast(:cluster_key as smallint), 'pod', :start, :end) as spoken using (load_id)
        where stated.start_at >= date_trunc('day', cast(:start as timestamptz), 'UTC')
            and stated.start_at < :end
            and tstzrange(stated.start_at, stated.end_at) && spoken.span
        union all
        select distinct
            coalesce(used.uid, used.namespace || '/' || used.pod),
            used.namespace,
            used.pod,
            null,
            null,
            1
        from raw.usage_interval as used
        join ops.spoken(cast(:cluster_key as smallint), 'usage', :start, :end) as spoken using (load_id)
        where used.start_at >= date_trunc('day', cast(:start as timestamptz), 'UTC')
            and used.start_at < :end
            and tstzrange(used.start_at, used.end_at) && spoken.span
            and (
                used.uid is not null
                or (used.namespace, used.pod) not in (
                    select
                        stated.namespace,
                        stated.pod
                    from raw.pod_interval as stated
                    join ops.spoken(cast(:cluster_key as smallint), 'pod', :start, :end) as spoken using (load_id)
                    where stated.start_at >= date_trunc('day', cast(:start as timestamptz), 'UTC')
                        and stated.start_at < :end
                        and tstzrange(stated.start_at, stated.end_at) && spoken.span
                        and stated.node is not null
                        and coalesce(stated.phase, '') not in ('Succeeded', 'Failed')
                )
            )
    ) as named
    order by named.uid, named.preference, named.workload_kind nulls last, named.workload_name nulls last
) as seen
order by seen.uid
on conflict (cluster_key, uid) do update
set
    workload_kind = excluded.workload_kind,
    workload_name = excluded.workload_name
where pod.workload_kind is null and excluded.workload_kind is not null
