-- Container statistics: counters and gauges as read (raw), and what they come to by the hour (core).
-- Statistics, not money: no cost depends on them.
create table raw.container_stats_interval (
    load_id bigint not null,
    start_at timestamptz not null,
    end_at timestamptz not null,
    uid text,
    namespace text,
    pod text,
    container text,
    container_id text,
    device text,
    node text,
    started_at timestamptz,
    sampled_at timestamptz not null,
    cpu_seconds_total numeric,
    cpu_periods_total numeric,
    cpu_throttled_periods_total numeric,
    cpu_throttled_seconds_total numeric,
    memory_rss_bytes numeric,
    memory_working_set_bytes numeric,
    memory_cache_bytes numeric,
    memory_limit_bytes numeric,
    network_receive_bytes_total numeric,
    network_transmit_bytes_total numeric,
    network_receive_dropped_total numeric,
    network_transmit_dropped_total numeric,
    filesystem_used_bytes numeric,
    processes numeric,
    oom_events_total numeric,
    syscalls_total jsonb,
    gpu_model text,
    gpu_profile text,
    gpu_utilisation_percent numeric,
    gpu_memory_used_bytes numeric,
    gpu_memory_free_bytes numeric,
    gpu_energy_joules_total numeric,
    check (start_at < end_at)
) partition by range (start_at);
create index container_stats_interval_by_load on raw.container_stats_interval (load_id);
comment on table raw.container_stats_interval is 'One reading of a container''s counters and gauges, stated over its polling cell. Differences are taken when hours are consolidated.';
comment on column raw.container_stats_interval.load_id is 'The load it came with.';
comment on column raw.container_stats_interval.start_at is 'Start of the polling cell.';
comment on column raw.container_stats_interval.end_at is 'Its end, exclusive.';
comment on column raw.container_stats_interval.uid is 'Pod uid; of a mirror pod the hash of its configuration; null where the endpoint has none.';
comment on column raw.container_stats_interval.namespace is 'Namespace; null = a device nobody has.';
comment on column raw.container_stats_interval.pod is 'Pod name; null = a device nobody has.';
comment on column raw.container_stats_interval.container is 'Container name; empty = the pod as a whole, its network.';
comment on column raw.container_stats_interval.container_id is 'Of the container''s runtime; null where the endpoint does not tell.';
comment on column raw.container_stats_interval.device is 'GPU uuid, or uuid/instance of a MIG slice; null = not about a GPU.';
comment on column raw.container_stats_interval.node is 'Node name.';
comment on column raw.container_stats_interval.started_at is 'When the container began.';
comment on column raw.container_stats_interval.sampled_at is 'When the reading was taken, by the node''s clock.';
comment on column raw.container_stats_interval.cpu_seconds_total is 'CPU time used since the container began.';
comment on column raw.container_stats_interval.cpu_periods_total is 'Scheduling periods; null where no CPU limit is set.';
comment on column raw.container_stats_interval.cpu_throttled_periods_total is 'Periods in which it was held back.';
comment on column raw.container_stats_interval.cpu_throttled_seconds_total is 'Time it was held back.';
comment on column raw.container_stats_interval.memory_rss_bytes is 'Anonymous memory.';
comment on column raw.container_stats_interval.memory_working_set_bytes is 'Working set.';
comment on column raw.container_stats_interval.memory_cache_bytes is 'Page cache.';
comment on column raw.container_stats_interval.memory_limit_bytes is 'Limit; null = unlimited.';
comment on column raw.container_stats_interval.network_receive_bytes_total is 'Received, all interfaces but the loopback.';
comment on column raw.container_stats_interval.network_transmit_bytes_total is 'Sent.';
comment on column raw.container_stats_interval.network_receive_dropped_total is 'Packets dropped on receipt.';
comment on column raw.container_stats_interval.network_transmit_dropped_total is 'Packets dropped on sending.';
comment on column raw.container_stats_interval.filesystem_used_bytes is 'Writable layer.';
comment on column raw.container_stats_interval.processes is 'Processes.';
comment on column raw.container_stats_interval.oom_events_total is 'Kills for want of memory.';
comment on column raw.container_stats_interval.syscalls_total is 'System calls by name since the exporter began.';
comment on column raw.container_stats_interval.gpu_model is 'GPU model.';
comment on column raw.container_stats_interval.gpu_profile is 'MIG profile.';
comment on column raw.container_stats_interval.gpu_utilisation_percent is 'How busy the device was.';
comment on column raw.container_stats_interval.gpu_memory_used_bytes is 'Device memory in use.';
comment on column raw.container_stats_interval.gpu_memory_free_bytes is 'Device memory free.';
comment on column raw.container_stats_interval.gpu_energy_joules_total is 'Energy since the driver was loaded.';

