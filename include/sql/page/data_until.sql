-- Up to when costs are published, and when that was last changed. Empty :cluster means all clusters.
select
    max(end_at) as data_until,
    max(published_at) as published_at
from bi.publications
where (:cluster = '' or cluster = :cluster)
