-- What each container used in each hour, and for which times that is known.
-- Grain: pod × container × hour.
-- Why the join by name: sources without uids (cAdvisor) name a pod; the one whose life in the hour overlaps
-- most, else the nearest, is meant.
-- Invariant: the amounts of the usage rows inside their loads' spans add up to the amounts here.
with used as (
    select
        row_number() over () as row_id,
        interval.uid,
        interval.namespace,
        interval.pod,
        interval.container,
        interval.node,
        date_trunc('hour', interval.start_at, 'UTC') as hour,
        tstzrange(interval.start_at, interval.end_at) as stated_during,
        tstzrange(interval.start_at, interval.end_at) * spoken.span as during,
        interval.cpu_used_core_seconds,
        interval.memory_used_byte_seconds
    from raw.usage_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'usage', :start, :end) as spoken using (load_id)
    where interval.start_at >= :start
        and interval.start_at < :end
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
),

clipped as (
    select
        used.*,
        case
            when during = stated_during then cpu_used_core_seconds
            else core.portion(cpu_used_core_seconds, core.seconds(during), core.seconds(stated_during))
        end as cpu_amount,
        case
            when during = stated_during then memory_used_byte_seconds
            else core.portion(memory_used_byte_seconds, core.seconds(during), core.seconds(stated_during))
        end as memory_amount
    from used
),

hour as (
    select
        started as hour,
        tstzrange(started, started + interval '1 hour') as span
    from generate_series(
        cast(:start as timestamptz), cast(:end as timestamptz) - interval '1 hour', interval '1 hour'
    ) as started
),

pod_life as (
    select
        pod.namespace,
        pod.pod,
        pod.uid,
        pod_segment.pod_key,
        hour.hour,
        range_merge(range_agg(pod_segment.during * hour.span)) as life
    from core.pod_segment
    join core.pod using (pod_key)
    join hour on hour.span && pod_segment.during
    where pod_segment.stage_id = :stage_id
    group by pod.pod_key, pod_segment.pod_key, hour.hour
),

meant as (
    select distinct on (clipped.row_id)
        clipped.*,
        coalesce(by_uid.pod_key, pod_life.pod_key, unseen.pod_key) as pod_key
    from clipped
    left join core.pod as by_uid
        on by_uid.cluster_key = :cluster_key and by_uid.uid = clipped.uid
    left join pod_life
        on clipped.uid is null
        and pod_life.namespace = clipped.namespace
        and pod_life.pod = clipped.pod
        and pod_life.hour = clipped.hour
    left join core.pod as unseen
        on clipped.uid is null
        and unseen.cluster_key = :cluster_key
        and unseen.uid = clipped.namespace || '/' || clipped.pod
    order by
        clipped.row_id,
        core.seconds(pod_life.life * clipped.during) desc nulls last,
        greatest(lower(clipped.during) - upper(pod_life.life), lower(pod_life.life) - upper(clipped.during)),
        pod_life.uid collate "C"
)

insert into core.container_hour (
    stage_id, cluster_key, hour, pod_key, container, node_key, cpu_used_core_seconds, cpu_used_covered,
    memory_used_byte_seconds, memory_used_covered
)
select
    :stage_id,
    :cluster_key,
    meant.hour,
    meant.pod_key,
    meant.container,
    min(named.node_key),
    sum(meant.cpu_amount),
    coalesce(range_agg(meant.during) filter (where meant.cpu_amount is not null), '{}'),
    sum(meant.memory_amount),
    coalesce(range_agg(meant.during) filter (where meant.memory_amount is not null), '{}')
from meant
left join core.node_names(cast(:cluster_key as smallint), :day_start, :day_end) as named
    on named.node = meant.node and named.during @> meant.hour + interval '59 minutes 59.999999 seconds'
group by meant.hour, meant.pod_key, meant.container
