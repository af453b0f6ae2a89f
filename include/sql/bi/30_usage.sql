-- Requests against usage, and the efficiency they give.
-- Missing is not zero: usage is null where no source spoke, and is only ever compared with the requests
-- of the seconds it is known for. An efficiency without request or without usage is null.

create view bi.requests_and_usage_hour as
select
    cluster.cluster,
    published.hour,
    pod.namespace,
    pod.workload_kind,
    pod.workload_name,
    count(*) as pods,
    sum(pod_hour.seconds) / 3600 as pod_hours,
    sum(pod_hour.cpu_request_core_seconds) / 3600 as cpu_requested_core_hours,
    sum(pod_hour.cpu_request_used_core_seconds) / 3600 as cpu_requested_known_core_hours,
    sum(pod_hour.cpu_used_core_seconds) / 3600 as cpu_used_core_hours,
    round(
        sum(least(pod_hour.cpu_used_covered_seconds, pod_hour.seconds)) / nullif(sum(pod_hour.seconds), 0), 6
    ) as cpu_used_covered_share,
    sum(pod_hour.memory_request_byte_seconds) / 3600 / 1073741824 as memory_requested_gib_hours,
    sum(pod_hour.memory_request_used_byte_seconds) / 3600 / 1073741824 as memory_requested_known_gib_hours,
    sum(pod_hour.memory_used_byte_seconds) / 3600 / 1073741824 as memory_used_gib_hours,
    round(
        sum(least(pod_hour.memory_used_covered_seconds, pod_hour.seconds)) / nullif(sum(pod_hour.seconds), 0), 6
    ) as memory_used_covered_share,
    sum(pod_hour.gpu_request_gpu_seconds) / 3600 as gpu_requested_gpu_hours
from ops.published_hour as published
join core.pod_hour
    on pod_hour.stage_id = published.stage_id and pod_hour.hour = published.hour
join core.cluster on cluster.cluster_key = published.cluster_key
join core.shown_pod as pod using (pod_key)
group by
    cluster.cluster,
    published.hour,
    pod.namespace,
    pod.workload_kind,
    pod.workload_name;

comment on view bi.requests_and_usage_hour is 'Requested and used, by workload and hour.';
comment on column bi.requests_and_usage_hour.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.requests_and_usage_hour.hour is 'Start of the hour, UTC.';
comment on column bi.requests_and_usage_hour.namespace is 'Namespace; null for namespaces that are left out of reports.';
comment on column bi.requests_and_usage_hour.workload_kind is 'Kind of the pods'' top owner; null = none.';
comment on column bi.requests_and_usage_hour.workload_name is 'Name of the pods'' top owner; null = none.';
comment on column bi.requests_and_usage_hour.pods is 'Pods that held or used something.';
comment on column bi.requests_and_usage_hour.pod_hours is 'Hours its pods held their requests.';
comment on column bi.requests_and_usage_hour.cpu_requested_core_hours is 'CPU requested.';
comment on column bi.requests_and_usage_hour.cpu_requested_known_core_hours is 'The part of it while CPU usage is known: what to compare usage with.';
comment on column bi.requests_and_usage_hour.cpu_used_core_hours is 'CPU used, as far as it is known; null = not known.';
comment on column bi.requests_and_usage_hour.cpu_used_covered_share is 'Share of the pods'' time for which CPU usage is known, 0 to 1; null when they held no time.';
comment on column bi.requests_and_usage_hour.memory_requested_gib_hours is 'Memory requested.';
comment on column bi.requests_and_usage_hour.memory_requested_known_gib_hours is 'The part of it while memory usage is known: what to compare usage with.';
comment on column bi.requests_and_usage_hour.memory_used_gib_hours is 'Memory used (working set), as far as it is known; null = not known.';
comment on column bi.requests_and_usage_hour.memory_used_covered_share is 'Share of the pods'' time for which memory usage is known, 0 to 1; null when they held no time.';
comment on column bi.requests_and_usage_hour.gpu_requested_gpu_hours is 'GPUs requested.';

create view bi.requests_and_usage_day as
select
    cluster.cluster,
    cast(published.hour at time zone 'UTC' as date) as day,
    pod.namespace,
    pod.workload_kind,
    pod.workload_name,
    count(distinct pod_hour.pod_key) as pods,
    sum(pod_hour.seconds) / 3600 as pod_hours,
    sum(pod_hour.cpu_request_core_seconds) / 3600 as cpu_requested_core_hours,
    sum(pod_hour.cpu_request_used_core_seconds) / 3600 as cpu_requested_known_core_hours,
    sum(pod_hour.cpu_used_core_seconds) / 3600 as cpu_used_core_hours,
    round(
        sum(least(pod_hour.cpu_used_covered_seconds, pod_hour.seconds)) / nullif(sum(pod_hour.seconds), 0), 6
    ) as cpu_used_covered_share,
    sum(pod_hour.memory_request_byte_seconds) / 3600 / 1073741824 as memory_requested_gib_hours,
    sum(pod_hour.memory_request_used_byte_seconds) / 3600 / 1073741824 as memory_requested_known_gib_hours,
    sum(pod_hour.memory_used_byte_seconds) / 3600 / 1073741824 as memory_used_gib_hours,
    round(
        sum(least(pod_hour.memory_used_covered_seconds, pod_hour.seconds)) / nullif(sum(pod_hour.seconds), 0), 6
    ) as memory_used_covered_share,
    sum(pod_hour.gpu_request_gpu_seconds) / 3600 as gpu_requested_gpu_hours
