-- An hour without a single cost line would be published as free.
-- severity: critical
-- expects: at least one cost line in every hour and for every cost model, unless the gap is acknowledged
-- remedy: See core.node_hour and core.pod_hour of these hours; acknowledge them if nothing ran.
with acknowledged as (
    select range_agg(during) as spans
    from ops.gap
    where cluster_key = :cluster_key
        and dataset in ('pod', 'node')
        and acknowledged_at is not null
        and during && tstzrange(:start, :end)
),

line as (
    select distinct
        cost_hour.hour,
        cost_model.cost_model
    from mart.cost_hour
    join core.cost_model using (cost_model_key)
    where cost_hour.stage_id = :stage_id and cost_hour.hour >= :start and cost_hour.hour < :end
)

select
    started as hour,
    model.cost_model
from generate_series(
    cast(:start as timestamptz), cast(:end as timestamptz) - interval '1 hour', interval '1 hour'
) as started
cross join (
    select distinct line.cost_model from line
    union all
    select null where not exists (select from line)
) as model
cross join acknowledged
where not exists (
    select from line where line.hour = started and line.cost_model = model.cost_model
)
and (
    acknowledged.spans is null
    or not acknowledged.spans @> tstzrange(started, started + interval '1 hour')
    or exists (
        select
        from core.node_hour
        where node_hour.stage_id = :stage_id and node_hour.hour = started and not node_hour.is_virtual
    )
)
order by started, model.cost_model
