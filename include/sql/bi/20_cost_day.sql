-- Costs by day and month, from the daily rollup that is written in the transaction that publishes.
-- Grain of the views by something: that something × line, so that an unpriced line never hides in a sum.

create view bi.cost_day as
select
    cluster,
    day,
    cost_model,
    line,
    is_distribution,
    owner,
    namespace,
    workload_kind,
    workload_name,
    pool,
    hours,
    cpu_core_seconds / 3600 as cpu_core_hours,
    memory_byte_seconds / 3600 / 1073741824 as memory_gib_hours,
    gpu_seconds / 3600 as gpu_hours,
    storage_byte_seconds / 3600 / 1073741824 as storage_gib_hours,
    network_bytes / 1073741824 as network_gib,
    load_balancer_seconds / 3600 as load_balancer_hours,
    cpu_cost,
    memory_cost,
    gpu_cost,
    storage_cost,
    network_cost,
    load_balancer_cost,
    other_cost,
    cost,
    currency
from mart.cost_day
join core.cluster using (cluster_key);

comment on view bi.cost_day is 'Cost by day and every dimension, kept for ever. For one cost model the lines of a cluster and day add up to what the cluster cost, exactly.';
comment on column bi.cost_day.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.cost_day.day is 'UTC day.';
comment on column bi.cost_day.cost_model is 'Cost model. Filter on one: each model bills the same cluster in full.';
comment on column bi.cost_day.line is 'What the cost is for: workload; system (reserved on nodes); idle; overcommit (negative); uncovered (no data); shared; unmounted; unpriced; recovery; correction.';
comment on column bi.cost_day.is_distribution is 'True on the plus and minus rows that pass a pool on; they net to zero.';
comment on column bi.cost_day.owner is 'Who pays: a team; "unowned" where no rule names an owner; "cluster" on lines that belong to no pod.';
comment on column bi.cost_day.namespace is 'Namespace; null on lines that belong to no pod.';
comment on column bi.cost_day.workload_kind is 'Kind of the pods'' top owner (Deployment, StatefulSet, …); null on lines that belong to no pod.';
comment on column bi.cost_day.workload_name is 'Name of the pods'' top owner; null on lines that belong to no pod.';
comment on column bi.cost_day.pool is 'What the cost comes from where it is no node.';
comment on column bi.cost_day.hours is 'Hours of the day with such a line.';
comment on column bi.cost_day.cpu_core_hours is 'CPU the cost is for, in core-hours.';
comment on column bi.cost_day.memory_gib_hours is 'Memory the cost is for, in GiB-hours.';
comment on column bi.cost_day.gpu_hours is 'GPUs the cost is for, in GPU-hours.';
comment on column bi.cost_day.storage_gib_hours is 'Storage the cost is for, in GiB-hours.';
comment on column bi.cost_day.network_gib is 'Network traffic the cost is for, in GiB.';
comment on column bi.cost_day.load_balancer_hours is 'Load balancers the cost is for, in hours.';
comment on column bi.cost_day.cpu_cost is 'Cost of CPU; null = unpriced.';
comment on column bi.cost_day.memory_cost is 'Cost of memory; null = unpriced.';
comment on column bi.cost_day.gpu_cost is 'Cost of GPUs; null = unpriced.';
comment on column bi.cost_day.storage_cost is 'Cost of storage; null = unpriced.';
comment on column bi.cost_day.network_cost is 'Cost of network traffic; null = unpriced.';
comment on column bi.cost_day.load_balancer_cost is 'Cost of load balancers; null = unpriced.';
comment on column bi.cost_day.other_cost is 'Any other cost; null = unpriced.';
comment on column bi.cost_day.cost is 'Cost, the sum of its parts; null = unpriced: unknown, not zero.';
comment on column bi.cost_day.currency is 'ISO 4217 currency; null = unpriced.';

