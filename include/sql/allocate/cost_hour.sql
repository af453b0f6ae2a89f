-- The direct cost lines of every hour of a window, by a `resource` cost model, in one statement.
-- Grain: one row per pod-hour (workload, shared or unpriced) and up to four per node-hour (system,
-- uncovered, idle, overcommit).
-- Why truncation: a node's pool per resource has a closing line, so its parts are truncated at 18
-- decimals and idle (or, when negative, overcommit) takes the residue. The node's cost itself is cut
-- into resources by largest remainder, ties by name, because that cut has no closing line.
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
),

node as (
    select
        node_hour.*,
        model.cost_model_key,
        model.revision,
        price.currency,
        price.snapshot_ids,
        mart.node_cost(price.price_per_hour, node_hour.seconds) as cost,
        case
            when parts.are_known then price.cpu_price_per_hour
            else model.cpu_weight * node_hour.cpu_capacity_core_seconds * 1073741824
        end as cpu_weight,
        case
            when parts.are_known then price.memory_price_per_hour
            else model.memory_weight * node_hour.memory_capacity_byte_seconds
        end as memory_weight,
        case
            when parts.are_known then price.gpu_price_per_hour
            else model.gpu_weight * node_hour.gpu_capacity_gpu_seconds * 1073741824
        end as gpu_weight
    from core.node_hour
    join model using (hour)
    left join core.node_price as price
        on price.stage_id = node_hour.stage_id
        and price.node_key = node_hour.node_key
        and price.during @> node_hour.hour
        and not node_hour.is_virtual
    cross join lateral (
        select (
            price.cpu_price_per_hour is not null
            and price.memory_price_per_hour is not null
            and price.gpu_price_per_hour is not null
        ) as are_known
    ) as parts
    where node_hour.stage_id = :stage_id and node_hour.hour >= :start and node_hour.hour < :end
),

cut as (
    select
        node.*,
        weight.total,
        div(node.cost * 1000000000000000000 * node.cpu_weight, nullif(weight.total, 0)) as cpu_units,
        div(node.cost * 1000000000000000000 * node.gpu_weight, nullif(weight.total, 0)) as gpu_units,
        div(node.cost * 1000000000000000000 * node.memory_weight, nullif(weight.total, 0)) as memory_units,
        mod(node.cost * 1000000000000000000 * node.cpu_weight, nullif(weight.total, 0)) as cpu_rest,
        mod(node.cost * 1000000000000000000 * node.gpu_weight, nullif(weight.total, 0)) as gpu_rest,
        mod(node.cost * 1000000000000000000 * node.memory_weight, nullif(weight.total, 0)) as memory_rest
    from node
    cross join lateral (
        select node.cpu_weight + node.memory_weight + node.gpu_weight as total
    ) as weight
),

pool as (
    select
        cut.*,
        case
            when cut.total = 0 then cut.cost
            else (
                cut.cpu_units + (
                    given.units_left > (cut.gpu_rest > cut.cpu_rest)::integer
                    + (cut.memory_rest > cut.cpu_rest)::integer
                )::integer
            ) * 0.000000000000000001
        end as cpu_pool,
        case
            when cut.total = 0 then 0
            else (
                cut.gpu_units + (
                    given.units_left > (cut.cpu_rest >= cut.gpu_rest)::integer
                    + (cut.memory_rest > cut.gpu_rest)::integer
                )::integer
            ) * 0.000000000000000001
        end as gpu_pool,
        case
            when cut.total = 0 then 0
            else (
                cut.memory_units + (
                    given.units_left > (cut.cpu_rest >= cut.memory_rest)::integer
                    + (cut.gpu_rest >= cut.memory_rest)::integer
                )::integer
            ) * 0.000000000000000001
        end as memory_pool
    from cut
    cross join lateral (
        select
            cut.cost * 1000000000000000000 - cut.cpu_units - cut.gpu_units - cut.memory_units as units_left
    ) as given
),

