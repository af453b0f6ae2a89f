-- Nodes: what they offered, what they cost, and where that money went.
-- A node that changed within a stage (label, pool) is shown as it was last.

create or replace function bi.node_pool(labels jsonb, instance_type text) returns text
    language sql immutable parallel safe
    return coalesce(nullif(core.node_pool(labels), ''), instance_type);
comment on function bi.node_pool(jsonb, text) is
    'The node pool a node belongs to, from the labels that providers set; its machine type where there is none.';

create view bi.node_hour as
select
    cluster.cluster,
    published.hour,
    node.node,
    node.uid as node_uid,
    bi.node_pool(segment.labels, segment.instance_type) as node_pool,
    segment.instance_type,
    segment.region,
    segment.zone,
    segment.capacity_type,
    node_hour.is_virtual,
    node_hour.seconds,
    node_hour.ready_seconds,
    node_hour.covered_seconds,
    node_hour.cpu_capacity_core_seconds / 3600 as cpu_capacity_core_hours,
    node_hour.cpu_allocatable_core_seconds / 3600 as cpu_allocatable_core_hours,
    node_hour.memory_capacity_byte_seconds / 3600 / 1073741824 as memory_capacity_gib_hours,
    node_hour.memory_allocatable_byte_seconds / 3600 / 1073741824 as memory_allocatable_gib_hours,
    node_hour.gpu_capacity_gpu_seconds / 3600 as gpu_capacity_gpu_hours,
    node_hour.gpu_allocatable_gpu_seconds / 3600 as gpu_allocatable_gpu_hours,
    price.state as price_state,
    price.reason as price_reason,
    price.origin as price_origin,
    price.price_per_hour,
    round(cast(price.price_per_hour * node_hour.seconds as numeric(60, 30)) / 3600, 18) as cost,
    price.currency
from ops.published_hour as published
join core.node_hour
    on node_hour.stage_id = published.stage_id and node_hour.hour = published.hour
join core.cluster on cluster.cluster_key = published.cluster_key
join core.node using (node_key)
left join core.node_price as price
    on price.stage_id = node_hour.stage_id
    and price.node_key = node_hour.node_key
    and price.during @> node_hour.hour
    and not node_hour.is_virtual
left join lateral (
    select *
    from core.node_segment
    where node_segment.stage_id = node_hour.stage_id
        and node_segment.node_key = node_hour.node_key
        and node_segment.during && tstzrange(node_hour.hour, node_hour.hour + interval '1 hour')
    order by upper(node_segment.during) desc
    limit 1
) as segment on true;

comment on view bi.node_hour is 'What each node offered and cost in each hour.';
comment on column bi.node_hour.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.node_hour.hour is 'Start of the hour, UTC.';
comment on column bi.node_hour.node is 'Node.';
comment on column bi.node_hour.node_uid is 'Kubernetes uid of the node.';
comment on column bi.node_hour.node_pool is 'Node pool, from the labels the providers set; the machine type where there is none.';
comment on column bi.node_hour.instance_type is 'Machine type.';
comment on column bi.node_hour.region is 'Cloud region.';
comment on column bi.node_hour.zone is 'Cloud zone.';
comment on column bi.node_hour.capacity_type is 'on_demand or spot; null = not said.';
comment on column bi.node_hour.is_virtual is 'Its capacity is no cost of its own.';
comment on column bi.node_hour.seconds is 'Seconds of the hour it existed.';
comment on column bi.node_hour.ready_seconds is 'Seconds it was ready.';
comment on column bi.node_hour.covered_seconds is 'Seconds it existed while the pods on it are known.';
comment on column bi.node_hour.cpu_capacity_core_hours is 'CPU capacity, in core-hours.';
comment on column bi.node_hour.cpu_allocatable_core_hours is 'CPU open to pods while they are known, in core-hours.';
comment on column bi.node_hour.memory_capacity_gib_hours is 'Memory capacity, in GiB-hours.';
comment on column bi.node_hour.memory_allocatable_gib_hours is 'Memory open to pods while they are known, in GiB-hours.';
comment on column bi.node_hour.gpu_capacity_gpu_hours is 'GPU capacity, in GPU-hours.';
comment on column bi.node_hour.gpu_allocatable_gpu_hours is 'GPUs open to pods while they are known, in GPU-hours.';
comment on column bi.node_hour.price_state is 'priced, estimated, unpriced or ambiguous.';
comment on column bi.node_hour.price_reason is 'Why it is not simply priced.';
comment on column bi.node_hour.price_origin is 'sheet, list or cluster_rate.';
comment on column bi.node_hour.price_per_hour is 'Price of a whole hour of the node; null = unpriced.';
comment on column bi.node_hour.cost is 'What it cost in the hour; null = unpriced: unknown, not zero.';
comment on column bi.node_hour.currency is 'ISO 4217 currency; null = unpriced.';

create view bi.cost_by_node_day as
with machine as (
    select distinct on (stage_id, node_key)
        stage_id,
        node_key,
        bi.node_pool(labels, instance_type) as node_pool,
        instance_type
    from core.node_segment
    order by stage_id, node_key, upper(during) desc
)

