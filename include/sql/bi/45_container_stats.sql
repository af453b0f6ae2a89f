-- What containers did: throttling, memory headroom, network, system calls, GPUs.
-- Statistics from the kubelets' counters; no cost rests on them. Not known is null, never zero.

create view bi.container_stats_hour as
select
    cluster.cluster,
    stats.hour,
    case when not hidden.is_hidden then stats.namespace end as namespace,
    pod.workload_kind,
    pod.workload_name,
    case when not hidden.is_hidden then stats.pod end as pod,
    pod.uid as pod_uid,
    case when not hidden.is_hidden then nullif(stats.container, '') end as container,
    stats.node,
    round(stats.covered_seconds / 3600, 6) as covered_share,
    stats.resets,
    stats.cpu_used_core_seconds / 3600 as cpu_used_core_hours,
    round(stats.cpu_throttled_periods / nullif(stats.cpu_periods, 0), 6) as cpu_throttled_share,
    stats.cpu_throttled_seconds,
    round(stats.memory_working_set_byte_seconds / nullif(stats.gauge_seconds, 0)) as memory_working_set_bytes,
    stats.memory_working_set_max_bytes,
    round(stats.memory_rss_byte_seconds / nullif(stats.gauge_seconds, 0)) as memory_rss_bytes,
    round(stats.memory_limit_byte_seconds / nullif(stats.memory_limited_seconds, 0)) as memory_limit_bytes,
    round(
        1 - stats.memory_working_set_max_bytes * stats.memory_limited_seconds
        / nullif(stats.memory_limit_byte_seconds, 0), 6
    ) as memory_headroom_share,
    stats.oom_events,
    stats.network_receive_bytes,
    stats.network_transmit_bytes,
    stats.network_receive_dropped,
    stats.network_transmit_dropped,
    stats.syscalls,
    stats.syscalls_by_name,
    round(stats.filesystem_used_byte_seconds / nullif(stats.gauge_seconds, 0)) as filesystem_used_bytes,
    stats.processes_max
from ops.published_hour as published
join core.container_stats_hour as stats
    on stats.stage_id = published.stage_id and stats.hour = published.hour
join core.cluster on cluster.cluster_key = published.cluster_key
left join core.shown_pod as pod using (pod_key)
cross join lateral (
    select core.is_excluded(published.cluster_key, stats.namespace) as is_hidden
) as hidden
where stats.device = '';

comment on view bi.container_stats_hour is 'What each container did in an hour, from the kubelet''s counters. A pod''s network stands in a row without a container.';
comment on column bi.container_stats_hour.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.container_stats_hour.hour is 'Start of the hour, UTC.';
comment on column bi.container_stats_hour.namespace is 'Namespace; null for namespaces that are left out of reports.';
comment on column bi.container_stats_hour.workload_kind is 'Kind of the pod''s top owner; null = none, or the pod is not known otherwise.';
comment on column bi.container_stats_hour.workload_name is 'Name of the pod''s top owner.';
comment on column bi.container_stats_hour.pod is 'Pod.';
comment on column bi.container_stats_hour.pod_uid is 'Kubernetes uid of the pod; null = not known otherwise.';
comment on column bi.container_stats_hour.container is 'Container; null = the pod as a whole (network).';
comment on column bi.container_stats_hour.node is 'Node.';
comment on column bi.container_stats_hour.covered_share is 'Share of the hour that lies between readings, 0 to 1: what the amounts are over.';
comment on column bi.container_stats_hour.resets is 'How often its counters began anew; the amounts are then lower bounds.';
comment on column bi.container_stats_hour.cpu_used_core_hours is 'CPU used.';
comment on column bi.container_stats_hour.cpu_throttled_share is 'Share of its scheduling periods in which it was held back by its CPU limit, 0 to 1; null = no limit.';
comment on column bi.container_stats_hour.cpu_throttled_seconds is 'Time it was held back, added over its threads.';
comment on column bi.container_stats_hour.memory_working_set_bytes is 'Working set, mean over time.';
comment on column bi.container_stats_hour.memory_working_set_max_bytes is 'Largest working set read.';
comment on column bi.container_stats_hour.memory_rss_bytes is 'Anonymous memory, mean over time.';
comment on column bi.container_stats_hour.memory_limit_bytes is 'Memory limit; null = unlimited.';
comment on column bi.container_stats_hour.memory_headroom_share is 'Share of the limit that stayed free at the largest working set, 1 to 0; null = unlimited.';
comment on column bi.container_stats_hour.oom_events is 'Kills for want of memory.';
comment on column bi.container_stats_hour.network_receive_bytes is 'Bytes received; null for pods on the host''s network, whose counters are the node''s.';
comment on column bi.container_stats_hour.network_transmit_bytes is 'Bytes sent; likewise.';
comment on column bi.container_stats_hour.network_receive_dropped is 'Packets dropped on receipt; likewise.';
comment on column bi.container_stats_hour.network_transmit_dropped is 'Packets dropped on sending; likewise.';
comment on column bi.container_stats_hour.syscalls is 'System calls; null = no exporter tells.';
comment on column bi.container_stats_hour.syscalls_by_name is 'System calls by name, as a JSON object.';
comment on column bi.container_stats_hour.filesystem_used_bytes is 'Writable layer, mean over time.';
comment on column bi.container_stats_hour.processes_max is 'Most processes read.';