create view bi.cost_month as
select
    cluster,
    cast(date_trunc('month', cast(day as timestamp)) as date) as month,
    cost_model,
    line,
    is_distribution,
    owner,
    namespace,
    workload_kind,
    workload_name,
    pool,
    sum(cpu_core_seconds) / 3600 as cpu_core_hours,
    sum(memory_byte_seconds) / 3600 / 1073741824 as memory_gib_hours,
    sum(gpu_seconds) / 3600 as gpu_hours,
    sum(storage_byte_seconds) / 3600 / 1073741824 as storage_gib_hours,
    sum(network_bytes) / 1073741824 as network_gib,
    sum(load_balancer_seconds) / 3600 as load_balancer_hours,
    sum(cpu_cost) as cpu_cost,
    sum(memory_cost) as memory_cost,
    sum(gpu_cost) as gpu_cost,
    sum(storage_cost) as storage_cost,
    sum(network_cost) as network_cost,
    sum(load_balancer_cost) as load_balancer_cost,
    sum(other_cost) as other_cost,
    sum(cost) as cost,
    currency
from mart.cost_day
join core.cluster using (cluster_key)
group by
    cluster,
    cast(date_trunc('month', cast(day as timestamp)) as date),
    cost_model,
    line,
    is_distribution,
    owner,
    namespace,
    workload_kind,
    workload_name,
    pool,
    currency;

comment on view bi.cost_month is 'Cost by month and every dimension; the running month as far as it is published.';
comment on column bi.cost_month.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.cost_month.month is 'First day of the UTC month.';
comment on column bi.cost_month.cost_model is 'Cost model. Filter on one: each model bills the same cluster in full.';
comment on column bi.cost_month.line is 'What the cost is for: workload; system (reserved on nodes); idle; overcommit (negative); uncovered (no data); shared; unmounted; unpriced; recovery; correction.';
comment on column bi.cost_month.is_distribution is 'True on the plus and minus rows that pass a pool on; they net to zero.';
comment on column bi.cost_month.owner is 'Who pays: a team; "unowned" where no rule names an owner; "cluster" on lines that belong to no pod.';
comment on column bi.cost_month.namespace is 'Namespace; null on lines that belong to no pod.';
comment on column bi.cost_month.workload_kind is 'Kind of the pods'' top owner (Deployment, StatefulSet, …); null on lines that belong to no pod.';
comment on column bi.cost_month.workload_name is 'Name of the pods'' top owner; null on lines that belong to no pod.';
comment on column bi.cost_month.pool is 'What the cost comes from where it is no node.';
comment on column bi.cost_month.cpu_core_hours is 'CPU the cost is for, in core-hours.';
comment on column bi.cost_month.memory_gib_hours is 'Memory the cost is for, in GiB-hours.';
comment on column bi.cost_month.gpu_hours is 'GPUs the cost is for, in GPU-hours.';
comment on column bi.cost_month.storage_gib_hours is 'Storage the cost is for, in GiB-hours.';
comment on column bi.cost_month.network_gib is 'Network traffic the cost is for, in GiB.';
comment on column bi.cost_month.load_balancer_hours is 'Load balancers the cost is for, in hours.';
comment on column bi.cost_month.cpu_cost is 'Cost of CPU; null = unpriced.';
comment on column bi.cost_month.memory_cost is 'Cost of memory; null = unpriced.';
comment on column bi.cost_month.gpu_cost is 'Cost of GPUs; null = unpriced.';
comment on column bi.cost_month.storage_cost is 'Cost of storage; null = unpriced.';
comment on column bi.cost_month.network_cost is 'Cost of network traffic; null = unpriced.';
comment on column bi.cost_month.load_balancer_cost is 'Cost of load balancers; null = unpriced.';
comment on column bi.cost_month.other_cost is 'Any other cost; null = unpriced.';
comment on column bi.cost_month.cost is 'Cost, the sum of its parts; null = unpriced: unknown, not zero.';
comment on column bi.cost_month.currency is 'ISO 4217 currency; null = unpriced.';

