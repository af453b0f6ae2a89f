-- An hour for which no load speaks is unknown, not free: costs without it would look complete and be wrong.
-- A whole empty window fails here; so does an hour of which only the nodes or only the pods are known.
-- severity: critical
-- expects: for every hour some load speaks of pods and some load of nodes, or the gap is acknowledged
-- remedy: Run the window again once its source is back; if it cannot be filled, `make gap CLUSTER=… FROM=… TO=… REASON=…`.
with hour as (
    select
        started as hour,
        tstzrange(started, started + interval '1 hour') as span
    from generate_series(
        cast(:start as timestamptz), cast(:end as timestamptz) - interval '1 hour', interval '1 hour'
    ) as started
),

known as (
    select
        needed.dataset,
        ops.covered(cast(:cluster_key as smallint), needed.dataset, :start, :end) as spans
    from (values ('pod'), ('node')) as needed (dataset)
),

acknowledged as (
    select
        dataset,
        range_agg(during) as spans
    from ops.gap
    where cluster_key = :cluster_key
        and acknowledged_at is not null
        and during && tstzrange(:start, :end)
    group by dataset
)

select
    hour.hour,
    known.dataset
from hour
cross join known
left join acknowledged using (dataset)
where not known.spans && hour.span
    and (acknowledged.spans is null or not acknowledged.spans @> hour.span)
order by hour.hour, known.dataset
