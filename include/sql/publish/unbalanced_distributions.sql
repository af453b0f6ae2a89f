-- Passing a pool on neither makes money nor loses it: plus and minus rows net to zero.
-- Grain: hour × model × line × resource whose rows do not; none is the only acceptable answer.
select
    cost_hour.hour,
    cost_model.cost_model,
    cost_hour.line,
    part.resource,
    sum(part.cost) filter (where part.cost > 0) as plus_cost,
    sum(part.cost) filter (where part.cost < 0) as minus_cost,
    sum(part.cost) as difference
from mart.cost_hour
join core.cost_model using (cost_model_key)
cross join lateral (
    values
    ('cpu', cost_hour.cpu_cost),
    ('memory', cost_hour.memory_cost),
    ('gpu', cost_hour.gpu_cost),
    ('storage', cost_hour.storage_cost),
    ('network', cost_hour.network_cost),
    ('load_balancer', cost_hour.load_balancer_cost),
    ('other', cost_hour.other_cost)
) as part (resource, cost)
where cost_hour.stage_id = :stage_id
    and cost_hour.hour >= :start
    and cost_hour.hour < :end
    and cost_hour.is_distribution
group by cost_hour.hour, cost_model.cost_model, cost_hour.line, part.resource
having sum(part.cost) <> 0
order by cost_hour.hour, cost_model.cost_model, cost_hour.line, part.resource
