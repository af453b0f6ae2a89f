-- A namespace's labels over the window, equal neighbours merged.
-- Grain: namespace × time.
with stated as (
    select
        interval.namespace,
        interval.labels,
        tstzrange(interval.start_at, interval.end_at) * spoken.span as during
    from raw.namespace_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'namespace', :start, :end) as spoken using (load_id)
    where interval.start_at >= date_trunc('day', cast(:start as timestamptz), 'UTC')
        and interval.start_at < :end
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
)

insert into core.namespace_segment (stage_id, cluster_key, namespace, during, labels)
select
    :stage_id,
    :cluster_key,
    stated.namespace,
    part.span,
    stated.labels
from (
    select
        namespace,
        labels,
        range_agg(during) as spans
    from stated
    group by namespace, labels
) as stated
cross join lateral unnest(stated.spans) as part(span)