create table core.container_stats_hour (
    stage_id bigint not null,
    cluster_key smallint not null,
    hour timestamptz not null,
    pod_key bigint,
    namespace text,
    pod text,
    container text not null,
    device text not null,
    node text,
    resets integer not null,
    covered_seconds numeric not null,
    cpu_used_core_seconds numeric,
    cpu_periods numeric,
    cpu_throttled_periods numeric,
    cpu_throttled_seconds numeric,
    network_receive_bytes numeric,
    network_transmit_bytes numeric,
    network_receive_dropped numeric,
    network_transmit_dropped numeric,
    oom_events numeric,
    syscalls numeric,
    syscalls_by_name jsonb,
    gauge_seconds numeric not null,
    memory_rss_byte_seconds numeric,
    memory_working_set_byte_seconds numeric,
    memory_working_set_max_bytes numeric,
    memory_cache_byte_seconds numeric,
    memory_limited_seconds numeric not null,
    memory_limit_byte_seconds numeric,
    filesystem_used_byte_seconds numeric,
    processes_max numeric,
    gpu_model text,
    gpu_profile text,
    gpu_busy_seconds numeric,
    gpu_memory_used_byte_seconds numeric,
    gpu_energy_joules numeric
) partition by range (hour);
create index container_stats_hour_by_stage on core.container_stats_hour (stage_id, hour);
comment on table core.container_stats_hour is 'What the readings of a container (or of its GPU, or of its pod''s network) come to in an hour. Statistics, not money.';
comment on column core.container_stats_hour.stage_id is 'The stage.';
comment on column core.container_stats_hour.cluster_key is 'Which cluster.';
comment on column core.container_stats_hour.hour is 'Start of the hour, UTC.';
comment on column core.container_stats_hour.pod_key is 'Which pod; null where no other source knows it, and for devices nobody has.';
comment on column core.container_stats_hour.namespace is 'Namespace as the reading names it.';
comment on column core.container_stats_hour.pod is 'Pod name as the reading names it.';
comment on column core.container_stats_hour.container is 'Container name; empty = the pod as a whole, its network.';
comment on column core.container_stats_hour.device is 'GPU; empty = not about a GPU.';
comment on column core.container_stats_hour.node is 'Node name.';
comment on column core.container_stats_hour.resets is 'Counters that began anew: what they lost before is not seen, amounts are lower bounds.';
comment on column core.container_stats_hour.covered_seconds is 'Seconds between readings: what the amounts are over.';
comment on column core.container_stats_hour.cpu_used_core_seconds is 'CPU used; null = not known.';
comment on column core.container_stats_hour.cpu_periods is 'Scheduling periods; null where no CPU limit is set.';
comment on column core.container_stats_hour.cpu_throttled_periods is 'Periods in which it was held back.';
comment on column core.container_stats_hour.cpu_throttled_seconds is 'Time it was held back.';
comment on column core.container_stats_hour.network_receive_bytes is 'Received; null for pods on the host''s network and where not known.';
comment on column core.container_stats_hour.network_transmit_bytes is 'Sent; likewise.';
comment on column core.container_stats_hour.network_receive_dropped is 'Packets dropped on receipt; likewise.';
comment on column core.container_stats_hour.network_transmit_dropped is 'Packets dropped on sending; likewise.';
comment on column core.container_stats_hour.oom_events is 'Kills for want of memory.';
comment on column core.container_stats_hour.syscalls is 'System calls; null = not known.';
comment on column core.container_stats_hour.syscalls_by_name is 'System calls by name.';
comment on column core.container_stats_hour.gauge_seconds is 'Seconds the gauges below stand for.';
comment on column core.container_stats_hour.memory_rss_byte_seconds is 'Anonymous memory over time.';
comment on column core.container_stats_hour.memory_working_set_byte_seconds is 'Working set over time.';
comment on column core.container_stats_hour.memory_working_set_max_bytes is 'Largest working set read.';
comment on column core.container_stats_hour.memory_cache_byte_seconds is 'Page cache over time.';
comment on column core.container_stats_hour.memory_limited_seconds is 'Seconds with a memory limit.';
comment on column core.container_stats_hour.memory_limit_byte_seconds is 'Limit over time; null = unlimited.';
comment on column core.container_stats_hour.filesystem_used_byte_seconds is 'Writable layer over time.';
comment on column core.container_stats_hour.processes_max is 'Most processes read.';
comment on column core.container_stats_hour.gpu_model is 'GPU model.';
comment on column core.container_stats_hour.gpu_profile is 'MIG profile.';
comment on column core.container_stats_hour.gpu_busy_seconds is 'Utilisation over time.';
comment on column core.container_stats_hour.gpu_memory_used_byte_seconds is 'Device memory in use over time.';
comment on column core.container_stats_hour.gpu_energy_joules is 'Energy.';

create function core.amount_between(
    amount numeric, since timestamptz, until timestamptz, from_time timestamptz, to_time timestamptz
) returns numeric
    language sql immutable parallel safe
    return round(amount * extract(epoch from to_time - since) / extract(epoch from until - since), 9)
        - round(amount * extract(epoch from from_time - since) / extract(epoch from until - since), 9);
comment on function core.amount_between(numeric, timestamptz, timestamptz, timestamptz, timestamptz) is
    'The part of an amount over [since, until) that falls into [from_time, to_time); adjoining parts re-add.';

grant insert, delete on raw.container_stats_interval to kubetally_loader;
grant insert, delete on core.container_stats_hour to kubetally_publisher;
