-- The staged container-hours.
select *
from core.container_hour
where stage_id = :stage_id and hour >= :start and hour < :end
