-- What the sources said. Daily partitions by the start of the statement.
create table raw.pod_interval (
    load_id bigint not null,
    start_at timestamptz not null,
    end_at timestamptz not null,
    uid text not null,
    namespace text not null,
    pod text not null,
    node text,
    phase text,
    workload_kind text,
    workload_name text,
    cpu_request_cores numeric,
    memory_request_bytes numeric,
    gpu_request numeric,
    gpu_resource text,
    cpu_limit_cores numeric,
    memory_limit_bytes numeric,
    host_network boolean,
    labels jsonb,
    annotations jsonb,
    check (start_at < end_at)
) partition by range (start_at);
create index pod_interval_by_load on raw.pod_interval (load_id);
comment on table raw.pod_interval is 'A pod asks for this and sits there, over [start_at, end_at).';
comment on column raw.pod_interval.load_id is 'The load it came with.';
comment on column raw.pod_interval.start_at is 'From when the statement holds.';
comment on column raw.pod_interval.end_at is 'Until when, exclusive.';
comment on column raw.pod_interval.uid is 'Kubernetes uid, or a synthetic one where the source has none.';
comment on column raw.pod_interval.namespace is 'Namespace.';
comment on column raw.pod_interval.pod is 'Pod name.';
comment on column raw.pod_interval.node is 'Node name; null while unscheduled.';
comment on column raw.pod_interval.phase is 'Pending, Running, Succeeded, Failed or Unknown.';
comment on column raw.pod_interval.workload_kind is 'Kind of the top owner: Deployment, StatefulSet, DaemonSet, CronJob, Job, …';
comment on column raw.pod_interval.workload_name is 'Name of the top owner.';
comment on column raw.pod_interval.cpu_request_cores is 'Effective CPU request by the scheduler''s rule; null = not known.';
comment on column raw.pod_interval.memory_request_bytes is 'Effective memory request; null = not known.';
comment on column raw.pod_interval.gpu_request is 'Devices (or slices) of gpu_resource asked for.';
comment on column raw.pod_interval.gpu_resource is 'Extended resource asked for, for example nvidia.com/gpu.';
comment on column raw.pod_interval.cpu_limit_cores is 'CPU limit; null = unlimited.';
comment on column raw.pod_interval.memory_limit_bytes is 'Memory limit; null = unlimited.';
comment on column raw.pod_interval.host_network is 'Whether it uses the node''s network.';
comment on column raw.pod_interval.labels is 'Pod labels.';
comment on column raw.pod_interval.annotations is 'Pod annotations.';

create table raw.node_interval (
    load_id bigint not null,
    start_at timestamptz not null,
    end_at timestamptz not null,
    uid text not null,
    node text not null,
    provider_id text,
    region text,
    zone text,
    instance_type text,
    os text,
    capacity_type text,
    cpu_capacity_cores numeric,
    cpu_allocatable_cores numeric,
    memory_capacity_bytes numeric,
    memory_allocatable_bytes numeric,
    gpu_capacity numeric,
    gpu_allocatable numeric,
    gpu_resource text,
    gpu_model text,
    is_ready boolean,
    is_virtual boolean,
    created_at timestamptz,
    labels jsonb,
    check (start_at < end_at)
) partition by range (start_at);
create index node_interval_by_load on raw.node_interval (load_id);
comment on table raw.node_interval is 'A node exists and offers this, over [start_at, end_at).';
comment on column raw.node_interval.load_id is 'The load it came with.';
comment on column raw.node_interval.start_at is 'From when the statement holds.';
comment on column raw.node_interval.end_at is 'Until when, exclusive.';
comment on column raw.node_interval.uid is 'Kubernetes uid, or what identifies the machine where the source has none.';
comment on column raw.node_interval.node is 'Node name.';
comment on column raw.node_interval.provider_id is 'Cloud provider''s id of the machine.';
comment on column raw.node_interval.region is 'Cloud region.';
comment on column raw.node_interval.zone is 'Cloud zone.';
comment on column raw.node_interval.instance_type is 'Machine type.';
comment on column raw.node_interval.os is 'linux or windows.';
comment on column raw.node_interval.capacity_type is 'on_demand or spot; null = not said.';
comment on column raw.node_interval.cpu_capacity_cores is 'CPU capacity.';
comment on column raw.node_interval.cpu_allocatable_cores is 'CPU open to pods.';
comment on column raw.node_interval.memory_capacity_bytes is 'Memory capacity.';
comment on column raw.node_interval.memory_allocatable_bytes is 'Memory open to pods.';
comment on column raw.node_interval.gpu_capacity is 'GPU devices or slices.';
comment on column raw.node_interval.gpu_allocatable is 'GPU devices or slices open to pods.';
comment on column raw.node_interval.gpu_resource is 'Name of the GPU resource.';
comment on column raw.node_interval.gpu_model is 'GPU model.';
comment on column raw.node_interval.is_ready is 'Ready condition.';
comment on column raw.node_interval.is_virtual is 'virtual-kubelet or Fargate: its capacity is no cost of its own.';
comment on column raw.node_interval.created_at is 'When the node object was made.';
comment on column raw.node_interval.labels is 'Node labels.';