create view bi.cost_by_owner_day as
select
    cluster,
    day,
    cost_model,
    owner,
    line,
    sum(cpu_core_seconds) / 3600 as cpu_core_hours,
    sum(memory_byte_seconds) / 3600 / 1073741824 as memory_gib_hours,
    sum(gpu_seconds) / 3600 as gpu_hours,
    sum(storage_byte_seconds) / 3600 / 1073741824 as storage_gib_hours,
    sum(network_bytes) / 1073741824 as network_gib,
    sum(load_balancer_seconds) / 3600 as load_balancer_hours,
    sum(cpu_cost) as cpu_cost,
    sum(memory_cost) as memory_cost,
    sum(gpu_cost) as gpu_cost,
    sum(storage_cost) as storage_cost,
    sum(network_cost) as network_cost,
    sum(load_balancer_cost) as load_balancer_cost,
    sum(other_cost) as other_cost,
    sum(cost) as cost,
    currency
from mart.cost_day
join core.cluster using (cluster_key)
group by
    cluster,
    day,
    cost_model,
    owner,
    line,
    currency;

comment on view bi.cost_by_owner_day is 'What each owner costs by day.';
comment on column bi.cost_by_owner_day.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.cost_by_owner_day.day is 'UTC day.';
comment on column bi.cost_by_owner_day.cost_model is 'Cost model. Filter on one: each model bills the same cluster in full.';
comment on column bi.cost_by_owner_day.owner is 'Who pays: a team; "unowned" where no rule names an owner; "cluster" on lines that belong to no pod.';
comment on column bi.cost_by_owner_day.line is 'What the cost is for: workload; system (reserved on nodes); idle; overcommit (negative); uncovered (no data); shared; unmounted; unpriced; recovery; correction.';
comment on column bi.cost_by_owner_day.cpu_core_hours is 'CPU the cost is for, in core-hours.';
comment on column bi.cost_by_owner_day.memory_gib_hours is 'Memory the cost is for, in GiB-hours.';
comment on column bi.cost_by_owner_day.gpu_hours is 'GPUs the cost is for, in GPU-hours.';
comment on column bi.cost_by_owner_day.storage_gib_hours is 'Storage the cost is for, in GiB-hours.';
comment on column bi.cost_by_owner_day.network_gib is 'Network traffic the cost is for, in GiB.';
comment on column bi.cost_by_owner_day.load_balancer_hours is 'Load balancers the cost is for, in hours.';
comment on column bi.cost_by_owner_day.cpu_cost is 'Cost of CPU; null = unpriced.';
comment on column bi.cost_by_owner_day.memory_cost is 'Cost of memory; null = unpriced.';
comment on column bi.cost_by_owner_day.gpu_cost is 'Cost of GPUs; null = unpriced.';
comment on column bi.cost_by_owner_day.storage_cost is 'Cost of storage; null = unpriced.';
comment on column bi.cost_by_owner_day.network_cost is 'Cost of network traffic; null = unpriced.';
comment on column bi.cost_by_owner_day.load_balancer_cost is 'Cost of load balancers; null = unpriced.';
comment on column bi.cost_by_owner_day.other_cost is 'Any other cost; null = unpriced.';
comment on column bi.cost_by_owner_day.cost is 'Cost, the sum of its parts; null = unpriced: unknown, not zero.';
comment on column bi.cost_by_owner_day.currency is 'ISO 4217 currency; null = unpriced.';

create view bi.cost_by_owner_month as
select
    cluster,
    cast(date_trunc('month', cast(day as timestamp)) as date) as month,
    cost_model,
    owner,
    line,
    sum(cpu_core_seconds) / 3600 as cpu_core_hours,
    sum(memory_byte_seconds) / 3600 / 1073741824 as memory_gib_hours,
    sum(gpu_seconds) / 3600 as gpu_hours,
    sum(storage_byte_seconds) / 3600 / 1073741824 as storage_gib_hours,
    sum(network_bytes) / 1073741824 as network_gib,
    sum(load_balancer_seconds) / 3600 as load_balancer_hours,
    sum(cpu_cost) as cpu_cost,
    sum(memory_cost) as memory_cost,
    sum(gpu_cost) as gpu_cost,
    sum(storage_cost) as storage_cost,
    sum(network_cost) as network_cost,
    sum(load_balancer_cost) as load_balancer_cost,
    sum(other_cost) as other_cost,
    sum(cost) as cost,
    currency
from mart.cost_day
join core.cluster using (cluster_key)
group by
    cluster,
    cast(date_trunc('month', cast(day as timestamp)) as date),
    cost_model,
    owner,
    line,
    currency;