select
    cluster.cluster,
    cast(published.hour at time zone 'UTC' as date) as day,
    cost_model.cost_model,
    node.node,
    machine.node_pool,
    machine.instance_type,
    cost_hour.line,
    sum(cost_hour.cpu_core_seconds) / 3600 as cpu_core_hours,
    sum(cost_hour.memory_byte_seconds) / 3600 / 1073741824 as memory_gib_hours,
    sum(cost_hour.gpu_seconds) / 3600 as gpu_hours,
    sum(cost_hour.cpu_cost) as cpu_cost,
    sum(cost_hour.memory_cost) as memory_cost,
    sum(cost_hour.gpu_cost) as gpu_cost,
    sum(cost_hour.cost) as cost,
    cost_hour.currency
from ops.published_hour as published
join mart.cost_hour
    on cost_hour.stage_id = published.stage_id and cost_hour.hour = published.hour
join core.cluster on cluster.cluster_key = published.cluster_key
join core.cost_model using (cost_model_key)
left join core.node using (node_key)
left join machine
    on machine.stage_id = cost_hour.stage_id and machine.node_key = cost_hour.node_key
group by
    cluster.cluster,
    cast(published.hour at time zone 'UTC' as date),
    cost_model.cost_model,
    node.node_key,
    machine.node_pool,
    machine.instance_type,
    cost_hour.line,
    cost_hour.currency;

comment on view bi.cost_by_node_day is 'Where the money of each node went, by day.';
comment on column bi.cost_by_node_day.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.cost_by_node_day.day is 'UTC day.';
comment on column bi.cost_by_node_day.cost_model is 'Cost model. Filter on one: each model bills the same cluster in full.';
comment on column bi.cost_by_node_day.node is 'Node; null for pods of which no source says where they ran.';
comment on column bi.cost_by_node_day.node_pool is 'Node pool, from the labels the providers set; the machine type where there is none.';
comment on column bi.cost_by_node_day.instance_type is 'Machine type.';
comment on column bi.cost_by_node_day.line is 'What the cost is for: workload; system (reserved on nodes); idle; overcommit (negative); uncovered (no data); shared; unmounted; unpriced; recovery; correction.';
comment on column bi.cost_by_node_day.cpu_core_hours is 'CPU the cost is for, in core-hours.';
comment on column bi.cost_by_node_day.memory_gib_hours is 'Memory the cost is for, in GiB-hours.';
comment on column bi.cost_by_node_day.gpu_hours is 'GPUs the cost is for, in GPU-hours.';
comment on column bi.cost_by_node_day.cpu_cost is 'Cost of CPU; null = unpriced.';
comment on column bi.cost_by_node_day.memory_cost is 'Cost of memory; null = unpriced.';
comment on column bi.cost_by_node_day.gpu_cost is 'Cost of GPUs; null = unpriced.';
comment on column bi.cost_by_node_day.cost is 'Cost, with all resources; null = unpriced: unknown, not zero.';
comment on column bi.cost_by_node_day.currency is 'ISO 4217 currency; null = unpriced.';

create view bi.idle_day as
select
    cluster,
    day,
    cost_model,
    node_pool,
    coalesce(sum(cost) filter (where line = 'workload'), 0) as workload_cost,
    coalesce(sum(cost) filter (where line = 'system'), 0) as system_cost,
    coalesce(sum(cost) filter (where line = 'idle'), 0) as idle_cost,
    coalesce(sum(cost) filter (where line = 'overcommit'), 0) as overcommit_cost,
    coalesce(sum(cost) filter (where line = 'uncovered'), 0) as uncovered_cost,
    sum(cost) as cost,
    round(coalesce(sum(cost) filter (where line = 'idle'), 0) / nullif(sum(cost), 0), 6) as idle_share,
    coalesce(sum(cpu_core_hours) filter (where line = 'idle'), 0) as idle_cpu_core_hours,
    coalesce(sum(memory_gib_hours) filter (where line = 'idle'), 0) as idle_memory_gib_hours,
    coalesce(sum(gpu_hours) filter (where line = 'idle'), 0) as idle_gpu_hours,
    currency
from bi.cost_by_node_day
group by
    cluster,
    day,
    cost_model,
    node_pool,
    currency;

comment on view bi.idle_day is 'How much of each node pool was worked with, and how much was reserved, idle, overcommitted or without data, by day.';
comment on column bi.idle_day.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.idle_day.day is 'UTC day.';
comment on column bi.idle_day.cost_model is 'Cost model. Filter on one: each model bills the same cluster in full.';
comment on column bi.idle_day.node_pool is 'Node pool, from the labels the providers set; the machine type where there is none. Null for pods of which no source says where they ran.';
comment on column bi.idle_day.workload_cost is 'Cost carried by pods.';
comment on column bi.idle_day.system_cost is 'Cost of what nodes reserve for themselves.';
comment on column bi.idle_day.idle_cost is 'Cost of capacity nobody asked for.';
comment on column bi.idle_day.overcommit_cost is 'Negative: pods asked for or used more than there was.';
comment on column bi.idle_day.uncovered_cost is 'Cost of time for which the pods are not known.';
comment on column bi.idle_day.cost is 'Cost of the pool; null = wholly unpriced.';
comment on column bi.idle_day.idle_share is 'Idle / cost, 0 to 1; null when there is no cost.';
comment on column bi.idle_day.idle_cpu_core_hours is 'Idle CPU.';
comment on column bi.idle_day.idle_memory_gib_hours is 'Idle memory.';
comment on column bi.idle_day.idle_gpu_hours is 'Idle GPUs.';
comment on column bi.idle_day.currency is 'ISO 4217 currency; null = unpriced.';
