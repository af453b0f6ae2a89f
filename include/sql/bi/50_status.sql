-- How far the numbers can be trusted: what is published, what is missing, unpriced or failed a check.

create view bi.checks as
select
    cluster.cluster,
    lower(result.during) as start_at,
    upper(result.during) as end_at,
    result.gate,
    result.check_name,
    result.engine,
    result.severity,
    result.passed,
    result.expected,
    result.observed,
    result.offending_count,
    result.checked_at
from ops.check_result as result
join core.cluster using (cluster_key)
where not exists (
    select 1
    from ops.check_result as later
    where later.cluster_key = result.cluster_key
        and later.during @> result.during
        and later.gate = result.gate
        and later.check_name = result.check_name
        and later.check_result_id > result.check_result_id
);

comment on view bi.checks is 'The latest verdict of every data-quality check. A verdict is replaced by a later one of the same check over the same or a wider window.';
comment on column bi.checks.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.checks.start_at is 'Start of the window, UTC.';
comment on column bi.checks.end_at is 'End of the window, UTC, exclusive.';
comment on column bi.checks.gate is 'raw, core, costs or publish.';
comment on column bi.checks.check_name is 'Name of the check.';
comment on column bi.checks.engine is 'gx (Great Expectations) or sql.';
comment on column bi.checks.severity is 'critical stops the run, warning is shown.';
comment on column bi.checks.passed is 'The verdict.';
comment on column bi.checks.expected is 'What was expected.';
comment on column bi.checks.observed is 'What was found.';
comment on column bi.checks.offending_count is 'How many rows break it.';
comment on column bi.checks.checked_at is 'When.';

create view bi.gaps as
select
    gap.gap_id,
    cluster.cluster,
    gap.dataset,
    gap.source,
    lower(gap.during) as start_at,
    upper(gap.during) as end_at,
    gap.reason,
    gap.seen_at,
    filled.spans @> gap.during as is_filled,
    gap.acknowledged_at is not null or exists (
        select 1
        from ops.gap as settled
        where settled.cluster_key = gap.cluster_key
            and settled.dataset = gap.dataset
            and settled.source = 'any'
            and settled.acknowledged_at is not null
            and settled.during @> gap.during
    ) as is_acknowledged,
    gap.acknowledged_at,
    gap.acknowledged_by,
    gap.acknowledgement
from ops.gap
join core.cluster using (cluster_key)
cross join lateral (
    select coalesce(range_agg(load.speaks_for), '{}'::tstzmultirange) as spans
    from ops.load
    where load.cluster_key = gap.cluster_key
        and load.dataset = gap.dataset
        and load.superseded_at is null
        and load.during && gap.during
) as filled;

comment on view bi.gaps is 'Windows a source could not be read for, acknowledged or not.';
comment on column bi.gaps.gap_id is 'Key.';
comment on column bi.gaps.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.gaps.dataset is 'What is missing.';
comment on column bi.gaps.source is 'Which source failed; any = whatever the source.';
comment on column bi.gaps.start_at is 'Start of the window, UTC.';
comment on column bi.gaps.end_at is 'End of the window, UTC, exclusive.';
comment on column bi.gaps.reason is 'Why, as the source put it.';
comment on column bi.gaps.seen_at is 'When it was last met.';
comment on column bi.gaps.is_filled is 'Some load, of this or another source, speaks for all of it by now.';
comment on column bi.gaps.is_acknowledged is 'A person said that it cannot be filled, of this gap or of the whole window whatever the source.';
comment on column bi.gaps.acknowledged_at is 'When.';
comment on column bi.gaps.acknowledged_by is 'Who.';
comment on column bi.gaps.acknowledgement is 'Why it cannot be filled.';

create view bi.publications as
select
    publication.publication_id,
    cluster.cluster,
    lower(publication.during) as start_at,
    upper(publication.during) as end_at,
    publication.kind,
    publication.hours,
    publication.row_count,
    publication.content_sha256,
    publication.loads_sha256,
    publication.reason,
    publication.published_at,
    publication.published_by
from ops.publication
join core.cluster using (cluster_key);

