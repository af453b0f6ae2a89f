-- The daily rollup of the published hours.
-- Grain: cluster × day × model × line × direct or distribution × owner × namespace × workload × pool.
-- Runs in the transaction that publishes, after the swap; the touched days were deleted just before.
insert into mart.cost_day (
    cluster_key, day, cost_model, line, is_distribution, owner, namespace, workload_kind, workload_name, pool,
    currency, hours,
    cpu_core_seconds, memory_byte_seconds, gpu_seconds, storage_byte_seconds, network_bytes,
    load_balancer_seconds, cpu_cost, memory_cost, gpu_cost, storage_cost, network_cost,
    load_balancer_cost, other_cost, cost
)
select
    published.cluster_key,
    cast(published.hour at time zone 'UTC' as date),
    cost_model.cost_model,
    cost_hour.line,
    cost_hour.is_distribution,
    cost_hour.owner,
    coalesce(shown.namespace, named.namespace),
    shown.workload_kind,
    shown.workload_name,
    named.pool,
    cost_hour.currency,
    count(distinct cost_hour.hour),
    sum(cost_hour.cpu_core_seconds),
    sum(cost_hour.memory_byte_seconds),
    sum(cost_hour.gpu_seconds),
    sum(cost_hour.storage_byte_seconds),
    sum(cost_hour.network_bytes),
    sum(cost_hour.load_balancer_seconds),
    sum(cost_hour.cpu_cost),
    sum(cost_hour.memory_cost),
    sum(cost_hour.gpu_cost),
    sum(cost_hour.storage_cost),
    sum(cost_hour.network_cost),
    sum(cost_hour.load_balancer_cost),
    sum(cost_hour.other_cost),
    sum(cost_hour.cost)
from ops.published_hour as published
join mart.cost_hour
    on cost_hour.stage_id = published.stage_id and cost_hour.hour = published.hour
join core.cost_model using (cost_model_key)
-- Of excluded namespaces the cost stays, without their names.
left join core.pod as shown
    on shown.pod_key = cost_hour.pod_key and cost_hour.owner <> 'excluded'
cross join lateral (
    select
        case when cost_hour.owner <> 'excluded' then cost_hour.namespace end as namespace,
        case when cost_hour.owner <> 'excluded' then cost_hour.pool end as pool
) as named
where published.cluster_key = :cluster_key
    and published.hour >= :start
    and published.hour < :end
    and cost_hour.hour >= :start
    and cost_hour.hour < :end
group by
    published.cluster_key,
    cast(published.hour at time zone 'UTC' as date),
    cost_model.cost_model,
    cost_hour.line,
    cost_hour.is_distribution,
    cost_hour.owner,
    coalesce(shown.namespace, named.namespace),
    shown.workload_kind,
    shown.workload_name,
    named.pool,
    cost_hour.currency
