-- Data status of every day and cluster of a period. Empty :cluster means all clusters.
select
    cluster,
    day,
    state,
    hours_published,
    hours_daily,
    uncovered_node_hours,
    uncovered_share,
    unpriced_node_hours,
    open_gaps,
    acknowledged_gaps,
    warnings,
    failed_checks,
    rejects,
    revision,
    content_sha256,
    published_at
from bi.data_status
where day >= :start
    and day < :end
    and (:cluster = '' or cluster = :cluster)
order by
    day,
    cluster
