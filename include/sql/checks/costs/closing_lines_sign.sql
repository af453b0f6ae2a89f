-- Only overcommit is negative, and never positive: a share below zero would pay somebody for running pods.
-- severity: critical
-- expects: direct costs of overcommit are 0 or less, of every other line but recovery and correction 0 or more, per resource
-- remedy: This is a defect of the allocation; please report it with the rows shown.
select
    cost_hour.hour,
    cost_hour.line,
    node.node,
    cost_hour.pod_key,
    cost_hour.cpu_cost,
    cost_hour.memory_cost,
    cost_hour.gpu_cost,
    cost_hour.other_cost
from mart.cost_hour
left join core.node using (node_key)
where cost_hour.stage_id = :stage_id
    and cost_hour.hour >= :start
    and cost_hour.hour < :end
    and not cost_hour.is_distribution
    and (
        (
            cost_hour.line = 'overcommit'
            and greatest(
                cost_hour.cpu_cost, cost_hour.memory_cost, cost_hour.gpu_cost, cost_hour.storage_cost,
                cost_hour.network_cost, cost_hour.load_balancer_cost, cost_hour.other_cost
            ) > 0
        )
        or (
            cost_hour.line not in ('overcommit', 'recovery', 'correction')
            and least(
                cost_hour.cpu_cost, cost_hour.memory_cost, cost_hour.gpu_cost, cost_hour.storage_cost,
                cost_hour.network_cost, cost_hour.load_balancer_cost, cost_hour.other_cost
            ) < 0
        )
    )
order by cost_hour.hour, cost_hour.line, node.node