comment on view bi.publications is 'What was made visible, when and by which run.';
comment on column bi.publications.publication_id is 'Key.';
comment on column bi.publications.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.publications.start_at is 'Start of the window, UTC.';
comment on column bi.publications.end_at is 'End of the window, UTC, exclusive.';
comment on column bi.publications.kind is 'hourly or daily.';
comment on column bi.publications.hours is 'Hours that became current.';
comment on column bi.publications.row_count is 'Cost rows that became current.';
comment on column bi.publications.content_sha256 is 'SHA-256 over the hashes of its hours, in order. The same content gives the same hash.';
comment on column bi.publications.loads_sha256 is 'Fingerprint of the data it was computed from.';
comment on column bi.publications.reason is 'Why the past was restated; empty for an ordinary run.';
comment on column bi.publications.published_at is 'When.';
comment on column bi.publications.published_by is 'dag/run/task/try.';

create view bi.rejects as
select
    cluster.cluster,
    load.dataset,
    load.source,
    lower(load.during) as start_at,
    upper(load.during) as end_at,
    load.landed_at,
    reject.object_name,
    reject.reason
from ops.reject
join ops.load using (load_id)
join core.cluster using (cluster_key)
where load.superseded_at is null;

comment on view bi.rejects is 'Objects a source left out because they make no sense, each with the reason.';
comment on column bi.rejects.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.rejects.dataset is 'pod, node, usage, namespace or volume.';
comment on column bi.rejects.source is 'prometheus, kubernetes or files.';
comment on column bi.rejects.start_at is 'Start of the window, UTC.';
comment on column bi.rejects.end_at is 'End of the window, UTC, exclusive.';
comment on column bi.rejects.landed_at is 'When.';
comment on column bi.rejects.object_name is 'namespace/name or node name.';
comment on column bi.rejects.reason is 'What was expected and what was found.';

create view bi.price_snapshots as
select
    snapshot_id as price_snapshot_id,
    provider,
    url,
    fetched_at,
    sha256
from core.price_snapshot;

comment on view bi.price_snapshots is 'The price lists that costs rest on.';
comment on column bi.price_snapshots.price_snapshot_id is 'Key; cost rows name it.';
comment on column bi.price_snapshots.provider is 'azure, gcp, sheet, …';
comment on column bi.price_snapshots.url is 'Where it came from.';
comment on column bi.price_snapshots.fetched_at is 'When it was first seen.';
comment on column bi.price_snapshots.sha256 is 'SHA-256 of what it said.';

create view bi.unpriced as
with unpriced as (
    select
        published.cluster_key,
        cast(published.hour at time zone 'UTC' as date) as day,
        cost_model.cost_model,
        cost_hour.hour,
        cost_hour.node_key,
        segment.instance_type,
        segment.region,
        case
            when node_hour.is_virtual then 'virtual'
            else coalesce(price.state, 'unknown')
        end as price_state,
        case
            when cost_hour.node_key is null then 'No source says which node the pods ran on.'
            when node_hour.is_virtual then 'The node is virtual: its capacity is no cost of its own.'
            when node_hour.hour is null then 'No source speaks of the node at this time.'
            else coalesce(nullif(price.reason, ''), 'No price was found for the node.')
        end as reason,
        cost_hour.cpu_core_seconds,
        cost_hour.memory_byte_seconds,
        cost_hour.gpu_seconds
    from ops.published_hour as published
    join mart.cost_hour
        on cost_hour.stage_id = published.stage_id and cost_hour.hour = published.hour
    join core.cost_model using (cost_model_key)
    left join core.node_hour
        on node_hour.stage_id = cost_hour.stage_id
        and node_hour.hour = cost_hour.hour
        and node_hour.node_key = cost_hour.node_key
    left join core.node_price as price
        on price.stage_id = cost_hour.stage_id
        and price.node_key = cost_hour.node_key
        and price.during @> cost_hour.hour
    left join lateral (
        select
            node_segment.instance_type,
            node_segment.region
        from core.node_segment
        where node_segment.stage_id = cost_hour.stage_id
            and node_segment.node_key = cost_hour.node_key
        order by upper(node_segment.during) desc
        limit 1
    ) as segment on true
    where cost_hour.line = 'unpriced'
)

select
    cluster.cluster,
    unpriced.day,
    unpriced.cost_model,
    node.node,
    unpriced.instance_type,
    unpriced.region,
    unpriced.price_state,
    unpriced.reason,
    count(distinct unpriced.hour) as hours,
    sum(unpriced.cpu_core_seconds) / 3600 as cpu_core_hours,
    sum(unpriced.memory_byte_seconds) / 3600 / 1073741824 as memory_gib_hours,
    sum(unpriced.gpu_seconds) / 3600 as gpu_hours
