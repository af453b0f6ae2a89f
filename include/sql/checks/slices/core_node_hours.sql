-- The staged node-hours.
select *
from core.node_hour
where stage_id = :stage_id and hour >= :start and hour < :end
