-- Every line of a month, for the statements, at full precision.
-- Grain: cluster × model × owner × line × namespace × workload × currency.
select
    cost_model,
    currency,
    cluster,
    owner,
    line,
    coalesce(namespace, '') as namespace,
    coalesce(workload_kind, '') as workload_kind,
    coalesce(workload_name, '') as workload_name,
    cpu_core_hours,
    memory_gib_hours,
    gpu_hours,
    storage_gib_hours,
    network_gib,
    load_balancer_hours,
    cpu_cost,
    memory_cost,
    gpu_cost,
    storage_cost,
    network_cost,
    load_balancer_cost,
    other_cost,
    cost
from bi.cost_month
where month = :month
