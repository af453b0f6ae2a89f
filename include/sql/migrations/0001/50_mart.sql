-- Costs.
create table mart.cost_hour (
    stage_id bigint not null,
    cluster_key smallint not null,
    hour timestamptz not null,
    cost_model_key smallint not null,
    revision integer not null,
    line text not null check (line in (
        'workload', 'system', 'idle', 'overcommit', 'uncovered', 'shared', 'unmounted', 'unpriced',
        'recovery', 'correction'
    )),
    node_key bigint,
    pod_key bigint,
    owner text not null,
    cpu_core_seconds numeric not null default 0,
    memory_byte_seconds numeric not null default 0,
    gpu_seconds numeric not null default 0,
    storage_byte_seconds numeric not null default 0,
    network_bytes numeric not null default 0,
    load_balancer_seconds numeric not null default 0,
    cpu_cost numeric(38, 18),
    memory_cost numeric(38, 18),
    gpu_cost numeric(38, 18),
    storage_cost numeric(38, 18),
    network_cost numeric(38, 18),
    load_balancer_cost numeric(38, 18),
    other_cost numeric(38, 18),
    cost numeric(38, 18) generated always as (
        cpu_cost + memory_cost + gpu_cost + storage_cost + network_cost + load_balancer_cost + other_cost
    ) stored,
    currency text,
    price_snapshot_ids bigint[] not null default '{}',
    check ((line = 'unpriced') = (cost is null)),
    check (line <> 'overcommit' or cost <= 0),
    check (line <> 'idle' or cost >= 0)
) partition by range (hour);
create index cost_hour_by_stage on mart.cost_hour (stage_id, hour);
comment on table mart.cost_hour is 'Every line of every cluster and hour. For each cluster, hour and conserving model the lines add up to the cluster''s cost exactly. Unpriced lines carry quantities and no cost: unknown, not zero.';
comment on column mart.cost_hour.stage_id is 'The stage; readers follow ops.published_hour.';
comment on column mart.cost_hour.cluster_key is 'Which cluster.';
comment on column mart.cost_hour.hour is 'Start of the hour, UTC.';
comment on column mart.cost_hour.cost_model_key is 'Which version of which cost model.';
comment on column mart.cost_hour.revision is '1, and one more for every restatement.';
comment on column mart.cost_hour.line is 'workload; system (capacity minus allocatable); idle; overcommit (negative); uncovered; shared; unmounted; unpriced; recovery; correction.';
comment on column mart.cost_hour.node_key is 'The node whose cost it is part of.';
comment on column mart.cost_hour.pod_key is 'The pod; null on lines of the cluster.';
comment on column mart.cost_hour.owner is 'Who pays: an owner, "unowned" for pods nobody owns, "cluster" for lines of the cluster.';
comment on column mart.cost_hour.cpu_core_seconds is 'CPU the cost is for.';
comment on column mart.cost_hour.memory_byte_seconds is 'Memory the cost is for.';
comment on column mart.cost_hour.gpu_seconds is 'GPUs the cost is for.';
comment on column mart.cost_hour.storage_byte_seconds is 'Storage the cost is for.';
comment on column mart.cost_hour.network_bytes is 'Network traffic the cost is for.';
comment on column mart.cost_hour.load_balancer_seconds is 'Load balancers the cost is for.';
comment on column mart.cost_hour.cpu_cost is 'Cost of CPU.';
comment on column mart.cost_hour.memory_cost is 'Cost of memory.';
comment on column mart.cost_hour.gpu_cost is 'Cost of GPUs.';
comment on column mart.cost_hour.storage_cost is 'Cost of storage.';
comment on column mart.cost_hour.network_cost is 'Cost of network traffic.';
comment on column mart.cost_hour.load_balancer_cost is 'Cost of load balancers.';
comment on column mart.cost_hour.other_cost is 'Any other cost.';
comment on column mart.cost_hour.cost is 'Sum of the parts; null = unpriced.';
comment on column mart.cost_hour.currency is 'ISO 4217 currency; null = unpriced.';
comment on column mart.cost_hour.price_snapshot_ids is 'The price snapshots the cost rests on.';

