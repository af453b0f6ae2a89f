-- The direct cost lines of every hour of a window, by a `resource` cost model, in one statement.
-- Grain: one row per pod-hour (workload, shared or unpriced) and up to four per node-hour (system,
-- uncovered, idle, overcommit).
-- Why truncation: a node's pool per resource has a closing line, so its parts are truncated at 18
-- decimals and idle (or, when negative, overcommit) takes the residue.
-- Invariant: for every node-hour the lines add up to price × seconds / 3600 exactly.
with model as (
    select
        stage_hour.hour,
        stage_hour.revision,
        cost_model.*
    from ops.stage_hour
    join core.cost_model
        on cost_model.during @> stage_hour.hour and cost_model.known @> stage_hour.as_of
    where stage_hour.stage_id = :stage_id
        and stage_hour.hour >= :start
        and stage_hour.hour < :end
        and cost_model.cost_model = :cost_model
        and cost_model.kind = 'resource'
),

node_pool as materialized (
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
        priced.gpu_uncovered
    from core.node_hour
    join mart.node_pool(:stage_id, :cost_model, :start, :end) as priced using (hour, node_key)
    join (select distinct cost_model_key from model) as resource_model using (cost_model_key)
    where node_hour.stage_id = :stage_id and node_hour.hour >= :start and node_hour.hour < :end
),

held as (
    select
        pod_hour.*,
        pod_owner.namespace,
        pod_owner.owner
    from core.pod_hour
    join mart.pod_owner(:stage_id, cast(:cluster_key as smallint), :start, :end) as pod_owner
        using (hour, pod_key)
    where pod_hour.stage_id = :stage_id and pod_hour.hour >= :start and pod_hour.hour < :end
),

pod_line as (
    select
        held.hour,
        held.node_key,
        held.pod_key,
        case when shared.is_shared then 'cluster' else held.owner end as owner,
        shared.is_shared,
        model.cost_model_key,
        model.revision,
        amount.cpu_core_seconds,
        amount.memory_byte_seconds,
        amount.gpu_seconds,
        node_pool.cost is not null as is_priced,
        case when node_pool.cost is not null then mart.share(
            node_pool.cpu_pool - node_pool.cpu_uncovered, amount.cpu_core_seconds, node_pool.cpu_covered_core_seconds
        ) end as cpu_cost,
        case when node_pool.cost is not null then mart.share(
            node_pool.memory_pool - node_pool.memory_uncovered,
            amount.memory_byte_seconds,
            node_pool.memory_covered_byte_seconds
        ) end as memory_cost,
        case when node_pool.cost is not null then mart.share(
            node_pool.gpu_pool - node_pool.gpu_uncovered, amount.gpu_seconds, node_pool.gpu_covered_gpu_seconds
        ) end as gpu_cost,
        node_pool.currency,
        node_pool.snapshot_ids
    from held
    join model using (hour)
    left join node_pool using (hour, node_key)
    cross join lateral (
        select
            mart.billed(
                model.cpu_basis,
                held.cpu_request_core_seconds,
                held.cpu_request_used_core_seconds,
                held.cpu_used_core_seconds
            ) as cpu_core_seconds,
            mart.billed(
                model.memory_basis,
                held.memory_request_byte_seconds,
                held.memory_request_used_byte_seconds,
                held.memory_used_byte_seconds
            ) as memory_byte_seconds,
            held.gpu_request_gpu_seconds as gpu_seconds
    ) as amount
    cross join lateral (
        select coalesce(held.namespace ~ model.shared_namespace_pattern and held.owner <> 'excluded', false)
        as is_shared
    ) as shared
),

taken as (
    select
        hour,
        node_key,
        sum(cpu_core_seconds) as cpu_core_seconds,
        sum(memory_byte_seconds) as memory_byte_seconds,
        sum(gpu_seconds) as gpu_seconds,
        sum(cpu_cost) as cpu_cost,
        sum(memory_cost) as memory_cost,
        sum(gpu_cost) as gpu_cost
    from pod_line
    where node_key is not null
    group by hour, node_key
),

closing as (
    select
        node_pool.*,
        reserved.*,
        mart.share(cpu_pool - cpu_uncovered, reserved.cpu_reserved, cpu_covered_core_seconds) as cpu_system,
        mart.share(memory_pool - memory_uncovered, reserved.memory_reserved, memory_covered_byte_seconds)
        as memory_system,
        mart.share(gpu_pool - gpu_uncovered, reserved.gpu_reserved, gpu_covered_gpu_seconds) as gpu_system,
        cpu_covered_core_seconds - reserved.cpu_reserved - coalesce(taken.cpu_core_seconds, 0) as cpu_left,
        memory_covered_byte_seconds - reserved.memory_reserved - coalesce(taken.memory_byte_seconds, 0)
        as memory_left,
        gpu_covered_gpu_seconds - reserved.gpu_reserved - coalesce(taken.gpu_seconds, 0) as gpu_left,
        coalesce(taken.cpu_cost, 0) as cpu_taken,
        coalesce(taken.memory_cost, 0) as memory_taken,
        coalesce(taken.gpu_cost, 0) as gpu_taken
    from node_pool
    left join taken using (hour, node_key)
    cross join lateral (
        select
            greatest(cpu_covered_core_seconds - cpu_allocatable_core_seconds, 0) as cpu_reserved,
            greatest(memory_covered_byte_seconds - memory_allocatable_byte_seconds, 0) as memory_reserved,
            greatest(gpu_covered_gpu_seconds - gpu_allocatable_gpu_seconds, 0) as gpu_reserved
    ) as reserved
    where not node_pool.is_virtual
),