comment on view bi.cost_by_owner_month is 'What each owner costs by month; the running month as far as it is published.';
comment on column bi.cost_by_owner_month.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.cost_by_owner_month.month is 'First day of the UTC month.';
comment on column bi.cost_by_owner_month.cost_model is 'Cost model. Filter on one: each model bills the same cluster in full.';
comment on column bi.cost_by_owner_month.owner is 'Who pays: a team; "unowned" where no rule names an owner; "cluster" on lines that belong to no pod.';
comment on column bi.cost_by_owner_month.line is 'What the cost is for: workload; system (reserved on nodes); idle; overcommit (negative); uncovered (no data); shared; unmounted; unpriced; recovery; correction.';
comment on column bi.cost_by_owner_month.cpu_core_hours is 'CPU the cost is for, in core-hours.';
comment on column bi.cost_by_owner_month.memory_gib_hours is 'Memory the cost is for, in GiB-hours.';
comment on column bi.cost_by_owner_month.gpu_hours is 'GPUs the cost is for, in GPU-hours.';
comment on column bi.cost_by_owner_month.storage_gib_hours is 'Storage the cost is for, in GiB-hours.';
comment on column bi.cost_by_owner_month.network_gib is 'Network traffic the cost is for, in GiB.';
comment on column bi.cost_by_owner_month.load_balancer_hours is 'Load balancers the cost is for, in hours.';
comment on column bi.cost_by_owner_month.cpu_cost is 'Cost of CPU; null = unpriced.';
comment on column bi.cost_by_owner_month.memory_cost is 'Cost of memory; null = unpriced.';
comment on column bi.cost_by_owner_month.gpu_cost is 'Cost of GPUs; null = unpriced.';
comment on column bi.cost_by_owner_month.storage_cost is 'Cost of storage; null = unpriced.';
comment on column bi.cost_by_owner_month.network_cost is 'Cost of network traffic; null = unpriced.';
comment on column bi.cost_by_owner_month.load_balancer_cost is 'Cost of load balancers; null = unpriced.';
comment on column bi.cost_by_owner_month.other_cost is 'Any other cost; null = unpriced.';
comment on column bi.cost_by_owner_month.cost is 'Cost, the sum of its parts; null = unpriced: unknown, not zero.';
comment on column bi.cost_by_owner_month.currency is 'ISO 4217 currency; null = unpriced.';

create view bi.cost_by_namespace_day as
select
    cluster,
    day,
    cost_model,
    namespace,
    line,
    owner,
    sum(cpu_core_seconds) / 3600 as cpu_core_hours,
    sum(memory_byte_seconds) / 3600 / 1073741824 as memory_gib_hours,
    sum(gpu_seconds) / 3600 as gpu_hours,
    sum(storage_byte_seconds) / 3600 / 1073741824 as storage_gib_hours,
    sum(network_bytes) / 1073741824 as network_gib,
    sum(load_balancer_seconds) / 3600 as load_balancer_hours,
    sum(cpu_cost) as cpu_cost,
    sum(memory_cost) as memory_cost,
    sum(gpu_cost) as gpu_cost,
    sum(storage_cost) as storage_cost,
    sum(network_cost) as network_cost,
    sum(load_balancer_cost) as load_balancer_cost,
    sum(other_cost) as other_cost,
    sum(cost) as cost,
    currency
from mart.cost_day
join core.cluster using (cluster_key)
group by
    cluster,
    day,
    cost_model,
    namespace,
    line,
    owner,
    currency;

