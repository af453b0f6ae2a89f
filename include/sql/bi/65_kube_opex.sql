-- Shares of the cluster's capacity, in the words of kube-opex-analytics: cumulative_ratio and ratio are views over
-- quantities; its charge_back is a cost model (include/config/cost_models/charge_back.yaml).
-- Grain: cluster × hour × namespace or the nodes' own share × resource. Names of excluded namespaces are hidden.

create view bi.capacity_share_hour as
with hour as (
    select
        published.cluster_key,
        cluster.cluster,
        published.stage_id,
        published.hour
    from ops.published_hour as published
    join core.cluster using (cluster_key)
),

capacity as (
    select
        hour.cluster,
        hour.hour,
        hour.stage_id,
        sum(node_hour.cpu_capacity_core_seconds) as cpu,
        sum(node_hour.memory_capacity_byte_seconds) as memory,
        sum(node_hour.gpu_capacity_gpu_seconds) as gpu,
        sum(greatest(node_hour.cpu_covered_core_seconds - node_hour.cpu_allocatable_core_seconds, 0)) as cpu_reserved,
        sum(greatest(node_hour.memory_covered_byte_seconds - node_hour.memory_allocatable_byte_seconds, 0))
        as memory_reserved,
        sum(greatest(node_hour.gpu_covered_gpu_seconds - node_hour.gpu_allocatable_gpu_seconds, 0)) as gpu_reserved
    from hour
    join core.node_hour on node_hour.stage_id = hour.stage_id and node_hour.hour = hour.hour
    where not node_hour.is_virtual
    group by hour.cluster, hour.hour, hour.stage_id
),

taken as (
    select
        hour.cluster,
        hour.hour,
        pod.namespace,
        sum(pod_hour.cpu_used_core_seconds) as cpu_used,
        sum(pod_hour.memory_used_byte_seconds) as memory_used,
        sum(pod_hour.cpu_request_core_seconds) as cpu_requested,
        sum(pod_hour.memory_request_byte_seconds) as memory_requested,
        sum(pod_hour.gpu_request_gpu_seconds) as gpu_requested
    from hour
    join core.pod_hour on pod_hour.stage_id = hour.stage_id and pod_hour.hour = hour.hour
    join core.shown_pod as pod using (pod_key)
    group by hour.cluster, hour.hour, pod.namespace
)

select
    capacity.cluster,
    capacity.hour,
    taken.namespace,
    false as is_non_allocatable,
    resource.resource,
    100 * resource.used / nullif(resource.capacity, 0) as used_percent,
    100 * resource.requested / nullif(resource.capacity, 0) as requested_percent
from capacity
join taken on taken.cluster = capacity.cluster and taken.hour = capacity.hour
cross join lateral (
    values
    ('cpu', taken.cpu_used, taken.cpu_requested, capacity.cpu),
    ('memory', taken.memory_used, taken.memory_requested, capacity.memory),
    ('gpu', null, taken.gpu_requested, capacity.gpu)
) as resource (resource, used, requested, capacity)
where resource.capacity > 0
union all
select
    capacity.cluster,
    capacity.hour,
    null,
    true,
    resource.resource,
    100 * resource.reserved / resource.capacity,
    100 * resource.reserved / resource.capacity
from capacity
cross join lateral (
    values
    ('cpu', capacity.cpu_reserved, capacity.cpu),
    ('memory', capacity.memory_reserved, capacity.memory),
    ('gpu', capacity.gpu_reserved, capacity.gpu)
) as resource (resource, reserved, capacity)
where resource.capacity > 0;

comment on view bi.capacity_share_hour is 'What part of the cluster''s capacity each namespace used and asked for in each hour, and what the nodes keep for themselves.';
comment on column bi.capacity_share_hour.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.capacity_share_hour.hour is 'Start of the hour, UTC.';
comment on column bi.capacity_share_hour.namespace is 'Namespace; null for the nodes'' own share, and for namespaces that are left out of reports.';
comment on column bi.capacity_share_hour.is_non_allocatable is 'True for what nodes keep for themselves (capacity minus allocatable), whatever a namespace is called.';
comment on column bi.capacity_share_hour.resource is 'cpu, memory or gpu.';
comment on column bi.capacity_share_hour.used_percent is 'Use in percent of capacity; null = not known.';
comment on column bi.capacity_share_hour.requested_percent is 'Requests in percent of capacity.';

create view bi.capacity_share_day as
select
    cluster,
    cast(hour at time zone 'UTC' as date) as day,
    coalesce(namespace, case when is_non_allocatable then 'non-allocatable' else 'excluded' end) as stack,
    is_non_allocatable,
    resource,
    sum(used_percent) as used_cumulative_ratio,
    100 * sum(used_percent) / nullif(
        sum(sum(used_percent)) over (partition by cluster, cast(hour at time zone 'UTC' as date), resource), 0
    ) as used_ratio,
    sum(requested_percent) as requested_cumulative_ratio,
    100 * sum(requested_percent) / nullif(
        sum(sum(requested_percent)) over (partition by cluster, cast(hour at time zone 'UTC' as date), resource), 0
    ) as requested_ratio
from bi.capacity_share_hour
group by cluster, cast(hour at time zone 'UTC' as date), namespace, is_non_allocatable, resource;

comment on view bi.capacity_share_day is 'The daily accounting of kube-opex-analytics: cumulative_ratio adds up the hours'' percentages (10 % all day = 240), ratio is each one''s part of all, in percent.';
comment on column bi.capacity_share_day.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.capacity_share_day.day is 'UTC day.';
comment on column bi.capacity_share_day.stack is 'Namespace; non-allocatable for the nodes'' own share; excluded for namespaces left out of reports.';
comment on column bi.capacity_share_day.is_non_allocatable is 'True for what nodes keep for themselves; a namespace of that name stays apart.';
comment on column bi.capacity_share_day.resource is 'cpu, memory or gpu.';
comment on column bi.capacity_share_day.used_cumulative_ratio is 'Use: percent-hours.';
comment on column bi.capacity_share_day.used_ratio is 'Use: part of all use, in percent; the parts add up to 100.';
comment on column bi.capacity_share_day.requested_cumulative_ratio is 'Requests: percent-hours.';
comment on column bi.capacity_share_day.requested_ratio is 'Requests: part of all requests, in percent.';
