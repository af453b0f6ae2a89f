-- Amounts of two currencies do not add. Prices are converted where include/config/exchange_rates.yaml says how.
-- severity: critical
-- expects: every price is in the currency of the cost model
-- remedy: Configure exchange rates, give the price in the model's currency (a price sheet does), or set the model's currency.
select
    node.node,
    node_price.currency as price_currency,
    model.cost_model,
    model.currency as model_currency,
    lower(node_price.during) as from_time,
    node_price.origin
from core.node_price
join core.node using (node_key)
join core.cost_model as model
    on model.cost_model_key in (
        select cost_hour.cost_model_key
        from mart.cost_hour
        where cost_hour.stage_id = :stage_id and cost_hour.hour >= :start and cost_hour.hour < :end
    )
    and model.during && node_price.during
where node_price.stage_id = :stage_id
    and coalesce(node_price.price_per_hour, node_price.cpu_price_per_hour) is not null
    and node_price.currency is distinct from model.currency
order by node.node, lower(node_price.during)
