-- The pod statements that count for the window.
select interval.*
from raw.pod_interval as interval
join ops.spoken(cast(:cluster_key as smallint), 'pod', :start, :end) as spoken using (load_id)
where interval.start_at >= date_trunc('day', cast(:start as timestamptz), 'UTC')
    and interval.start_at < :end
    and tstzrange(interval.start_at, interval.end_at) && spoken.span
