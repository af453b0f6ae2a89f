-- Costs nobody owns are paid by nobody; beyond a fifth the rules in include/config/owners.yaml have fallen behind.
-- severity: warning
-- expects: at most 20 % of the workload cost is unowned
with workload as (
    select
        cost_model.cost_model,
        cost_hour.currency,
        sum(cost_hour.cost) as cost,
        coalesce(sum(cost_hour.cost) filter (where cost_hour.owner = 'unowned'), 0) as unowned_cost
    from mart.cost_hour
    join core.cost_model using (cost_model_key)
    where cost_hour.stage_id = :stage_id
        and cost_hour.hour >= :start
        and cost_hour.hour < :end
        and cost_hour.line = 'workload'
        and not cost_hour.is_distribution
    group by cost_model.cost_model, cost_hour.currency
)

select
    workload.cost_model,
    round(100 * workload.unowned_cost / workload.cost, 1) as unowned_percent,
    round(workload.unowned_cost, 4) as unowned_cost,
    workload.currency,
    largest.namespaces
from workload
cross join lateral (
    select array_agg(ranked.namespace order by ranked.cost desc) as namespaces
    from (
        select
            pod.namespace,
            sum(cost_hour.cost) as cost
        from mart.cost_hour
        join core.pod using (pod_key)
        where cost_hour.stage_id = :stage_id
            and cost_hour.hour >= :start
            and cost_hour.hour < :end
            and cost_hour.line = 'workload'
            and cost_hour.owner = 'unowned'
        group by pod.namespace
        order by sum(cost_hour.cost) desc
        limit 5
    ) as ranked
) as largest
where workload.unowned_cost > 0.2 * workload.cost
order by workload.cost_model
