-- Passes one line's pools (:line of the cluster) on to those who run workloads, where the model says so.
-- Grain: a plus row per recipient and hour, a minus row per pool row and hour, both of the pool's line;
-- per hour, model, scope and resource they net to zero. Runs after the direct lines, and only reads those:
-- the steps of a cascade do not feed each other, so their order does not change a sum.
-- Why largest remainder: such a cut has no closing line; ties go by uid, pool, namespace and owner.
-- A resource of a pool that nobody in its scope has a weight for stays where it is, under its name.
with policy as materialized (
    select
        stage_hour.hour,
        stage_hour.as_of,
        cost_model.cost_model_key,
        share_policy.scope,
        share_policy.weights,
        share_policy.shares,
        share_policy.driver
    from ops.stage_hour
    join core.cost_model
        on cost_model.during @> stage_hour.hour and cost_model.known @> stage_hour.as_of
    join core.share_policy using (cost_model_key)
    where stage_hour.stage_id = :stage_id
        and stage_hour.hour >= :start
        and stage_hour.hour < :end
        and cost_model.cost_model = :cost_model
        and share_policy.line = :line
),

labelled as (
    select distinct on (policy.hour, node_segment.node_key)
        policy.hour,
        node_segment.node_key,
        core.node_pool(node_segment.labels) as node_pool
    from policy
    join core.node_segment
        on node_segment.stage_id = :stage_id
        and node_segment.during && tstzrange(policy.hour, policy.hour + interval '1 hour')
    where policy.scope = 'node_pool'
    order by policy.hour, node_segment.node_key, upper(node_segment.during) desc
),

placed as (
    select
        hour,
        node_key,
        node_pool,
        min(node_key) over (partition by hour, node_pool) as scope_key
    from labelled
),

line as materialized (
    select
        row_number() over () as line_id,
        cost_hour.hour,
        cost_hour.cost_model_key,
        cost_hour.revision,
        cost_hour.line = 'workload' as is_recipient,
        cost_hour.owner,
        cost_hour.node_key,
        cost_hour.pod_key,
        cost_hour.pool,
        cost_hour.namespace,
        cost_hour.cpu_cost,
        cost_hour.memory_cost,
        cost_hour.gpu_cost,
        cost_hour.storage_cost,
        cost_hour.network_cost,
        cost_hour.load_balancer_cost,
        cost_hour.other_cost,
        cost_hour.cost,
        cost_hour.currency,
        cost_hour.price_snapshot_ids,
        placed.node_pool,
        case policy.scope
            when 'cluster' then 0
            when 'node' then cost_hour.node_key
            else placed.scope_key
        end as scope_key,
        policy.as_of,
        policy.weights,
        policy.shares,
        policy.driver
    from mart.cost_hour
    join policy using (hour, cost_model_key)
    left join placed using (hour, node_key)
    where cost_hour.stage_id = :stage_id
        and cost_hour.hour >= :start
        and cost_hour.hour < :end
        and not cost_hour.is_distribution
        and cost_hour.cost is not null
        and (cost_hour.line = 'workload' or cost_hour.line = :line and cost_hour.owner = 'cluster')
),

-- One resource of the pools of one scope and hour: what is cut at once.
part as materialized (
    select
        row_number() over () as part_id,
        amounts.*
    from (
        select
            line.hour,
            line.cost_model_key,
            line.scope_key,
            line.as_of,
            line.weights,
            line.shares,
            line.driver,
            min(line.node_pool) as node_pool,
            min(line.revision) as revision,
            min(line.currency) as currency,
            component.component,
            sum(component.cost) as amount
        from line
        cross join lateral (
            values
            ('cpu', line.cpu_cost),
            ('memory', line.memory_cost),
            ('gpu', line.gpu_cost),
            ('storage', line.storage_cost),
            ('network', line.network_cost),
            ('load_balancer', line.load_balancer_cost),
            ('other', line.other_cost)
        ) as component (component, cost)
        where not line.is_recipient and line.scope_key is not null and component.cost <> 0
        group by
            line.hour, line.cost_model_key, line.scope_key, line.as_of, line.weights, line.shares,
            line.driver, component.component
    ) as amounts
),

paying_owner as (
    select distinct
        hour,
        cost_model_key,
        scope_key,
        owner
    from line
    where is_recipient and weights = 'even'
),

recipient as materialized (
    select
        part.part_id,
        line.line_id,
        line.owner,
        line.pod_key,
        line.pool,
        line.namespace,
        case
            when part.weights = 'cost' then line.cost
            when part.component = 'cpu' then line.cpu_cost
            when part.component = 'memory' then line.memory_cost
            when part.component = 'gpu' then line.gpu_cost
            when part.component = 'storage' then line.storage_cost
            when part.component = 'network' then line.network_cost
            when part.component = 'load_balancer' then line.load_balancer_cost
            else line.cost
        end as weight
    from part
    join line using (hour, cost_model_key, scope_key)
    where line.is_recipient and part.weights in ('resource', 'cost')
    union all
    select
        part.part_id,
        null,
        named.owner,
        null,
        null,
        null,
        named.weight
    from part
    cross join lateral (
        select
            paying_owner.owner,
            1::numeric as weight
        from paying_owner
        where part.weights = 'even'
            and paying_owner.hour = part.hour
            and paying_owner.cost_model_key = part.cost_model_key
            and paying_owner.scope_key = part.scope_key
        union all
        select
            fixed.key,
            cast(fixed.value as numeric)
        from jsonb_each_text(part.shares) as fixed
        where part.weights = 'shares'
        union all
        select
            part.shares ->> part.node_pool,
            1
        where part.weights = 'node_pool_owner' and part.shares ? part.node_pool
        union all
        select
            share_driver.owner,
            share_driver.weight
        from core.share_driver
        where part.weights = 'driver'
            and share_driver.driver = part.driver
            and share_driver.during @> part.hour
            and share_driver.known @> part.as_of
    ) as named
    where part.weights not in ('resource', 'cost')
),

