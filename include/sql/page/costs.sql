-- Costs by day and group, for the chart and the table.
-- Grain: day × group × owner; `kind` tells a team or a namespace from pods nobody owns and from lines
-- of the cluster.
-- Empty :cluster means all clusters.
select
    day,
    case
        when line = 'unpriced' then 'unpriced'
        when owner = 'cluster' then 'line'
        when :grouping = 'namespace' then 'namespace'
        when owner = 'unowned' then 'unowned'
        else 'owner'
    end as kind,
    case
        when line = 'unpriced' then line
        when owner = 'cluster' then line
        when :grouping = 'namespace' then coalesce(namespace, '(none)')
        else owner
    end as name,
    owner,
    sum(cost) as cost
from bi.cost_by_namespace_day
where day >= :start
    and day < :end
    and cost_model = :cost_model
    and (:cluster = '' or cluster = :cluster)
    and (currency = :currency or currency is null)
group by
    1,
    2,
    3,
    4
order by
    1,
    2,
    3,
    4
