-- Efficiency weighed by money: a wasted GPU hour and a wasted MiB are not the same.
-- Each resource counts by what a unit of it cost the workload that day.

create view bi.efficiency_cost_day as
with paid as (
    select
        cluster,
        day,
        cost_model,
        namespace,
        workload_kind,
        workload_name,
        currency,
        sum(cpu_cost) / nullif(sum(cpu_core_hours), 0) as cpu_core_hour_cost,
        sum(memory_cost) / nullif(sum(memory_gib_hours), 0) as memory_gib_hour_cost
    from bi.cost_day
    where line = 'workload' and not is_distribution and pool is null
    group by cluster, day, cost_model, namespace, workload_kind, workload_name, currency
),

weighed as (
    select
        paid.*,
        usage.cpu_used_core_hours * paid.cpu_core_hour_cost
        + usage.memory_used_gib_hours * paid.memory_gib_hour_cost as used_cost,
        usage.cpu_requested_known_core_hours * paid.cpu_core_hour_cost
        + usage.memory_requested_known_gib_hours * paid.memory_gib_hour_cost as requested_cost
    from paid
    join bi.requests_and_usage_day as usage
        on usage.cluster = paid.cluster
        and usage.day = paid.day
        and usage.namespace is not distinct from paid.namespace
        and usage.workload_kind is not distinct from paid.workload_kind
        and usage.workload_name is not distinct from paid.workload_name
)

select
    cluster,
    day,
    cost_model,
    namespace,
    workload_kind,
    workload_name,
    requested_cost,
    used_cost,
    round(used_cost / nullif(requested_cost, 0), 6) as efficiency,
    greatest(requested_cost - used_cost, 0) as waste,
    currency
from weighed;

comment on view bi.efficiency_cost_day is 'How much of what was requested was used, CPU and memory weighed by their cost, by workload and day, over the time for which use is known.';
comment on column bi.efficiency_cost_day.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.efficiency_cost_day.day is 'UTC day.';
comment on column bi.efficiency_cost_day.cost_model is 'Cost model. Filter on one.';
comment on column bi.efficiency_cost_day.namespace is 'Namespace; null for namespaces that are left out of reports.';
comment on column bi.efficiency_cost_day.workload_kind is 'Kind of the pods'' top owner; null = none.';
comment on column bi.efficiency_cost_day.workload_name is 'Name of the pods'' top owner; null = none.';
comment on column bi.efficiency_cost_day.requested_cost is 'What the requests cost; null = not known.';
comment on column bi.efficiency_cost_day.used_cost is 'What the use of it is worth at the same unit costs; null = not known.';
comment on column bi.efficiency_cost_day.efficiency is 'Used cost by requested cost; null without either.';
comment on column bi.efficiency_cost_day.waste is 'What was requested and not used, in money; 0 where more was used.';
comment on column bi.efficiency_cost_day.currency is 'ISO 4217 currency.';