weighed as materialized (
    select
        part_id,
        sum(weight) as total
    from recipient
    where weight > 0
    group by part_id
),

cut as materialized (
    select
        recipient.part_id,
        recipient.line_id,
        recipient.owner,
        recipient.pod_key,
        recipient.pool,
        recipient.namespace,
        part.amount,
        exact.units,
        scaled.amount * recipient.weight - exact.units * weighed.total as rest
    from recipient
    join part using (part_id)
    join weighed using (part_id)
    cross join lateral (select abs(part.amount) * 1000000000000000000 as amount) as scaled
    cross join lateral (select div(scaled.amount * recipient.weight, weighed.total) as units) as exact
    where recipient.weight > 0
),

left_over as (
    select
        part_id,
        min(abs(amount)) * 1000000000000000000 - sum(units) as units
    from cut
    group by part_id
),

given as (
    select
        cut.part_id,
        cut.line_id,
        cut.owner,
        (
            cut.units + (
                row_number() over (
                    partition by cut.part_id
                    order by
                        cut.rest desc,
                        pod.uid collate "C" nulls first,
                        cut.pool collate "C" nulls first,
                        cut.namespace collate "C" nulls first,
                        cut.owner collate "C"
                ) <= left_over.units
            )::integer
        ) * sign(cut.amount) * 0.000000000000000001 as cost
    from cut
    join left_over using (part_id)
    left join core.pod using (pod_key)
),

plus as (
    select
        given.line_id,
        part.hour,
        part.cost_model_key,
        part.revision,
        part.currency,
        given.owner,
        coalesce(sum(given.cost) filter (where part.component = 'cpu'), 0) as cpu_cost,
        coalesce(sum(given.cost) filter (where part.component = 'memory'), 0) as memory_cost,
        coalesce(sum(given.cost) filter (where part.component = 'gpu'), 0) as gpu_cost,
        coalesce(sum(given.cost) filter (where part.component = 'storage'), 0) as storage_cost,
        coalesce(sum(given.cost) filter (where part.component = 'network'), 0) as network_cost,
        coalesce(sum(given.cost) filter (where part.component = 'load_balancer'), 0) as load_balancer_cost,
        coalesce(sum(given.cost) filter (where part.component = 'other'), 0) as other_cost
    from given
    join part using (part_id)
    group by given.line_id, given.owner, part.hour, part.cost_model_key, part.revision, part.currency
),

taken as (
    select
        part.hour,
        part.cost_model_key,
        part.scope_key,
        bool_or(part.component = 'cpu') as cpu,
        bool_or(part.component = 'memory') as memory,
        bool_or(part.component = 'gpu') as gpu,
        bool_or(part.component = 'storage') as storage,
        bool_or(part.component = 'network') as network,
        bool_or(part.component = 'load_balancer') as load_balancer,
        bool_or(part.component = 'other') as other
    from weighed
    join part using (part_id)
    group by part.hour, part.cost_model_key, part.scope_key
)

insert into mart.cost_hour (
    stage_id, cluster_key, hour, cost_model_key, revision, line, is_distribution, owner, node_key, pod_key,
    pool, namespace, cpu_cost, memory_cost, gpu_cost, storage_cost, network_cost, load_balancer_cost,
    other_cost, currency, price_snapshot_ids
)
select
    :stage_id,
    :cluster_key,
    plus.hour,
    plus.cost_model_key,
    plus.revision,
    :line,
    true,
    plus.owner,
    line.node_key,
    line.pod_key,
    line.pool,
    line.namespace,
    plus.cpu_cost,
    plus.memory_cost,
    plus.gpu_cost,
    plus.storage_cost,
    plus.network_cost,
    plus.load_balancer_cost,
    plus.other_cost,
    plus.currency,
    '{}'
from plus
left join line using (line_id)
union all
select
    :stage_id,
    :cluster_key,
    line.hour,
    line.cost_model_key,
    line.revision,
    :line,
    true,
    'cluster',
    line.node_key,
    line.pod_key,
    line.pool,
    line.namespace,
    case when taken.cpu then -line.cpu_cost else 0 end,
    case when taken.memory then -line.memory_cost else 0 end,
    case when taken.gpu then -line.gpu_cost else 0 end,
    case when taken.storage then -line.storage_cost else 0 end,
    case when taken.network then -line.network_cost else 0 end,
    case when taken.load_balancer then -line.load_balancer_cost else 0 end,
    case when taken.other then -line.other_cost else 0 end,
    line.currency,
    line.price_snapshot_ids
from line
join taken using (hour, cost_model_key, scope_key)
where not line.is_recipient
