-- Everything behind the page, at the daily grain and full precision. Empty :cluster means all clusters.
select
    day,
    cluster,
    cost_model,
    owner,
    line,
    namespace,
    workload_kind,
    workload_name,
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
    cost,
    currency
from bi.cost_day
where day >= :start
    and day < :end
    and cost_model = :cost_model
    and (:cluster = '' or cluster = :cluster)
    and (currency = :currency or currency is null)
order by
    day,
    cluster,
    owner,
    line,
    namespace,
    workload_kind,
    workload_name
