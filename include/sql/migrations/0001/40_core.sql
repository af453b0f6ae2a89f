-- Dimensions, price book, hourly facts.
create table core.node (
    node_key bigint generated always as identity primary key,
    cluster_key smallint not null references core.cluster,
    uid text not null,
    node text not null,
    unique (cluster_key, uid)
);
comment on table core.node is 'Every node ever seen. Identity is cluster and uid; the name may come back on another machine.';
comment on column core.node.node_key is 'Surrogate key used inside the facts.';
comment on column core.node.cluster_key is 'Which cluster.';
comment on column core.node.uid is 'Kubernetes uid; "node/<name>" for a node only pods spoke of.';
comment on column core.node.node is 'Node name.';

create table core.pod (
    pod_key bigint generated always as identity primary key,
    cluster_key smallint not null references core.cluster,
    uid text not null,
    namespace text not null,
    pod text not null,
    workload_kind text,
    workload_name text,
    unique (cluster_key, uid)
);
create index pod_by_name on core.pod (cluster_key, namespace, pod);
comment on table core.pod is 'Every pod ever seen. Identity is cluster and uid.';
comment on column core.pod.pod_key is 'Surrogate key used inside the facts.';
comment on column core.pod.cluster_key is 'Which cluster.';
comment on column core.pod.uid is 'Kubernetes uid, or a synthetic one.';
comment on column core.pod.namespace is 'Namespace.';
comment on column core.pod.pod is 'Pod name.';
comment on column core.pod.workload_kind is 'Kind of the top owner.';
comment on column core.pod.workload_name is 'Name of the top owner.';

create table core.owner_rule (
    owner_rule_id bigint generated always as identity primary key,
    position integer not null,
    cluster_pattern text not null,
    namespace_pattern text not null,
    label_key text not null default '',
    label_pattern text not null default '',
    label_of text not null default '' check (label_of in ('', 'pod', 'namespace')),
    owner text not null,
    during tstzrange not null,
    known tstzrange not null
);
comment on table core.owner_rule is 'Who pays: the first rule (by position) that matches a pod names its owner. From include/config/owners.yaml; changes are kept with the time they became known.';
comment on column core.owner_rule.owner_rule_id is 'Key.';
comment on column core.owner_rule.position is 'Order in the file; the first match wins.';
comment on column core.owner_rule.cluster_pattern is 'Regular expression over the cluster name.';
comment on column core.owner_rule.namespace_pattern is 'Regular expression over the namespace.';
comment on column core.owner_rule.label_key is 'Label that must be there; empty = none.';
comment on column core.owner_rule.label_pattern is 'Regular expression over that label''s value.';
comment on column core.owner_rule.label_of is 'Whose label: pod or namespace.';
comment on column core.owner_rule.owner is 'The owner; empty = the label''s value.';
comment on column core.owner_rule.during is 'When the rule holds.';
comment on column core.owner_rule.known is 'When Kubetally knew the rule.';

create table core.cost_model (
    cost_model_key smallint generated always as identity primary key,
    cost_model text not null,
    version text not null,
    kind text not null check (kind in ('resource')),
    currency text not null,
    cpu_weight numeric not null,
    memory_weight numeric not null,
    gpu_weight numeric not null,
    definition jsonb not null,
    during tstzrange not null,
    known tstzrange not null,
    exclude using gist (cost_model with =, during with &&, known with &&)
);
comment on table core.cost_model is 'Versions of the cost models, from include/config/cost_models/, bitemporal: a definition never changes, and what was believed stays readable.';
comment on column core.cost_model.cost_model_key is 'Surrogate key used inside the facts.';
comment on column core.cost_model.cost_model is 'Name of the model.';
comment on column core.cost_model.version is 'First 12 digits of the SHA-256 of its definition.';
comment on column core.cost_model.kind is 'Which maths.';
comment on column core.cost_model.currency is 'Currency of its costs.';
comment on column core.cost_model.cpu_weight is 'Weight of one core where a node''s price has no component prices.';
comment on column core.cost_model.memory_weight is 'Weight of one GiB there.';
comment on column core.cost_model.gpu_weight is 'Weight of one GPU there.';
comment on column core.cost_model.definition is 'The whole definition.';
comment on column core.cost_model.during is 'When the version applies.';
comment on column core.cost_model.known is 'Since and until when the configuration said so; what it said first counts for all time before.';