comment on view bi.cost_by_namespace_day is 'What each namespace costs by day.';
comment on column bi.cost_by_namespace_day.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.cost_by_namespace_day.day is 'UTC day.';
comment on column bi.cost_by_namespace_day.cost_model is 'Cost model. Filter on one: each model bills the same cluster in full.';
comment on column bi.cost_by_namespace_day.namespace is 'Namespace; null on lines that belong to no pod.';
comment on column bi.cost_by_namespace_day.line is 'What the cost is for: workload; system (reserved on nodes); idle; overcommit (negative); uncovered (no data); shared; unmounted; unpriced; recovery; correction.';
comment on column bi.cost_by_namespace_day.owner is 'Who pays: a team; "unowned" where no rule names an owner; "cluster" on lines that belong to no pod.';
comment on column bi.cost_by_namespace_day.cpu_core_hours is 'CPU the cost is for, in core-hours.';
comment on column bi.cost_by_namespace_day.memory_gib_hours is 'Memory the cost is for, in GiB-hours.';
comment on column bi.cost_by_namespace_day.gpu_hours is 'GPUs the cost is for, in GPU-hours.';
comment on column bi.cost_by_namespace_day.storage_gib_hours is 'Storage the cost is for, in GiB-hours.';
comment on column bi.cost_by_namespace_day.network_gib is 'Network traffic the cost is for, in GiB.';
comment on column bi.cost_by_namespace_day.load_balancer_hours is 'Load balancers the cost is for, in hours.';
comment on column bi.cost_by_namespace_day.cpu_cost is 'Cost of CPU; null = unpriced.';
comment on column bi.cost_by_namespace_day.memory_cost is 'Cost of memory; null = unpriced.';
comment on column bi.cost_by_namespace_day.gpu_cost is 'Cost of GPUs; null = unpriced.';
comment on column bi.cost_by_namespace_day.storage_cost is 'Cost of storage; null = unpriced.';
comment on column bi.cost_by_namespace_day.network_cost is 'Cost of network traffic; null = unpriced.';
comment on column bi.cost_by_namespace_day.load_balancer_cost is 'Cost of load balancers; null = unpriced.';
comment on column bi.cost_by_namespace_day.other_cost is 'Any other cost; null = unpriced.';
comment on column bi.cost_by_namespace_day.cost is 'Cost, the sum of its parts; null = unpriced: unknown, not zero.';
comment on column bi.cost_by_namespace_day.currency is 'ISO 4217 currency; null = unpriced.';

create view bi.cost_by_workload_day as
select
    cluster,
    day,
    cost_model,
    namespace,
    workload_kind,
    workload_name,
    line,
    owner,
    sum(cpu_core_seconds) / 3600 as cpu_core_hours,
    sum(memory_byte_seconds) / 3600 / 1073741824 as memory_gib_hours,
    sum(gpu_seconds) / 3600 as gpu_hours,
    sum(storage_byte_seconds) / 3600 / 1073741824 as storage_gib_hours,
    sum(network_bytes) / 1073741824 as network_gib,
    sum(load_balancer_seconds) / 3600 as load_balancer_hours,
    sum(cpu_cost) as cpu_cost,
    sum(memory_cost) as memory_cost,
    sum(gpu_cost) as gpu_cost,
    sum(storage_cost) as storage_cost,
    sum(network_cost) as network_cost,
    sum(load_balancer_cost) as load_balancer_cost,
    sum(other_cost) as other_cost,
    sum(cost) as cost,
    currency
from mart.cost_day
join core.cluster using (cluster_key)
where namespace is not null
group by
    cluster,
    day,
    cost_model,
    namespace,
    workload_kind,
    workload_name,
    line,
    owner,
    currency;

