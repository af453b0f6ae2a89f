-- Pods suddenly missing (or doubled) is what a broken selector looks like when every single row is fine.
-- The mean number of pods is compared with the same hours of the seven days before, as published.
-- severity: warning
-- expects: the mean number of pods is within 40 % of its median over the same hours of the previous 7 days (3 or more published)
with now_known as (
    select core.seconds(
        ops.covered(cast(:cluster_key as smallint), 'pod', :start, :end)
    ) as seconds
),

now_held as (
    select
        sum(core.seconds(tstzrange(interval.start_at, interval.end_at) * spoken.span)) as seconds
    from raw.pod_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'pod', :start, :end) as spoken using (load_id)
    where interval.start_at >= date_trunc('day', cast(:start as timestamptz), 'UTC')
        and interval.start_at < :end
        and interval.node is not null
        and coalesce(interval.phase, '') not in ('Succeeded', 'Failed')
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
),

now_pods as (
    select coalesce(now_held.seconds, 0) / nullif(now_known.seconds, 0) as pods
    from now_held
    cross join now_known
),

day_before as (
    select
        days_ago.days_ago,
        sum(pod_hour.seconds) / (3600 * count(distinct pod_hour.hour)) as pods
    from core.pod_hour
    join ops.published_hour using (stage_id, cluster_key, hour)
    join generate_series(1, 7) as days_ago
        on pod_hour.hour >= cast(:start as timestamptz) - days_ago.days_ago * interval '1 day'
        and pod_hour.hour < cast(:end as timestamptz) - days_ago.days_ago * interval '1 day'
    where pod_hour.cluster_key = :cluster_key
        and pod_hour.hour >= cast(:start as timestamptz) - interval '7 days'
        and pod_hour.hour < :start
    group by days_ago.days_ago
),

usual as (
    select
        percentile_disc(0.5) within group (order by pods) as pods,
        count(*) as days
    from day_before
)

select
    round(now_pods.pods, 1) as pods,
    round(usual.pods, 1) as usual_pods,
    usual.days as days_compared
from now_pods
cross join usual
where usual.days >= 3
    and abs(now_pods.pods - usual.pods) > 0.4 * usual.pods
