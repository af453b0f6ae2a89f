-- Gives the pods on virtual nodes their cost: rate × what they ask for, one line each.
-- Grain: the pod lines that are unpriced because their node is virtual and that have rates.
-- Why after the nodes: such a pod takes no share of a node's cost and leaves no residue, so it changes
-- nothing of any other line.
-- Invariant: these lines add up to mart.pod_rate_cost, which is part of the cluster's cost.
with replaced as (
    delete from mart.cost_hour
    using mart.pod_rate_cost(:stage_id, :start, :end) as priced
    where cost_hour.stage_id = :stage_id
        and cost_hour.hour >= :start
        and cost_hour.hour < :end
        and cost_hour.line = 'unpriced'
        and cost_hour.hour = priced.hour
        and cost_hour.pod_key = priced.pod_key
    returning
        cost_hour.*,
        priced.cpu_cost as cpu_rate_cost,
        priced.memory_cost as memory_rate_cost,
        priced.gpu_cost as gpu_rate_cost,
        priced.currency as rate_currency,
        priced.snapshot_ids
)

insert into mart.cost_hour (
    stage_id, cluster_key, hour, cost_model_key, revision, line, node_key, pod_key, owner,
    cpu_core_seconds, memory_byte_seconds, gpu_seconds, cpu_cost, memory_cost, gpu_cost,
    storage_cost, network_cost, load_balancer_cost, other_cost, currency, price_snapshot_ids
)
select
    stage_id,
    cluster_key,
    hour,
    cost_model_key,
    revision,
    case when owner = 'cluster' then 'shared' else 'workload' end,
    node_key,
    pod_key,
    owner,
    cpu_core_seconds,
    memory_byte_seconds,
    gpu_seconds,
    cpu_rate_cost,
    memory_rate_cost,
    gpu_rate_cost,
    0,
    0,
    0,
    0,
    rate_currency,
    snapshot_ids
from replaced