create table core.price_snapshot (
    snapshot_id bigint generated always as identity primary key,
    provider text not null,
    url text not null,
    fetched_at timestamptz not null,
    sha256 text not null,
    payload bytea not null,
    unique (provider, url, sha256)
);
comment on table core.price_snapshot is 'What a price list said, kept for ever.';
comment on column core.price_snapshot.snapshot_id is 'Key; prices and cost rows name it.';
comment on column core.price_snapshot.provider is 'azure, gcp, aws, sheet, …';
comment on column core.price_snapshot.url is 'Where it came from, without secrets.';
comment on column core.price_snapshot.fetched_at is 'When it was first seen.';
comment on column core.price_snapshot.sha256 is 'SHA-256 of the payload.';
comment on column core.price_snapshot.payload is 'The payload, zlib-compressed.';

create table core.price (
    price_id bigint generated always as identity primary key,
    lookup_key text not null,
    sku text not null,
    description text not null,
    component text not null,
    quantity numeric not null,
    unit text not null,
    unit_price numeric not null,
    currency text not null,
    during tstzrange not null,
    known tstzrange not null,
    snapshot_id bigint not null references core.price_snapshot,
    exclude using gist (
        lookup_key with =, sku with =, component with =, during with &&, known with &&
    )
);
comment on table core.price is 'The price book, bitemporal: what a key costs during a time, as known during another. History is never edited; what was believed stays readable.';
comment on column core.price.price_id is 'Key.';
comment on column core.price.lookup_key is 'provider/region/instance type/os/capacity type.';
comment on column core.price.sku is 'The provider''s SKU or meter.';
comment on column core.price.description is 'The provider''s words for it.';
comment on column core.price.component is 'node, cpu, memory, gpu or disk; of pods that are priced without a node: per core, GiB of memory and GiB of disk.';
comment on column core.price.quantity is 'Units of it in one node.';
comment on column core.price.unit is 'Unit of the price.';
comment on column core.price.unit_price is 'Price of one unit.';
comment on column core.price.currency is 'ISO 4217 currency of the price.';
comment on column core.price.during is 'When the price holds, on whole hours.';
comment on column core.price.known is 'When Kubetally believed so.';
comment on column core.price.snapshot_id is 'The snapshot it was read from.';

create table core.price_lookup (
    lookup_key text not null,
    state text not null check (state in ('priced', 'unpriced', 'ambiguous')),
    reason text not null default '',
    known tstzrange not null,
    looked_up_at timestamptz not null,
    asked_since timestamptz,
    snapshot_id bigint references core.price_snapshot,
    exclude using gist (lookup_key with =, known with &&)
);
comment on table core.price_lookup is 'The outcome of looking a key up, also when nothing was found.';
comment on column core.price_lookup.lookup_key is 'provider/region/instance type/os/capacity type.';
comment on column core.price_lookup.state is 'priced, unpriced or ambiguous.';
comment on column core.price_lookup.reason is 'Why it is not priced.';
comment on column core.price_lookup.known is 'When this was the outcome.';
comment on column core.price_lookup.looked_up_at is 'When it was last looked up.';
comment on column core.price_lookup.asked_since is 'From when on the provider was asked for past prices; null = only for the present ones.';
comment on column core.price_lookup.snapshot_id is 'The snapshot that was searched.';

