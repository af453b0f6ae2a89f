-- Of which datasets the window must hold rows: those with an hour that no acknowledged gap covers.
with acknowledged as (
    select
        dataset,
        range_agg(during) as spans
    from ops.gap
    where cluster_key = :cluster_key
        and acknowledged_at is not null
        and during && tstzrange(:start, :end)
    group by dataset
)

select needed.dataset
from (values ('pod'), ('node')) as needed (dataset)
left join acknowledged using (dataset)
where acknowledged.spans is null or not acknowledged.spans @> tstzrange(:start, :end)