residue as (
    select
        closing.*,
        cpu_pool - cpu_uncovered - cpu_system - cpu_taken as cpu_residue,
        memory_pool - memory_uncovered - memory_system - memory_taken as memory_residue,
        gpu_pool - gpu_uncovered - gpu_system - gpu_taken as gpu_residue
    from closing
),

node_line as (
    select
        residue.hour,
        residue.node_key,
        residue.cost_model_key,
        residue.revision,
        line.*,
        residue.currency,
        residue.snapshot_ids
    from residue
    cross join lateral (
        values
        (
            'system', cpu_reserved, memory_reserved, gpu_reserved, cpu_system, memory_system, gpu_system
        ),
        (
            'uncovered',
            cpu_capacity_core_seconds - cpu_covered_core_seconds,
            memory_capacity_byte_seconds - memory_covered_byte_seconds,
            gpu_capacity_gpu_seconds - gpu_covered_gpu_seconds,
            cpu_uncovered,
            memory_uncovered,
            gpu_uncovered
        ),
        (
            'idle',
            greatest(cpu_left, 0),
            greatest(memory_left, 0),
            greatest(gpu_left, 0),
            greatest(cpu_residue, 0),
            greatest(memory_residue, 0),
            greatest(gpu_residue, 0)
        ),
        (
            'overcommit',
            least(cpu_left, 0),
            least(memory_left, 0),
            least(gpu_left, 0),
            least(cpu_residue, 0),
            least(memory_residue, 0),
            least(gpu_residue, 0)
        )
    ) as line (
        line, cpu_core_seconds, memory_byte_seconds, gpu_seconds, cpu_cost, memory_cost, gpu_cost
    )
    where residue.cost is not null
        and (
            line.cpu_cost <> 0 or line.memory_cost <> 0 or line.gpu_cost <> 0
            or line.cpu_core_seconds <> 0 or line.memory_byte_seconds <> 0 or line.gpu_seconds <> 0
        )
    union all
    select
        closing.hour,
        closing.node_key,
        closing.cost_model_key,
        closing.revision,
        'unpriced',
        closing.cpu_capacity_core_seconds - closing.cpu_covered_core_seconds + closing.cpu_reserved + closing.cpu_left,
        closing.memory_capacity_byte_seconds - closing.memory_covered_byte_seconds + closing.memory_reserved
        + closing.memory_left,
        closing.gpu_capacity_gpu_seconds - closing.gpu_covered_gpu_seconds + closing.gpu_reserved + closing.gpu_left,
        null,
        null,
        null,
        null,
        '{}'
    from closing
    where closing.cost is null
)

insert into mart.cost_hour (
    stage_id, cluster_key, hour, cost_model_key, revision, line, node_key, pod_key, owner,
    cpu_core_seconds, memory_byte_seconds, gpu_seconds, cpu_cost, memory_cost, gpu_cost,
    storage_cost, network_cost, load_balancer_cost, other_cost, currency, price_snapshot_ids
)
select
    :stage_id,
    :cluster_key,
    hour,
    cost_model_key,
    revision,
    case when not is_priced then 'unpriced' when is_shared then 'shared' else 'workload' end,
    node_key,
    pod_key,
    owner,
    cpu_core_seconds,
    memory_byte_seconds,
    gpu_seconds,
    cpu_cost,
    memory_cost,
    gpu_cost,
    case when is_priced then 0 end,
    case when is_priced then 0 end,
    case when is_priced then 0 end,
    case when is_priced then 0 end,
    currency,
    coalesce(snapshot_ids, '{}')
from pod_line
union all
select
    :stage_id,
    :cluster_key,
    hour,
    cost_model_key,
    revision,
    line,
    node_key,
    null,
    'cluster',
    cpu_core_seconds,
    memory_byte_seconds,
    gpu_seconds,
    cpu_cost,
    memory_cost,
    gpu_cost,
    case when line <> 'unpriced' then 0 end,
    case when line <> 'unpriced' then 0 end,
    case when line <> 'unpriced' then 0 end,
    case when line <> 'unpriced' then 0 end,
    currency,
    coalesce(snapshot_ids, '{}')
from node_line
