-- What has no price in a period and why. Empty :cluster means all clusters.
select
    cluster,
    coalesce(node, '') as node,
    coalesce(instance_type, '') as instance_type,
    price_state,
    reason,
    min(day) as first_day,
    max(day) as last_day,
    sum(hours) as hours,
    sum(cpu_core_hours) as cpu_core_hours,
    sum(memory_gib_hours) as memory_gib_hours,
    sum(gpu_hours) as gpu_hours
from bi.unpriced
where day >= :start
    and day < :end
    and cost_model = :cost_model
    and (:cluster = '' or cluster = :cluster)
group by
    1,
    2,
    3,
    4,
    5
order by
    1,
    2,
    3,
    4,
    5