create view bi.gpu_stats_hour as
select
    cluster.cluster,
    stats.hour,
    stats.device,
    stats.gpu_model,
    stats.gpu_profile,
    stats.node,
    case when not hidden.is_hidden then stats.namespace end as namespace,
    pod.workload_kind,
    pod.workload_name,
    case when not hidden.is_hidden then stats.pod end as pod,
    case when not hidden.is_hidden then nullif(stats.container, '') end as container,
    round(stats.gauge_seconds / 3600, 6) as covered_share,
    round(stats.gpu_busy_seconds / nullif(stats.gauge_seconds, 0), 6) as gpu_busy_share,
    round(stats.gpu_memory_used_byte_seconds / nullif(stats.gauge_seconds, 0)) as gpu_memory_used_bytes,
    stats.gpu_energy_joules / 3600000 as gpu_energy_kilowatt_hours
from ops.published_hour as published
join core.container_stats_hour as stats
    on stats.stage_id = published.stage_id and stats.hour = published.hour
join core.cluster on cluster.cluster_key = published.cluster_key
left join core.shown_pod as pod using (pod_key)
cross join lateral (
    select core.is_excluded(published.cluster_key, stats.namespace) as is_hidden
) as hidden
where stats.device <> '';

comment on view bi.gpu_stats_hour is 'How busy each GPU or MIG slice was in an hour and who had it, from the DCGM exporters.';
comment on column bi.gpu_stats_hour.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.gpu_stats_hour.hour is 'Start of the hour, UTC.';
comment on column bi.gpu_stats_hour.device is 'GPU uuid, or uuid/instance of a MIG slice.';
comment on column bi.gpu_stats_hour.gpu_model is 'GPU model.';
comment on column bi.gpu_stats_hour.gpu_profile is 'MIG profile; null = a whole GPU.';
comment on column bi.gpu_stats_hour.node is 'Node.';
comment on column bi.gpu_stats_hour.namespace is 'Namespace of the pod that had it; null = nobody.';
comment on column bi.gpu_stats_hour.workload_kind is 'Kind of the pod''s top owner.';
comment on column bi.gpu_stats_hour.workload_name is 'Name of the pod''s top owner.';
comment on column bi.gpu_stats_hour.pod is 'Pod that had it; null = nobody.';
comment on column bi.gpu_stats_hour.container is 'Container that had it.';
comment on column bi.gpu_stats_hour.covered_share is 'Share of the hour for which readings stand, 0 to 1.';
comment on column bi.gpu_stats_hour.gpu_busy_share is 'Mean utilisation, 0 to 1. Sampled: short bursts can be missed while memory stays held.';
comment on column bi.gpu_stats_hour.gpu_memory_used_bytes is 'Device memory in use, mean over time.';
comment on column bi.gpu_stats_hour.gpu_energy_kilowatt_hours is 'Energy; null for MIG slices, which do not measure it.';