create table raw.usage_interval (
    load_id bigint not null,
    start_at timestamptz not null,
    end_at timestamptz not null,
    uid text,
    namespace text not null,
    pod text not null,
    container text not null,
    node text,
    cpu_used_core_seconds numeric,
    memory_used_byte_seconds numeric,
    check (start_at < end_at),
    check (date_trunc('hour', start_at, 'UTC') = date_trunc('hour', end_at - interval '1 microsecond', 'UTC'))
) partition by range (start_at);
create index usage_interval_by_load on raw.usage_interval (load_id);
comment on table raw.usage_interval is 'A container used this much, as an amount over [start_at, end_at), which lies within one hour.';
comment on column raw.usage_interval.load_id is 'The load it came with.';
comment on column raw.usage_interval.start_at is 'Start of the covered run.';
comment on column raw.usage_interval.end_at is 'Its end, exclusive.';
comment on column raw.usage_interval.uid is 'Pod uid; null where the source has none.';
comment on column raw.usage_interval.namespace is 'Namespace.';
comment on column raw.usage_interval.pod is 'Pod name.';
comment on column raw.usage_interval.container is 'Container name.';
comment on column raw.usage_interval.node is 'Node name, where the source has it.';
comment on column raw.usage_interval.cpu_used_core_seconds is 'CPU used; null = this row says nothing about CPU.';
comment on column raw.usage_interval.memory_used_byte_seconds is 'Working set over time; null = this row says nothing about memory.';

create table raw.namespace_interval (
    load_id bigint not null,
    start_at timestamptz not null,
    end_at timestamptz not null,
    uid text,
    namespace text not null,
    labels jsonb,
    annotations jsonb,
    check (start_at < end_at)
) partition by range (start_at);
create index namespace_interval_by_load on raw.namespace_interval (load_id);
comment on table raw.namespace_interval is 'A namespace exists and carries these labels, over [start_at, end_at).';
comment on column raw.namespace_interval.load_id is 'The load it came with.';
comment on column raw.namespace_interval.start_at is 'From when the statement holds.';
comment on column raw.namespace_interval.end_at is 'Until when, exclusive.';
comment on column raw.namespace_interval.uid is 'Kubernetes uid.';
comment on column raw.namespace_interval.namespace is 'Namespace.';
comment on column raw.namespace_interval.labels is 'Its labels.';
comment on column raw.namespace_interval.annotations is 'Its annotations.';

create table raw.volume_interval (
    load_id bigint not null,
    start_at timestamptz not null,
    end_at timestamptz not null,
    uid text not null,
    volume text not null,
    namespace text,
    claim text,
    storage_class text,
    phase text,
    capacity_bytes numeric,
    labels jsonb,
    check (start_at < end_at)
) partition by range (start_at);
create index volume_interval_by_load on raw.volume_interval (load_id);
comment on table raw.volume_interval is 'A volume (and its claim) holds this much storage, over [start_at, end_at).';
comment on column raw.volume_interval.load_id is 'The load it came with.';
comment on column raw.volume_interval.start_at is 'From when the statement holds.';
comment on column raw.volume_interval.end_at is 'Until when, exclusive.';
comment on column raw.volume_interval.uid is 'Kubernetes uid of the volume.';
comment on column raw.volume_interval.volume is 'Name of the persistent volume.';
comment on column raw.volume_interval.namespace is 'Namespace of the claim; null = unclaimed.';
comment on column raw.volume_interval.claim is 'Name of the claim.';
comment on column raw.volume_interval.storage_class is 'Storage class.';
comment on column raw.volume_interval.phase is 'Bound, Released, Available, …';
comment on column raw.volume_interval.capacity_bytes is 'Provisioned size.';
comment on column raw.volume_interval.labels is 'Labels of the volume.';
