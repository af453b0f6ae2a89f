-- What each container used in each hour, and for which times that is known.
-- Grain: pod × container × hour.
-- Why the join by name: sources without uids (cAdvisor) name a pod; the one whose life overlaps most is meant.
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
            else round(cpu_used_core_seconds * core.seconds(during) / core.seconds(stated_during), 9)
        end as cpu_amount,
        case
            when during = stated_during then memory_used_byte_seconds
            else round(memory_used_byte_seconds * core.seconds(during) / core.seconds(stated_during), 9)
        end as memory_amount
    from used
),

pod_life as (
    select
        pod.namespace,
        pod.pod,
        pod_segment.pod_key,
        min(lower(pod_segment.during)) as first_at,
        max(upper(pod_segment.during)) as last_at
    from core.pod_segment
    join core.pod using (pod_key)
    where pod_segment.stage_id = :stage_id and pod_segment.is_holding
    group by pod.namespace, pod.pod, pod_segment.pod_key
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
    left join core.pod as unseen
        on clipped.uid is null
        and unseen.cluster_key = :cluster_key
        and unseen.uid = clipped.namespace || '/' || clipped.pod
    order by
        clipped.row_id,
        core.seconds(tstzrange(pod_life.first_at, pod_life.last_at) * clipped.during) desc nulls last,
        abs(extract(epoch from lower(clipped.during) - pod_life.last_at)),
        pod_life.pod_key
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
    min(node.node_key),
    sum(meant.cpu_amount),
    coalesce(range_agg(meant.during) filter (where meant.cpu_amount is not null), '{}'),
    sum(meant.memory_amount),
    coalesce(range_agg(meant.during) filter (where meant.memory_amount is not null), '{}')
from meant
left join (
    select distinct on (named.node)
        named.node,
        node_segment.node_key
    from core.node_segment
    join core.node as named using (node_key)
    where node_segment.stage_id = :stage_id
    order by named.node, upper(node_segment.during) desc
) as node on node.node = meant.node
group by meant.hour, meant.pod_key, meant.container
