-- Windows of a period for which data is missing still. Empty :cluster means all clusters.
-- A gap that somebody acknowledged by a wider one is left out: the wider one is there.
select
    cluster,
    dataset,
    source,
    start_at,
    end_at,
    reason,
    is_acknowledged,
    coalesce(acknowledgement, '') as acknowledgement
from bi.gaps
where start_at < cast(:end as timestamp) at time zone 'UTC'
    and end_at > cast(:start as timestamp) at time zone 'UTC'
    and not is_filled
    and (acknowledgement is not null or not is_acknowledged)
    and (:cluster = '' or cluster = :cluster)
order by
    start_at,
    cluster,
    dataset,
    source
