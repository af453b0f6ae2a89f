-- Statements may cover an hour and still leave it without facts; such an hour would be published as free.
-- severity: critical
-- expects: node and pod rows in every hour of the stage, unless the gap is acknowledged
-- remedy: See what the sources said of these hours (raw.*_interval); acknowledge them if nothing ran.
with acknowledged as (
    select
        dataset,
        range_agg(during) as spans
    from ops.gap
    where cluster_key = :cluster_key
        and acknowledged_at is not null
        and during && tstzrange(:start, :end)
    group by dataset
),

present as (
    select distinct
        'pod' as dataset,
        hour
    from core.pod_hour
    where stage_id = :stage_id and hour >= :start and hour < :end
    union all
    select distinct
        'node',
        hour
    from core.node_hour
    where stage_id = :stage_id and hour >= :start and hour < :end
)

select
    started as hour,
    needed.dataset
from generate_series(
    cast(:start as timestamptz), cast(:end as timestamptz) - interval '1 hour', interval '1 hour'
) as started
cross join (values ('pod'), ('node')) as needed (dataset)
left join acknowledged using (dataset)
where (needed.dataset, started) not in (select present.dataset, present.hour from present)
    and (
        acknowledged.spans is null
        or not acknowledged.spans @> tstzrange(started, started + interval '1 hour')
    )
order by started, needed.dataset