comment on view bi.cost_by_workload_day is 'What each workload costs by day; lines that belong to no pod are left out.';
comment on column bi.cost_by_workload_day.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.cost_by_workload_day.day is 'UTC day.';
comment on column bi.cost_by_workload_day.cost_model is 'Cost model. Filter on one: each model bills the same cluster in full.';
comment on column bi.cost_by_workload_day.namespace is 'Namespace.';
comment on column bi.cost_by_workload_day.workload_kind is 'Kind of the pods'' top owner.';
comment on column bi.cost_by_workload_day.workload_name is 'Name of the pods'' top owner.';
comment on column bi.cost_by_workload_day.line is 'What the cost is for: workload; system (reserved on nodes); idle; overcommit (negative); uncovered (no data); shared; unmounted; unpriced; recovery; correction.';
comment on column bi.cost_by_workload_day.owner is 'Who pays: a team; "unowned" where no rule names an owner; "cluster" on lines that belong to no pod.';
comment on column bi.cost_by_workload_day.cpu_core_hours is 'CPU the cost is for, in core-hours.';
comment on column bi.cost_by_workload_day.memory_gib_hours is 'Memory the cost is for, in GiB-hours.';
comment on column bi.cost_by_workload_day.gpu_hours is 'GPUs the cost is for, in GPU-hours.';
comment on column bi.cost_by_workload_day.storage_gib_hours is 'Storage the cost is for, in GiB-hours.';
comment on column bi.cost_by_workload_day.network_gib is 'Network traffic the cost is for, in GiB.';
comment on column bi.cost_by_workload_day.load_balancer_hours is 'Load balancers the cost is for, in hours.';
comment on column bi.cost_by_workload_day.cpu_cost is 'Cost of CPU; null = unpriced.';
comment on column bi.cost_by_workload_day.memory_cost is 'Cost of memory; null = unpriced.';
comment on column bi.cost_by_workload_day.gpu_cost is 'Cost of GPUs; null = unpriced.';
comment on column bi.cost_by_workload_day.storage_cost is 'Cost of storage; null = unpriced.';
comment on column bi.cost_by_workload_day.network_cost is 'Cost of network traffic; null = unpriced.';
comment on column bi.cost_by_workload_day.load_balancer_cost is 'Cost of load balancers; null = unpriced.';
comment on column bi.cost_by_workload_day.other_cost is 'Any other cost; null = unpriced.';
comment on column bi.cost_by_workload_day.cost is 'Cost, the sum of its parts; null = unpriced: unknown, not zero.';
comment on column bi.cost_by_workload_day.currency is 'ISO 4217 currency; null = unpriced.';

create view bi.cost_by_resource_day as
select
    cluster,
    day,
    cost_model,
    part.resource,
    line,
    owner,
    namespace,
    sum(part.quantity) as quantity,
    part.unit,
    sum(part.cost) as cost,
    currency
from mart.cost_day
join core.cluster using (cluster_key)
cross join lateral (
    values
    ('cpu', cpu_core_seconds / 3600, 'core_hours', cpu_cost),
    ('memory', memory_byte_seconds / 3600 / 1073741824, 'gib_hours', memory_cost),
    ('gpu', gpu_seconds / 3600, 'gpu_hours', gpu_cost),
    ('storage', storage_byte_seconds / 3600 / 1073741824, 'gib_hours', storage_cost),
    ('network', network_bytes / 1073741824, 'gib', network_cost),
    ('load_balancer', load_balancer_seconds / 3600, 'hours', load_balancer_cost),
    ('other', null, null, other_cost)
) as part (resource, quantity, unit, cost)
where part.quantity <> 0 or part.cost <> 0
group by
    cluster,
    day,
    cost_model,
    part.resource,
    part.unit,
    line,
    owner,
    namespace,
    currency;

comment on view bi.cost_by_resource_day is 'Cost by day with one row per resource. Resources without quantity and cost are left out.';
comment on column bi.cost_by_resource_day.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.cost_by_resource_day.day is 'UTC day.';
comment on column bi.cost_by_resource_day.cost_model is 'Cost model. Filter on one: each model bills the same cluster in full.';
comment on column bi.cost_by_resource_day.resource is 'cpu, memory, gpu, storage, network, load_balancer or other.';
comment on column bi.cost_by_resource_day.line is 'What the cost is for: workload; system (reserved on nodes); idle; overcommit (negative); uncovered (no data); shared; unmounted; unpriced; recovery; correction.';
comment on column bi.cost_by_resource_day.owner is 'Who pays: a team; "unowned" where no rule names an owner; "cluster" on lines that belong to no pod.';
comment on column bi.cost_by_resource_day.namespace is 'Namespace; null on lines that belong to no pod.';
comment on column bi.cost_by_resource_day.quantity is 'How much, in the unit of the row; null for other.';
comment on column bi.cost_by_resource_day.unit is 'core_hours, gib_hours, gpu_hours, gib or hours; null for other.';
comment on column bi.cost_by_resource_day.cost is 'Cost of the resource; null = unpriced: unknown, not zero.';
comment on column bi.cost_by_resource_day.currency is 'ISO 4217 currency; null = unpriced.';
