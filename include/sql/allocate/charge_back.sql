-- The cost lines of every hour of a window, by a `charge_back` cost model, in one statement.
-- What it says: all nodes are one pool per resource, shared hour by hour by what pods used (or asked for,
-- or the larger of both) and by what nodes keep for themselves. Nothing is idle: idle capacity is paid in
-- proportion. Source: the model of that name of kube-opex-analytics, by the hour and once per cluster.
-- Grain: one row per pod-hour (workload or unpriced), one `system` row per hour, `uncovered` and `unpriced`
-- rows per node-hour, and `idle` where nobody used anything of a resource.
-- Why largest remainder: such a cut has no closing line; ties go by pod uid, the nodes' own share first.
-- Invariant: for every hour the lines add up to the nodes' cost exactly.
with model as (
    select
        stage_hour.hour,
        cost_model.cost_model_key,
        cost_model.cpu_basis,
        cost_model.memory_basis
    from ops.stage_hour
    join core.cost_model
        on cost_model.during @> stage_hour.hour and cost_model.known @> stage_hour.as_of
    where stage_hour.stage_id = :stage_id
        and stage_hour.hour >= :start
        and stage_hour.hour < :end
        and cost_model.cost_model = :cost_model
        and cost_model.kind = 'charge_back'
),

node as materialized (
    select
        node_hour.*,
        priced.cost_model_key,
        priced.revision,
        priced.currency,
        priced.snapshot_ids,
        priced.cost,
        priced.cpu_pool,
        priced.memory_pool,
        priced.gpu_pool,
        priced.cpu_uncovered,
        priced.memory_uncovered,
        priced.gpu_uncovered,
        greatest(node_hour.cpu_covered_core_seconds - node_hour.cpu_allocatable_core_seconds, 0) as cpu_reserved,
        greatest(node_hour.memory_covered_byte_seconds - node_hour.memory_allocatable_byte_seconds, 0)
        as memory_reserved,
        greatest(node_hour.gpu_covered_gpu_seconds - node_hour.gpu_allocatable_gpu_seconds, 0) as gpu_reserved
    from core.node_hour
    join mart.node_pool(:stage_id, :cost_model, :start, :end) as priced using (hour, node_key)
    join model using (hour, cost_model_key)
    where node_hour.stage_id = :stage_id
        and node_hour.hour >= :start
        and node_hour.hour < :end
        and not node_hour.is_virtual
),

held as materialized (
    select
        pod_hour.hour,
        pod_hour.node_key,
        pod_hour.pod_key,
        pod_owner.owner,
        model.cost_model_key,
        node.cost is not null as is_priced,
        mart.billed(
            model.cpu_basis,
            pod_hour.cpu_request_core_seconds,
            pod_hour.cpu_request_used_core_seconds,
            pod_hour.cpu_used_core_seconds
        ) as cpu_core_seconds,
        mart.billed(
            model.memory_basis,
            pod_hour.memory_request_byte_seconds,
            pod_hour.memory_request_used_byte_seconds,
            pod_hour.memory_used_byte_seconds
        ) as memory_byte_seconds,
        pod_hour.gpu_request_gpu_seconds as gpu_seconds
    from core.pod_hour
    join mart.pod_owner(:stage_id, cast(:cluster_key as smallint), :start, :end) as pod_owner
        using (hour, pod_key)
    join model using (hour)
    left join node using (hour, node_key)
    where pod_hour.stage_id = :stage_id and pod_hour.hour >= :start and pod_hour.hour < :end
),

cluster as materialized (
    select
        hour,
        cost_model_key,
        min(revision) as revision,
        min(currency) as currency,
        sum(cpu_pool - cpu_uncovered) as cpu_pool,
        sum(memory_pool - memory_uncovered) as memory_pool,
        sum(gpu_pool - gpu_uncovered) as gpu_pool,
        sum(cpu_reserved) as cpu_reserved,
        sum(memory_reserved) as memory_reserved,
        sum(gpu_reserved) as gpu_reserved
    from node
    where cost is not null
    group by hour, cost_model_key
),

priced_by as (
    select
        hour,
        cost_model_key,
        array_agg(distinct snapshot_id order by snapshot_id) as snapshot_ids
    from node
    cross join lateral unnest(snapshot_ids) as named (snapshot_id)
    where cost is not null
    group by hour, cost_model_key
),

taking as (
    select
        hour,
        cost_model_key,
        pod_key,
        cpu_core_seconds,
        memory_byte_seconds,
        gpu_seconds
    from held
    where is_priced
    union all
    select
        hour,
        cost_model_key,
        null,
        cpu_reserved,
        memory_reserved,
        gpu_reserved
    from cluster
),

part as (
    select
        taking.hour,
        taking.cost_model_key,
        taking.pod_key,
        resource.resource,
        resource.pool,
        resource.amount,
        sum(resource.amount) over (partition by taking.hour, taking.cost_model_key, resource.resource) as total
    from taking
    join cluster using (hour, cost_model_key)
    cross join lateral (
        values
        ('cpu', cluster.cpu_pool, taking.cpu_core_seconds),
        ('memory', cluster.memory_pool, taking.memory_byte_seconds),
        ('gpu', cluster.gpu_pool, taking.gpu_seconds)
    ) as resource (resource, pool, amount)
    where resource.pool > 0 and resource.amount > 0
),

cut as (
    select
        part.*,
        div(part.pool * 1000000000000000000 * part.amount, part.total) as units,
        mod(part.pool * 1000000000000000000 * part.amount, part.total) as rest
    from part
),