create table core.node_segment (
    stage_id bigint not null,
    cluster_key smallint not null,
    node_key bigint not null,
    during tstzrange not null,
    is_presumed boolean not null,
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
    gpu_model text,
    is_ready boolean,
    is_virtual boolean not null,
    labels jsonb
);
create index node_segment_by_stage on core.node_segment (stage_id, node_key);
comment on table core.node_segment is 'A node''s life, cut where something about it changes.';
comment on column core.node_segment.stage_id is 'The stage.';
comment on column core.node_segment.cluster_key is 'Which cluster.';
comment on column core.node_segment.node_key is 'Which node.';
comment on column core.node_segment.during is 'When.';
comment on column core.node_segment.is_presumed is 'No source spoke of this time; the node was there before or after it.';
comment on column core.node_segment.provider_id is 'Cloud provider''s id of the machine.';
comment on column core.node_segment.region is 'Cloud region.';
comment on column core.node_segment.zone is 'Cloud zone.';
comment on column core.node_segment.instance_type is 'Machine type.';
comment on column core.node_segment.os is 'linux or windows.';
comment on column core.node_segment.capacity_type is 'on_demand or spot; null = not said.';
comment on column core.node_segment.cpu_capacity_cores is 'CPU capacity.';
comment on column core.node_segment.cpu_allocatable_cores is 'CPU open to pods.';
comment on column core.node_segment.memory_capacity_bytes is 'Memory capacity.';
comment on column core.node_segment.memory_allocatable_bytes is 'Memory open to pods.';
comment on column core.node_segment.gpu_capacity is 'GPU devices or slices.';
comment on column core.node_segment.gpu_allocatable is 'GPU devices or slices open to pods.';
comment on column core.node_segment.gpu_model is 'GPU model.';
comment on column core.node_segment.is_ready is 'Ready condition.';
comment on column core.node_segment.is_virtual is 'Its capacity is no cost of its own.';
comment on column core.node_segment.labels is 'Node labels.';

create function core.node_names(
    of_cluster smallint, from_day timestamptz, to_day timestamptz
) returns table (node text, node_key bigint, during tstzrange)
    language sql stable parallel safe
begin atomic
    select
        bearer.node,
        bearer.node_key,
        tstzrange(
            case
                when row_number() over name_day = 1 then bearer.day
                else bearer.first_at
            end,
            coalesce(lead(bearer.first_at) over name_day, bearer.day + interval '1 day')
        )
    from (
        select
            date_trunc('day', stated.start_at, 'UTC') as day,
            node.node,
            node.node_key,
            node.uid,
            min(lower(tstzrange(stated.start_at, stated.end_at) * spoken.span)) as first_at
        from raw.node_interval as stated
        join ops.spoken(of_cluster, 'node', from_day, to_day) as spoken using (load_id)
        join core.node on node.cluster_key = of_cluster and node.uid = stated.uid
        where stated.start_at >= from_day
            and stated.start_at < to_day
            and tstzrange(stated.start_at, stated.end_at) && spoken.span
        group by date_trunc('day', stated.start_at, 'UTC'), node.node_key
    ) as bearer
    window name_day as (partition by bearer.node, bearer.day order by bearer.first_at, bearer.uid collate "C");
end;
comment on function core.node_names(smallint, timestamptz, timestamptz) is
    'Which node a name means at a time. A name may come back on another machine: it belongs to the node that bore it last, within each UTC day. The arguments are UTC midnights.';

create table core.node_price (
    stage_id bigint not null,
    node_key bigint not null,
    during tstzrange not null,
    state text not null,
    reason text not null default '',
    price_per_hour numeric,
    cpu_price_per_hour numeric,
    memory_price_per_hour numeric,
    gpu_price_per_hour numeric,
    currency text,
    origin text,
    snapshot_ids bigint[] not null default '{}'
);
create index node_price_by_stage on core.node_price (stage_id, node_key);
comment on table core.node_price is 'What a node costs an hour, resolved from sheet, price book or cluster rate with the knowledge pinned for the hour.';
comment on column core.node_price.stage_id is 'The stage.';
comment on column core.node_price.node_key is 'Which node.';
comment on column core.node_price.during is 'When, on whole hours.';
comment on column core.node_price.state is 'priced, estimated, unpriced or ambiguous.';
comment on column core.node_price.reason is 'Why it is not simply priced.';
comment on column core.node_price.price_per_hour is 'Price of the whole node; null when it is not known, and for virtual nodes, whose pods are priced instead.';
comment on column core.node_price.cpu_price_per_hour is 'The CPU part, where the provider prices it apart; of a virtual node the price of one core of its pods.';
comment on column core.node_price.memory_price_per_hour is 'The memory part; of a virtual node the price of one GiB of its pods.';
comment on column core.node_price.gpu_price_per_hour is 'The GPU part.';
comment on column core.node_price.currency is 'ISO 4217 currency.';
comment on column core.node_price.origin is 'sheet, list or cluster_rate.';
comment on column core.node_price.snapshot_ids is 'The price snapshots it rests on.';