from ops.published_hour as published
join core.pod_hour
    on pod_hour.stage_id = published.stage_id and pod_hour.hour = published.hour
join core.cluster on cluster.cluster_key = published.cluster_key
join core.shown_pod as pod using (pod_key)
group by
    cluster.cluster,
    cast(published.hour at time zone 'UTC' as date),
    pod.namespace,
    pod.workload_kind,
    pod.workload_name;

comment on view bi.requests_and_usage_day is 'Requested and used, by workload and day.';
comment on column bi.requests_and_usage_day.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.requests_and_usage_day.day is 'UTC day.';
comment on column bi.requests_and_usage_day.namespace is 'Namespace; null for namespaces that are left out of reports.';
comment on column bi.requests_and_usage_day.workload_kind is 'Kind of the pods'' top owner; null = none.';
comment on column bi.requests_and_usage_day.workload_name is 'Name of the pods'' top owner; null = none.';
comment on column bi.requests_and_usage_day.pods is 'Pods that held or used something.';
comment on column bi.requests_and_usage_day.pod_hours is 'Hours its pods held their requests.';
comment on column bi.requests_and_usage_day.cpu_requested_core_hours is 'CPU requested.';
comment on column bi.requests_and_usage_day.cpu_requested_known_core_hours is 'The part of it while CPU usage is known: what to compare usage with.';
comment on column bi.requests_and_usage_day.cpu_used_core_hours is 'CPU used, as far as it is known; null = not known.';
comment on column bi.requests_and_usage_day.cpu_used_covered_share is 'Share of the pods'' time for which CPU usage is known, 0 to 1; null when they held no time.';
comment on column bi.requests_and_usage_day.memory_requested_gib_hours is 'Memory requested.';
comment on column bi.requests_and_usage_day.memory_requested_known_gib_hours is 'The part of it while memory usage is known: what to compare usage with.';
comment on column bi.requests_and_usage_day.memory_used_gib_hours is 'Memory used (working set), as far as it is known; null = not known.';
comment on column bi.requests_and_usage_day.memory_used_covered_share is 'Share of the pods'' time for which memory usage is known, 0 to 1; null when they held no time.';
comment on column bi.requests_and_usage_day.gpu_requested_gpu_hours is 'GPUs requested.';

create view bi.efficiency_day as
select
    cluster,
    day,
    namespace,
    workload_kind,
    workload_name,
    cpu_requested_known_core_hours,
    cpu_used_core_hours,
    cpu_used_covered_share,
    round(cpu_used_core_hours / nullif(cpu_requested_known_core_hours, 0), 6) as cpu_efficiency,
    memory_requested_known_gib_hours,
    memory_used_gib_hours,
    memory_used_covered_share,
    round(memory_used_gib_hours / nullif(memory_requested_known_gib_hours, 0), 6) as memory_efficiency
from bi.requests_and_usage_day;

comment on view bi.efficiency_day is 'How much of what was requested was used, by workload and day, over the time for which usage is known.';
comment on column bi.efficiency_day.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.efficiency_day.day is 'UTC day.';
comment on column bi.efficiency_day.namespace is 'Namespace; null for namespaces that are left out of reports.';
comment on column bi.efficiency_day.workload_kind is 'Kind of the pods'' top owner; null = none.';
comment on column bi.efficiency_day.workload_name is 'Name of the pods'' top owner; null = none.';
comment on column bi.efficiency_day.cpu_requested_known_core_hours is 'CPU requested while usage is known.';
comment on column bi.efficiency_day.cpu_used_core_hours is 'CPU used; null = not known.';
comment on column bi.efficiency_day.cpu_used_covered_share is 'Share of the pods'' time for which CPU usage is known, 0 to 1.';
comment on column bi.efficiency_day.cpu_efficiency is 'CPU used / requested; above 1 = more used than requested; null = no request, or usage not known.';
comment on column bi.efficiency_day.memory_requested_known_gib_hours is 'Memory requested while usage is known.';
comment on column bi.efficiency_day.memory_used_gib_hours is 'Memory used; null = not known.';
comment on column bi.efficiency_day.memory_used_covered_share is 'Share of the pods'' time for which memory usage is known, 0 to 1.';
comment on column bi.efficiency_day.memory_efficiency is 'Memory used / requested; above 1 = more used than requested; null = no request, or usage not known.';
