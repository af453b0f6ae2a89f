-- An object that was left out costs nothing, so its money turns up as idle: it has to be seen.
-- severity: warning
-- expects: no object of the window was left out
select
    load.dataset,
    load.source,
    reject.object_name,
    reject.reason
from ops.reject
join ops.load using (load_id)
where load.cluster_key = :cluster_key
    and load.superseded_at is null
    and load.during && tstzrange(:start, :end)
order by load.dataset, reject.object_name, reject.reason