create table core.namespace_segment (
    stage_id bigint not null,
    cluster_key smallint not null,
    namespace text not null,
    during tstzrange not null,
    labels jsonb
);
create index namespace_segment_by_stage on core.namespace_segment (stage_id, namespace);
comment on table core.namespace_segment is 'A namespace''s life, cut where its labels change.';
comment on column core.namespace_segment.stage_id is 'The stage.';
comment on column core.namespace_segment.cluster_key is 'Which cluster.';
comment on column core.namespace_segment.namespace is 'Namespace.';
comment on column core.namespace_segment.during is 'When.';
comment on column core.namespace_segment.labels is 'Its labels.';

create table core.pod_segment (
    stage_id bigint not null,
    cluster_key smallint not null,
    pod_key bigint not null,
    node_key bigint,
    during tstzrange not null,
    phase text,
    is_holding boolean not null,
    cpu_request_cores numeric,
    memory_request_bytes numeric,
    gpu_request numeric,
    gpu_resource text,
    cpu_limit_cores numeric,
    memory_limit_bytes numeric,
    host_network boolean,
    labels jsonb,
    annotations jsonb
);
create index pod_segment_by_stage on core.pod_segment (stage_id, pod_key);
comment on table core.pod_segment is 'A pod''s life, cut where its effective request, GPU resource, node, phase or labels change.';
comment on column core.pod_segment.stage_id is 'The stage.';
comment on column core.pod_segment.cluster_key is 'Which cluster.';
comment on column core.pod_segment.pod_key is 'Which pod.';
comment on column core.pod_segment.node_key is 'Where it sits; null while unscheduled.';
comment on column core.pod_segment.during is 'When.';
comment on column core.pod_segment.phase is 'Pod phase.';
comment on column core.pod_segment.is_holding is 'Scheduled and not terminal: only then does it hold its request.';
comment on column core.pod_segment.cpu_request_cores is 'Effective CPU request.';
comment on column core.pod_segment.memory_request_bytes is 'Effective memory request.';
comment on column core.pod_segment.gpu_request is 'GPU devices or slices asked for.';
comment on column core.pod_segment.gpu_resource is 'Which GPU resource.';
comment on column core.pod_segment.cpu_limit_cores is 'CPU limit; null = unlimited.';
comment on column core.pod_segment.memory_limit_bytes is 'Memory limit; null = unlimited.';
comment on column core.pod_segment.host_network is 'Whether it uses the node''s network.';
comment on column core.pod_segment.labels is 'Pod labels.';
comment on column core.pod_segment.annotations is 'Pod annotations.';

create table core.pod_hour (
    stage_id bigint not null,
    cluster_key smallint not null,
    hour timestamptz not null,
    pod_key bigint not null,
    node_key bigint,
    seconds numeric not null,
    cpu_request_core_seconds numeric not null,
    cpu_request_used_core_seconds numeric not null,
    cpu_used_core_seconds numeric,
    cpu_used_covered_seconds numeric not null,
    memory_request_byte_seconds numeric not null,
    memory_request_used_byte_seconds numeric not null,
    memory_used_byte_seconds numeric,
    memory_used_covered_seconds numeric not null,
    gpu_request_gpu_seconds numeric not null
) partition by range (hour);
create index pod_hour_by_stage on core.pod_hour (stage_id, hour);
comment on table core.pod_hour is 'What a pod asked for and used in an hour. Additive.';
comment on column core.pod_hour.stage_id is 'The stage.';
comment on column core.pod_hour.cluster_key is 'Which cluster.';
comment on column core.pod_hour.hour is 'Start of the hour, UTC.';
comment on column core.pod_hour.pod_key is 'Which pod.';
comment on column core.pod_hour.node_key is 'Where it sat; null when no source says.';
comment on column core.pod_hour.seconds is 'Seconds it held its request.';
comment on column core.pod_hour.cpu_request_core_seconds is 'Effective CPU request over time.';
comment on column core.pod_hour.cpu_request_used_core_seconds is 'The part of it over seconds in which CPU usage is covered too.';
comment on column core.pod_hour.cpu_used_core_seconds is 'CPU used; null = no statement.';
comment on column core.pod_hour.cpu_used_covered_seconds is 'Seconds for which CPU usage is known.';
comment on column core.pod_hour.memory_request_byte_seconds is 'Effective memory request over time.';
comment on column core.pod_hour.memory_request_used_byte_seconds is 'The part of it over seconds in which memory usage is covered too.';
comment on column core.pod_hour.memory_used_byte_seconds is 'Working set over time; null = no statement.';
comment on column core.pod_hour.memory_used_covered_seconds is 'Seconds for which memory usage is known.';
comment on column core.pod_hour.gpu_request_gpu_seconds is 'GPU devices or slices asked for, over time.';

