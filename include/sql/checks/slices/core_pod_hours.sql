-- The staged pod-hours.
select *
from core.pod_hour
where stage_id = :stage_id and hour >= :start and hour < :end