node_pool as (
    select
        pool.*,
        mart.share(cpu_pool, seconds - covered_seconds, seconds) as cpu_uncovered,
        mart.share(memory_pool, seconds - covered_seconds, seconds) as memory_uncovered,
        mart.share(gpu_pool, seconds - covered_seconds, seconds) as gpu_uncovered
    from pool
),

valid_rule as (
    select
        stage_hour.hour,
        array_agg(rule.owner_rule_id order by rule.position, rule.owner_rule_id) as rule_ids
    from ops.stage_hour
    cross join core.cluster
    left join core.owner_rule as rule
        on rule.during @> stage_hour.hour
        and rule.known @> stage_hour.as_of
        and cluster.cluster ~ rule.cluster_pattern
    where stage_hour.stage_id = :stage_id
        and stage_hour.hour >= :start
        and stage_hour.hour < :end
        and cluster.cluster_key = :cluster_key
    group by stage_hour.hour
),

pod_label as (
    select distinct on (pod_segment.pod_key, stage_hour.hour)
        pod_segment.pod_key,
        stage_hour.hour,
        pod_segment.labels
    from core.pod_segment
    join ops.stage_hour
        on stage_hour.stage_id = pod_segment.stage_id
        and pod_segment.during && tstzrange(stage_hour.hour, stage_hour.hour + interval '1 hour')
    where pod_segment.stage_id = :stage_id and stage_hour.hour >= :start and stage_hour.hour < :end
    order by pod_segment.pod_key, stage_hour.hour, upper(pod_segment.during) desc
),

namespace_label as (
    select distinct on (segment.namespace, stage_hour.hour)
        segment.namespace,
        stage_hour.hour,
        segment.labels
    from core.namespace_segment as segment
    join ops.stage_hour
        on stage_hour.stage_id = segment.stage_id
        and date_trunc('day', stage_hour.hour, 'UTC') = date_trunc('day', lower(segment.during), 'UTC')
    cross join lateral (
        select extract(epoch from stage_hour.hour + interval '1 hour' - lower(segment.during)) as seconds
    ) as before_end
    where segment.stage_id = :stage_id and stage_hour.hour >= :start and stage_hour.hour < :end
    order by segment.namespace, stage_hour.hour, before_end.seconds > 0 desc, abs(before_end.seconds)
),

held as (
    select
        pod_hour.*,
        pod.namespace,
        valid_rule.rule_ids,
        coalesce(pod_label.labels, '{}') as pod_labels,
        coalesce(namespace_label.labels, '{}') as namespace_labels
    from core.pod_hour
    join core.pod using (pod_key)
    join valid_rule using (hour)
    left join pod_label using (pod_key, hour)
    left join namespace_label using (namespace, hour)
    where pod_hour.stage_id = :stage_id and pod_hour.hour >= :start and pod_hour.hour < :end
),

owned as materialized (
    select
        kind.*,
        coalesce(chosen.owner, 'unowned') as owner
    from (select distinct namespace, rule_ids, pod_labels, namespace_labels from held) as kind
    left join lateral (
        select coalesce(nullif(rule.owner, ''), label.value) as owner
        from core.owner_rule as rule
        cross join lateral (
            select coalesce(
                source.labels ->> rule.label_key,
                source.labels ->> regexp_replace(rule.label_key, '[^a-zA-Z0-9_]', '_', 'g')
            ) as value
            from (
                select case rule.label_of
                    when 'pod' then kind.pod_labels
                    when 'namespace' then kind.namespace_labels
                end as labels
            ) as source
        ) as label
        where rule.owner_rule_id = any(kind.rule_ids)
            and kind.namespace ~ rule.namespace_pattern
            and (rule.label_of = '' or (label.value <> '' and label.value ~ rule.label_pattern))
        order by rule.position, rule.owner_rule_id
        limit 1
    ) as chosen on true
),

pod_line as (
    select
        held.hour,
        held.node_key,
        held.pod_key,
        case when shared.is_shared then 'cluster' else owned.owner end as owner,
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
    join owned using (namespace, rule_ids, pod_labels, namespace_labels)
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
        select coalesce(held.namespace ~ model.shared_namespace_pattern and owned.owner <> 'excluded', false)
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