create table core.node_hour (
    stage_id bigint not null,
    cluster_key smallint not null,
    hour timestamptz not null,
    node_key bigint not null,
    is_virtual boolean not null,
    seconds numeric not null,
    ready_seconds numeric not null,
    covered_seconds numeric not null,
    cpu_capacity_core_seconds numeric not null,
    memory_capacity_byte_seconds numeric not null,
    gpu_capacity_gpu_seconds numeric not null,
    cpu_covered_core_seconds numeric not null,
    memory_covered_byte_seconds numeric not null,
    gpu_covered_gpu_seconds numeric not null,
    cpu_allocatable_core_seconds numeric not null,
    memory_allocatable_byte_seconds numeric not null,
    gpu_allocatable_gpu_seconds numeric not null
) partition by range (hour);
create index node_hour_by_stage on core.node_hour (stage_id, hour);
comment on table core.node_hour is 'What a node offered in an hour. Additive.';
comment on column core.node_hour.stage_id is 'The stage.';
comment on column core.node_hour.cluster_key is 'Which cluster.';
comment on column core.node_hour.hour is 'Start of the hour, UTC.';
comment on column core.node_hour.node_key is 'Which node.';
comment on column core.node_hour.is_virtual is 'Its capacity is no cost of its own.';
comment on column core.node_hour.seconds is 'Seconds it existed.';
comment on column core.node_hour.ready_seconds is 'Seconds it was ready.';
comment on column core.node_hour.covered_seconds is 'Seconds it existed while the pod list is known.';
comment on column core.node_hour.cpu_capacity_core_seconds is 'CPU capacity over all its seconds.';
comment on column core.node_hour.memory_capacity_byte_seconds is 'Memory capacity over all its seconds.';
comment on column core.node_hour.gpu_capacity_gpu_seconds is 'GPU capacity over all its seconds.';
comment on column core.node_hour.cpu_covered_core_seconds is 'CPU capacity over the covered seconds.';
comment on column core.node_hour.memory_covered_byte_seconds is 'Memory capacity over the covered seconds.';
comment on column core.node_hour.gpu_covered_gpu_seconds is 'GPU capacity over the covered seconds.';
comment on column core.node_hour.cpu_allocatable_core_seconds is 'Allocatable CPU over the covered seconds; capacity where a source gives no allocatable.';
comment on column core.node_hour.memory_allocatable_byte_seconds is 'Allocatable memory over the covered seconds.';
comment on column core.node_hour.gpu_allocatable_gpu_seconds is 'Allocatable GPUs over the covered seconds.';

create table core.container_hour (
    stage_id bigint not null,
    cluster_key smallint not null,
    hour timestamptz not null,
    pod_key bigint not null,
    container text not null,
    node_key bigint,
    cpu_used_core_seconds numeric,
    cpu_used_covered tstzmultirange not null,
    memory_used_byte_seconds numeric,
    memory_used_covered tstzmultirange not null
) partition by range (hour);
create index container_hour_by_stage on core.container_hour (stage_id, hour);
comment on table core.container_hour is 'What a container used in an hour. Statistics, not money.';
comment on column core.container_hour.stage_id is 'The stage.';
comment on column core.container_hour.cluster_key is 'Which cluster.';
comment on column core.container_hour.hour is 'Start of the hour, UTC.';
comment on column core.container_hour.pod_key is 'Which pod.';
comment on column core.container_hour.container is 'Container name.';
comment on column core.container_hour.node_key is 'Node the usage source names; null when it names none.';
comment on column core.container_hour.cpu_used_core_seconds is 'CPU used; null = no statement.';
comment on column core.container_hour.cpu_used_covered is 'The times for which CPU usage is known.';
comment on column core.container_hour.memory_used_byte_seconds is 'Working set over time; null = no statement.';
comment on column core.container_hour.memory_used_covered is 'The times for which memory usage is known.';