from unpriced
join core.cluster using (cluster_key)
left join core.node using (node_key)
group by
    cluster.cluster,
    unpriced.day,
    unpriced.cost_model,
    node.node_key,
    unpriced.instance_type,
    unpriced.region,
    unpriced.price_state,
    unpriced.reason;

comment on view bi.unpriced is 'What has no price and why, by day. Quantities only: its cost is unknown, not zero.';
comment on column bi.unpriced.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.unpriced.day is 'UTC day.';
comment on column bi.unpriced.cost_model is 'Cost model. Filter on one: each model bills the same cluster in full.';
comment on column bi.unpriced.node is 'Node; null for pods of which no source says where they ran.';
comment on column bi.unpriced.instance_type is 'Machine type.';
comment on column bi.unpriced.region is 'Cloud region.';
comment on column bi.unpriced.price_state is 'unpriced or ambiguous; virtual = its capacity is no cost of its own; unknown = no source speaks of the node.';
comment on column bi.unpriced.reason is 'Why.';
comment on column bi.unpriced.hours is 'Hours it had no price.';
comment on column bi.unpriced.cpu_core_hours is 'CPU the cost is for, in core-hours.';
comment on column bi.unpriced.memory_gib_hours is 'Memory the cost is for, in GiB-hours.';
comment on column bi.unpriced.gpu_hours is 'GPUs the cost is for, in GPU-hours.';

create view bi.data_status as
with known as (
    select
        cluster_key,
        min(cast(hour at time zone 'UTC' as date)) as first_day,
        max(cast(hour at time zone 'UTC' as date)) as last_day
    from ops.published_hour
    group by cluster_key
    union all
    select
        cluster_key,
        min(cast(lower(during) at time zone 'UTC' as date)),
        max(cast((upper(during) - interval '1 microsecond') at time zone 'UTC' as date))
    from ops.load
    group by cluster_key
    union all
    select
        cluster_key,
        min(cast(lower(during) at time zone 'UTC' as date)),
        max(cast((upper(during) - interval '1 microsecond') at time zone 'UTC' as date))
    from ops.gap
    group by cluster_key
),

span as (
    select
        cluster_key,
        min(first_day) as first_day,
        max(last_day) as last_day
    from known
    group by cluster_key
),

calendar as (
    select
        span.cluster_key,
        span.first_day + elapsed.days as day,
        cast(span.first_day + elapsed.days as timestamp) at time zone 'UTC' as start_at,
        cast(span.first_day + elapsed.days + 1 as timestamp) at time zone 'UTC' as end_at
    from span
    cross join lateral generate_series(0, span.last_day - span.first_day) as elapsed (days)
),

status as (
    select
        cluster.cluster,
        calendar.day,
        published.*,
        coverage.*,
        money.*,
        gap.*,
        verdict.*,
        reject.*
    from calendar
    join core.cluster using (cluster_key)
    cross join lateral (
        select
            cast(count(*) as integer) as hours_published,
            cast(count(*) filter (where published_hour.kind = 'daily') as integer) as hours_daily,
            max(published_hour.revision) as revision,
            encode(
                sha256(convert_to(string_agg(published_hour.content_sha256, '' order by published_hour.hour), 'UTF8')),
                'hex'
            ) as content_sha256,
            max(publication.published_at) as published_at
        from ops.published_hour
        join ops.publication using (publication_id)
        where published_hour.cluster_key = calendar.cluster_key
            and published_hour.hour >= calendar.start_at
            and published_hour.hour < calendar.end_at
    ) as published
    cross join lateral (
        select
            coalesce(sum(node_hour.seconds - node_hour.covered_seconds), 0) / 3600 as uncovered_node_hours,
            round(
                sum(node_hour.seconds - node_hour.covered_seconds) / nullif(sum(node_hour.seconds), 0), 6
            ) as uncovered_share,
            coalesce(
                sum(node_hour.seconds) filter (where price.price_per_hour is null and not node_hour.is_virtual), 0
            ) / 3600 as unpriced_node_hours
        from ops.published_hour
        join core.node_hour
            on node_hour.stage_id = published_hour.stage_id and node_hour.hour = published_hour.hour
        left join core.node_price as price
            on price.stage_id = node_hour.stage_id
            and price.node_key = node_hour.node_key
            and price.during @> node_hour.hour
        where published_hour.cluster_key = calendar.cluster_key
            and published_hour.hour >= calendar.start_at
            and published_hour.hour < calendar.end_at
            and node_hour.hour >= calendar.start_at
            and node_hour.hour < calendar.end_at
    ) as coverage
    cross join lateral (
        select
            case when count(distinct by_model.currency) = 1 then max(by_model.cost) end as cost,
            case when count(distinct by_model.currency) = 1 then min(by_model.currency) end as currency,
            coalesce(bool_or(by_model.is_unpriced), false) as has_unpriced
        from (
            select
                cost_day.cost_model,
                cost_day.currency,
                sum(cost_day.cost) as cost,
                bool_or(cost_day.line = 'unpriced') as is_unpriced
            from mart.cost_day
            where cost_day.cluster_key = calendar.cluster_key and cost_day.day = calendar.day
            group by cost_day.cost_model, cost_day.currency
        ) as by_model
    ) as money
    cross join lateral (
        select
            cast(count(*) filter (where not gaps.is_acknowledged) as integer) as open_gaps,
            cast(count(*) filter (where gaps.is_acknowledged) as integer) as acknowledged_gaps
        from bi.gaps
        where gaps.cluster = cluster.cluster
            and gaps.start_at < calendar.end_at
            and gaps.end_at > calendar.start_at
            and not gaps.is_filled
    ) as gap
    cross join lateral (
        select
            cast(count(*) filter (where checks.severity = 'warning') as integer) as warnings,
            cast(count(*) filter (where checks.severity = 'critical') as integer) as failed_checks
        from bi.checks
        where checks.cluster = cluster.cluster
            and checks.start_at < calendar.end_at
            and checks.end_at > calendar.start_at
            and not checks.passed
    ) as verdict
    cross join lateral (
        select cast(count(*) as integer) as rejects
        from ops.load
        join ops.reject using (load_id)
        where load.cluster_key = calendar.cluster_key
            and load.superseded_at is null
            and load.during && tstzrange(calendar.start_at, calendar.end_at)
    ) as reject
)