create table mart.cost_day (
    cluster_key smallint not null,
    day date not null,
    cost_model text not null,
    line text not null,
    owner text not null,
    namespace text,
    workload_kind text,
    workload_name text,
    currency text,
    hours integer not null,
    cpu_core_seconds numeric not null,
    memory_byte_seconds numeric not null,
    gpu_seconds numeric not null,
    storage_byte_seconds numeric not null,
    network_bytes numeric not null,
    load_balancer_seconds numeric not null,
    cpu_cost numeric(38, 18),
    memory_cost numeric(38, 18),
    gpu_cost numeric(38, 18),
    storage_cost numeric(38, 18),
    network_cost numeric(38, 18),
    load_balancer_cost numeric(38, 18),
    other_cost numeric(38, 18),
    cost numeric(38, 18)
);
create index cost_day_by_day on mart.cost_day (cluster_key, day);
comment on table mart.cost_day is 'Daily rollup of the published hours, kept for ever. Written in the transaction that publishes.';
comment on column mart.cost_day.cluster_key is 'Which cluster.';
comment on column mart.cost_day.day is 'UTC day.';
comment on column mart.cost_day.cost_model is 'Cost model.';
comment on column mart.cost_day.line is 'As in mart.cost_hour.';
comment on column mart.cost_day.owner is 'Who pays.';
comment on column mart.cost_day.namespace is 'Namespace; null on lines of the cluster.';
comment on column mart.cost_day.workload_kind is 'Kind of the top owner of the pods.';
comment on column mart.cost_day.workload_name is 'Name of the top owner of the pods.';
comment on column mart.cost_day.currency is 'ISO 4217 currency; null = unpriced.';
comment on column mart.cost_day.hours is 'Hours of the day with such a line.';
comment on column mart.cost_day.cpu_core_seconds is 'CPU the cost is for.';
comment on column mart.cost_day.memory_byte_seconds is 'Memory the cost is for.';
comment on column mart.cost_day.gpu_seconds is 'GPUs the cost is for.';
comment on column mart.cost_day.storage_byte_seconds is 'Storage the cost is for.';
comment on column mart.cost_day.network_bytes is 'Network traffic the cost is for.';
comment on column mart.cost_day.load_balancer_seconds is 'Load balancers the cost is for.';
comment on column mart.cost_day.cpu_cost is 'Cost of CPU.';
comment on column mart.cost_day.memory_cost is 'Cost of memory.';
comment on column mart.cost_day.gpu_cost is 'Cost of GPUs.';
comment on column mart.cost_day.storage_cost is 'Cost of storage.';
comment on column mart.cost_day.network_cost is 'Cost of network traffic.';
comment on column mart.cost_day.load_balancer_cost is 'Cost of load balancers.';
comment on column mart.cost_day.other_cost is 'Any other cost.';
comment on column mart.cost_day.cost is 'Sum of the parts; null = unpriced.';

create function mart.pod_rate_cost(of_stage bigint, from_hour timestamptz, to_hour timestamptz)
returns table (
    hour timestamptz,
    node_key bigint,
    pod_key bigint,
    cpu_cost numeric,
    memory_cost numeric,
    gpu_cost numeric,
    currency text,
    snapshot_ids bigint[]
)
    language sql stable parallel safe
begin atomic
    select
        pod_hour.hour,
        pod_hour.node_key,
        pod_hour.pod_key,
        mart.node_cost(price.cpu_price_per_hour, billed.cpu_core_seconds),
        div(
            price.memory_price_per_hour * billed.memory_byte_seconds * 2000000000000000000 + 3600 * 1073741824::numeric,
            7200 * 1073741824::numeric
        ) * 0.000000000000000001,
        mart.node_cost(coalesce(price.gpu_price_per_hour, 0), pod_hour.gpu_request_gpu_seconds),
        price.currency,
        price.snapshot_ids
    from core.pod_hour
    join core.node_hour
        on node_hour.stage_id = pod_hour.stage_id
        and node_hour.hour = pod_hour.hour
        and node_hour.node_key = pod_hour.node_key
        and node_hour.is_virtual
    join core.node_price as price
        on price.stage_id = pod_hour.stage_id
        and price.node_key = pod_hour.node_key
        and price.during @> pod_hour.hour
    left join lateral (
        select regexp_match(
            pod_segment.annotations ->> 'CapacityProvisioned', '^([0-9.]+)vCPU ([0-9.]+)GB$'
        ) as size
        from core.pod_segment
        where pod_segment.stage_id = pod_hour.stage_id and pod_segment.pod_key = pod_hour.pod_key
        order by upper(pod_segment.during) desc
        limit 1
    ) as provisioned on true
    cross join lateral (
        select
            coalesce(
                cast(provisioned.size[1] as numeric) * pod_hour.seconds, pod_hour.cpu_request_core_seconds
            ) as cpu_core_seconds,
            coalesce(
                cast(provisioned.size[2] as numeric) * 1073741824 * pod_hour.seconds,
                pod_hour.memory_request_byte_seconds
            ) as memory_byte_seconds
    ) as billed
    where pod_hour.stage_id = of_stage
        and pod_hour.hour >= from_hour
        and pod_hour.hour < to_hour
        and price.price_per_hour is null
        and price.cpu_price_per_hour is not null
        and price.memory_price_per_hour is not null
        and (pod_hour.gpu_request_gpu_seconds = 0 or price.gpu_price_per_hour is not null);
end;
comment on function mart.pod_rate_cost(bigint, timestamptz, timestamptz) is
    'What the pods on virtual nodes (Fargate, Autopilot, virtual kubelets) cost in each hour: rate x what they ask for, or what EKS provisioned for them; their node''s capacity is no cost of its own. Rounded half up at 18 decimals.';
