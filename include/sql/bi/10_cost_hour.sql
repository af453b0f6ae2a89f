-- Every published cost line by the hour: the finest grain people read.
-- Only hours that ops.published_hour points at: staged and replaced rows stay out of sight.

create view bi.cost_hour as
select
    cluster.cluster,
    cost_hour.hour,
    cost_model.cost_model,
    cost_model.version as model_version,
    cost_hour.revision,
    cost_hour.line,
    cost_hour.is_distribution,
    cost_hour.owner,
    coalesce(pod.namespace, named.namespace) as namespace,
    pod.workload_kind,
    pod.workload_name,
    pod.pod,
    pod.uid as pod_uid,
    node.node,
    node.uid as node_uid,
    named.pool,
    cost_hour.cpu_core_seconds / 3600 as cpu_core_hours,
    cost_hour.memory_byte_seconds / 3600 / 1073741824 as memory_gib_hours,
    cost_hour.gpu_seconds / 3600 as gpu_hours,
    cost_hour.storage_byte_seconds / 3600 / 1073741824 as storage_gib_hours,
    cost_hour.network_bytes / 1073741824 as network_gib,
    cost_hour.load_balancer_seconds / 3600 as load_balancer_hours,
    cost_hour.cpu_cost,
    cost_hour.memory_cost,
    cost_hour.gpu_cost,
    cost_hour.storage_cost,
    cost_hour.network_cost,
    cost_hour.load_balancer_cost,
    cost_hour.other_cost,
    cost_hour.cost,
    cost_hour.currency,
    cost_hour.price_snapshot_ids
from ops.published_hour as published
join mart.cost_hour
    on cost_hour.stage_id = published.stage_id and cost_hour.hour = published.hour
join core.cluster on cluster.cluster_key = published.cluster_key
join core.cost_model using (cost_model_key)
-- Of excluded namespaces the cost stays, without their names.
left join core.pod on pod.pod_key = cost_hour.pod_key and cost_hour.owner <> 'excluded'
left join core.node using (node_key)
cross join lateral (
    select
        case when cost_hour.owner <> 'excluded' then cost_hour.namespace end as namespace,
        case when cost_hour.owner <> 'excluded' then cost_hour.pool end as pool
) as named;

comment on view bi.cost_hour is 'Every published cost line of every cluster and hour. For one cost model the lines of a cluster and hour add up to what the cluster cost, exactly. Hours go back as far as retention keeps them; bi.cost_day is kept for ever.';
comment on column bi.cost_hour.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.cost_hour.hour is 'Start of the hour, UTC.';
comment on column bi.cost_hour.cost_model is 'Cost model. Filter on one: each model bills the same cluster in full.';
comment on column bi.cost_hour.model_version is 'Version of the cost model.';
comment on column bi.cost_hour.revision is '1, and one more for every restatement.';
comment on column bi.cost_hour.line is 'What the cost is for: workload; system (reserved on nodes); idle; overcommit (negative); uncovered (no data); shared; unmounted; unpriced; recovery; correction.';
comment on column bi.cost_hour.is_distribution is 'True on the plus and minus rows that pass a pool (idle, system, shared, …) on to those who run workloads; they net to zero. Filter on false for direct costs alone.';
comment on column bi.cost_hour.owner is 'Who pays: a team; "unowned" where no rule names an owner; "excluded" for namespaces left out of reports; "cluster" on lines that belong to no pod.';
comment on column bi.cost_hour.namespace is 'Namespace; null on lines that belong to no pod.';
comment on column bi.cost_hour.workload_kind is 'Kind of the pods'' top owner (Deployment, StatefulSet, …); null on lines that belong to no pod.';
comment on column bi.cost_hour.workload_name is 'Name of the pods'' top owner; null on lines that belong to no pod.';
comment on column bi.cost_hour.pod is 'Pod; null on lines that belong to no pod.';
comment on column bi.cost_hour.pod_uid is 'Kubernetes uid of the pod, or a synthetic one.';
comment on column bi.cost_hour.node is 'Node.';
comment on column bi.cost_hour.pool is 'What the cost comes from where it is no node: a claim, a load balancer, the control plane, a fixed cost.';
comment on column bi.cost_hour.node_uid is 'Kubernetes uid of the node.';
comment on column bi.cost_hour.cpu_core_hours is 'CPU the cost is for, in core-hours.';
comment on column bi.cost_hour.memory_gib_hours is 'Memory the cost is for, in GiB-hours.';
comment on column bi.cost_hour.gpu_hours is 'GPUs the cost is for, in GPU-hours.';
comment on column bi.cost_hour.storage_gib_hours is 'Storage the cost is for, in GiB-hours.';
comment on column bi.cost_hour.network_gib is 'Network traffic the cost is for, in GiB.';
comment on column bi.cost_hour.load_balancer_hours is 'Load balancers the cost is for, in hours.';
comment on column bi.cost_hour.cpu_cost is 'Cost of CPU; null = unpriced.';
comment on column bi.cost_hour.memory_cost is 'Cost of memory; null = unpriced.';
comment on column bi.cost_hour.gpu_cost is 'Cost of GPUs; null = unpriced.';
comment on column bi.cost_hour.storage_cost is 'Cost of storage; null = unpriced.';
comment on column bi.cost_hour.network_cost is 'Cost of network traffic; null = unpriced.';
comment on column bi.cost_hour.load_balancer_cost is 'Cost of load balancers; null = unpriced.';
comment on column bi.cost_hour.other_cost is 'Any other cost; null = unpriced.';
comment on column bi.cost_hour.cost is 'Cost, the sum of its parts; null = unpriced: unknown, not zero.';
comment on column bi.cost_hour.currency is 'ISO 4217 currency; null = unpriced.';
comment on column bi.cost_hour.price_snapshot_ids is 'The price lists the cost rests on, see bi.price_snapshots.';