select
    status.cluster,
    status.day,
    judged.state,
    status.hours_published,
    status.hours_daily,
    judged.state = 'complete' as is_complete,
    status.uncovered_node_hours,
    status.uncovered_share,
    status.unpriced_node_hours,
    status.cost,
    status.currency,
    status.revision,
    status.content_sha256,
    status.published_at,
    status.open_gaps,
    status.acknowledged_gaps,
    status.warnings,
    status.failed_checks,
    status.rejects
from status
cross join lateral (
    select case
        when status.hours_published = 0 then 'missing'
        when status.hours_published < 24 then 'partial'
        when status.open_gaps > 0 or status.uncovered_node_hours > 0 then 'gaps'
        when status.unpriced_node_hours > 0 or status.has_unpriced then 'unpriced'
        else 'complete'
    end as state
) as judged;

comment on view bi.data_status is 'How complete each day is: one row per cluster and UTC day from the first to the last one with any data.';
comment on column bi.data_status.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.data_status.day is 'UTC day.';
comment on column bi.data_status.state is 'The first that applies of: missing (nothing is published); partial (not all 24 hours are published); gaps (an open gap, or time without data); unpriced (something has no price); complete.';
comment on column bi.data_status.hours_published is 'Hours of the day that are published, 0 to 24.';
comment on column bi.data_status.hours_daily is 'Those of them that the daily run published; the others are provisional.';
comment on column bi.data_status.is_complete is 'The state is complete.';
comment on column bi.data_status.uncovered_node_hours is 'Node-hours for which the pods are not known.';
comment on column bi.data_status.uncovered_share is 'Their share of all node-hours, 0 to 1; null without node-hours.';
comment on column bi.data_status.unpriced_node_hours is 'Node-hours without a price.';
comment on column bi.data_status.cost is 'What the cluster cost, the same under every cost model; null = nothing priced, or several currencies.';
comment on column bi.data_status.currency is 'ISO 4217 currency; null = nothing priced, or several currencies.';
comment on column bi.data_status.revision is 'Highest revision shown.';
comment on column bi.data_status.content_sha256 is 'SHA-256 over the hashes of the published hours, in order. Two computations of the day agree if it is the same.';
comment on column bi.data_status.published_at is 'When it last changed.';
comment on column bi.data_status.open_gaps is 'Gaps that no load fills and nobody acknowledged.';
comment on column bi.data_status.acknowledged_gaps is 'Gaps that no load fills and a person acknowledged.';
comment on column bi.data_status.warnings is 'Checks that warn about the day.';
comment on column bi.data_status.failed_checks is 'Critical checks that failed and were not passed since; readers see the last data that passed.';
comment on column bi.data_status.rejects is 'Objects left out because they make no sense.';
