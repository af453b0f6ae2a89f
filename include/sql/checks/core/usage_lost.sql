-- Usage is joined to pods by uid or by name; a join that finds none or two would lose or double it silently.
-- severity: critical
-- expects: in every hour the usage stated inside its loads' spans adds up to the usage of the containers
-- remedy: Stage the window again; if it stays, this is a defect of the consolidation, please report it.
with clipped as (
    select
        date_trunc('hour', interval.start_at, 'UTC') as hour,
        interval.cpu_used_core_seconds,
        interval.memory_used_byte_seconds,
        tstzrange(interval.start_at, interval.end_at) as stated_during,
        tstzrange(interval.start_at, interval.end_at) * spoken.span as during
    from raw.usage_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'usage', :start, :end) as spoken using (load_id)
    where interval.start_at >= :start
        and interval.start_at < :end
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
),

stated as (
    select
        hour,
        sum(
            case
                when during = stated_during then cpu_used_core_seconds
                else core.portion(cpu_used_core_seconds, core.seconds(during), core.seconds(stated_during))
            end
        ) as cpu,
        sum(
            case
                when during = stated_during then memory_used_byte_seconds
                else core.portion(memory_used_byte_seconds, core.seconds(during), core.seconds(stated_during))
            end
        ) as memory
    from clipped
    group by hour
),

staged as (
    select
        hour,
        sum(cpu_used_core_seconds) as cpu,
        sum(memory_used_byte_seconds) as memory
    from core.container_hour
    where stage_id = :stage_id and hour >= :start and hour < :end
    group by hour
)

select
    hour,
    stated.cpu as stated_cpu_core_seconds,
    staged.cpu as staged_cpu_core_seconds,
    stated.memory as stated_memory_byte_seconds,
    staged.memory as staged_memory_byte_seconds
from stated
full join staged using (hour)
where stated.cpu is distinct from staged.cpu
    or stated.memory is distinct from staged.memory
order by hour