given as (
    select
        cut.hour,
        cut.cost_model_key,
        cut.pod_key,
        cut.resource,
        (
            cut.units + (
                row_number() over (
                    partition by cut.hour, cut.cost_model_key, cut.resource
                    order by cut.rest desc, pod.uid collate "C" nulls first
                ) <= cut.pool * 1000000000000000000
                - sum(cut.units) over (partition by cut.hour, cut.cost_model_key, cut.resource)
            )::integer
        ) * 0.000000000000000001 as cost
    from cut
    left join core.pod using (pod_key)
),

share as materialized (
    select
        hour,
        cost_model_key,
        pod_key,
        coalesce(sum(cost) filter (where resource = 'cpu'), 0) as cpu_cost,
        coalesce(sum(cost) filter (where resource = 'memory'), 0) as memory_cost,
        coalesce(sum(cost) filter (where resource = 'gpu'), 0) as gpu_cost
    from given
    group by hour, cost_model_key, pod_key
),

spent as (
    select
        hour,
        cost_model_key,
        sum(cpu_cost) as cpu_cost,
        sum(memory_cost) as memory_cost,
        sum(gpu_cost) as gpu_cost
    from share
    group by hour, cost_model_key
),

on_unpriced as (
    select
        hour,
        node_key,
        sum(cpu_core_seconds) as cpu_core_seconds,
        sum(memory_byte_seconds) as memory_byte_seconds,
        sum(gpu_seconds) as gpu_seconds
    from held
    where not is_priced
    group by hour, node_key
),

line as (
    select
        held.hour,
        held.cost_model_key,
        case when held.is_priced then 'workload' else 'unpriced' end as line,
        held.node_key,
        held.pod_key,
        held.owner,
        held.cpu_core_seconds,
        held.memory_byte_seconds,
        held.gpu_seconds,
        case when held.is_priced then coalesce(share.cpu_cost, 0) end as cpu_cost,
        case when held.is_priced then coalesce(share.memory_cost, 0) end as memory_cost,
        case when held.is_priced then coalesce(share.gpu_cost, 0) end as gpu_cost
    from held
    left join share using (hour, cost_model_key, pod_key)
    union all
    select
        cluster.hour,
        cluster.cost_model_key,
        'system',
        null,
        null,
        'cluster',
        cluster.cpu_reserved,
        cluster.memory_reserved,
        cluster.gpu_reserved,
        share.cpu_cost,
        share.memory_cost,
        share.gpu_cost
    from cluster
    join share using (hour, cost_model_key)
    where share.pod_key is null
    union all
    select
        cluster.hour,
        cluster.cost_model_key,
        'idle',
        null,
        null,
        'cluster',
        0,
        0,
        0,
        cluster.cpu_pool - coalesce(spent.cpu_cost, 0),
        cluster.memory_pool - coalesce(spent.memory_cost, 0),
        cluster.gpu_pool - coalesce(spent.gpu_cost, 0)
    from cluster
    left join spent using (hour, cost_model_key)
    where cluster.cpu_pool + cluster.memory_pool + cluster.gpu_pool
        <> coalesce(spent.cpu_cost + spent.memory_cost + spent.gpu_cost, 0)
    union all
    select
        hour,
        cost_model_key,
        'uncovered',
        node_key,
        null,
        'cluster',
        cpu_capacity_core_seconds - cpu_covered_core_seconds,
        memory_capacity_byte_seconds - memory_covered_byte_seconds,
        gpu_capacity_gpu_seconds - gpu_covered_gpu_seconds,
        cpu_uncovered,
        memory_uncovered,
        gpu_uncovered
    from node
    where cost is not null
        and (
            cpu_uncovered <> 0 or memory_uncovered <> 0 or gpu_uncovered <> 0
            or cpu_capacity_core_seconds <> cpu_covered_core_seconds
            or memory_capacity_byte_seconds <> memory_covered_byte_seconds
            or gpu_capacity_gpu_seconds <> gpu_covered_gpu_seconds
        )
    union all
    select
        node.hour,
        node.cost_model_key,
        'unpriced',
        node.node_key,
        null,
        'cluster',
        node.cpu_capacity_core_seconds - coalesce(on_unpriced.cpu_core_seconds, 0),
        node.memory_capacity_byte_seconds - coalesce(on_unpriced.memory_byte_seconds, 0),
        node.gpu_capacity_gpu_seconds - coalesce(on_unpriced.gpu_seconds, 0),
        null,
        null,
        null
    from node
    left join on_unpriced using (hour, node_key)
    where node.cost is null
)

insert into mart.cost_hour (
    stage_id, cluster_key, hour, cost_model_key, revision, line, node_key, pod_key, owner,
    cpu_core_seconds, memory_byte_seconds, gpu_seconds, cpu_cost, memory_cost, gpu_cost,
    storage_cost, network_cost, load_balancer_cost, other_cost, currency, price_snapshot_ids
)
select
    :stage_id,
    :cluster_key,
    line.hour,
    line.cost_model_key,
    stage_hour.revision,
    line.line,
    line.node_key,
    line.pod_key,
    line.owner,
    line.cpu_core_seconds,
    line.memory_byte_seconds,
    line.gpu_seconds,
    line.cpu_cost,
    line.memory_cost,
    line.gpu_cost,
    case when line.line <> 'unpriced' then 0 end,
    case when line.line <> 'unpriced' then 0 end,
    case when line.line <> 'unpriced' then 0 end,
    case when line.line <> 'unpriced' then 0 end,
    case when line.line <> 'unpriced' then cluster.currency end,
    case when line.line <> 'unpriced' then coalesce(priced_by.snapshot_ids, '{}') else '{}' end
from line
join ops.stage_hour on stage_hour.stage_id = :stage_id and stage_hour.hour = line.hour
left join cluster on cluster.hour = line.hour and cluster.cost_model_key = line.cost_model_key
left join priced_by on priced_by.hour = line.hour and priced_by.cost_model_key = line.cost_model_key
