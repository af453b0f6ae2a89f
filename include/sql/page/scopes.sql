-- What there is to choose from: every cluster, cost model and currency with published costs.
select
    cluster,
    cost_model,
    currency,
    max(day) as last_day
from bi.cost_day
group by
    cluster,
    cost_model,
    currency
order by
    cluster,
    cost_model,
    currency
