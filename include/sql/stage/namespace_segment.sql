-- A namespace's labels over the UTC days the window touches, equal neighbours merged.
-- Grain: namespace × time.
-- Why whole days: an hour in which the namespaces could not be listed takes the labels next to it.
with stated as (
    select
        interval.namespace,
        interval.labels,
        tstzrange(interval.start_at, interval.end_at) * spoken.span as during
    from raw.namespace_interval as interval
    join ops.spoken(cast(:cluster_key as smallint), 'namespace', :day_start, :day_end) as spoken using (load_id)
    where interval.start_at >= :day_start
        and interval.start_at < :day_end
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
    group by namespace, labels, date_trunc('day', lower(during), 'UTC')
) as stated
cross join lateral unnest(stated.spans) as part(span)
