-- How the numbers came to be.
create table core.cluster (
    cluster_key smallint generated always as identity primary key,
    cluster text not null unique
);
comment on table core.cluster is 'The billed clusters.';
comment on column core.cluster.cluster_key is 'Surrogate key used inside the facts.';
comment on column core.cluster.cluster is 'Name from include/config/clusters.yaml.';

create table ops.load (
    load_id bigint generated always as identity primary key,
    cluster_key smallint not null references core.cluster,
    dataset text not null check (dataset in ('pod', 'node', 'usage', 'namespace', 'volume', 'load_balancer', 'container_stats')),
    source text not null,
    source_rank smallint not null,
    during tstzrange not null,
    covered tstzmultirange not null,
    speaks_for tstzmultirange not null,
    row_count bigint not null,
    reject_count bigint not null,
    payload_sha256 text not null,
    rows_sha256 text not null,
    landed_at timestamptz not null,
    superseded_at timestamptz
);
create index load_by_window on ops.load using gist (cluster_key, dataset, during) where superseded_at is null;
comment on table ops.load is 'One landing: one dataset of one cluster, source and window (never across a UTC midnight).';
comment on column ops.load.load_id is 'Key; raw rows carry it.';
comment on column ops.load.cluster_key is 'Which cluster.';
comment on column ops.load.dataset is 'pod, node, usage, namespace, volume, load_balancer or container_stats.';
comment on column ops.load.source is 'prometheus, kubernetes, files or kubelet.';
comment on column ops.load.source_rank is 'Precedence of the source in clusters.yaml; 0 comes first.';
comment on column ops.load.during is 'The window that was asked for.';
comment on column ops.load.covered is 'The parts of the window the source could speak for.';
comment on column ops.load.speaks_for is 'The parts for which this load is the one that counts: covered, minus what sources of higher precedence and later loads of the same source cover. Disjoint over the current loads of a cluster and dataset.';
comment on column ops.load.row_count is 'Rows landed.';
comment on column ops.load.reject_count is 'Objects left out, see ops.reject.';
comment on column ops.load.payload_sha256 is 'SHA-256 of what came in.';
comment on column ops.load.rows_sha256 is 'SHA-256 of the rows and their coverage; landing the same again changes nothing.';
comment on column ops.load.landed_at is 'When it landed.';
comment on column ops.load.superseded_at is 'When later loads had replaced all of it and its rows were deleted; null while it counts.';

create table ops.reject (
    load_id bigint not null references ops.load,
    object_name text not null,
    reason text not null,
    payload text not null default ''
);
create index reject_by_load on ops.reject (load_id);
comment on table ops.reject is 'Objects a source left out because they make no sense, each with the reason.';
comment on column ops.reject.load_id is 'The load it was left out of.';
comment on column ops.reject.object_name is 'namespace/name or node name.';
comment on column ops.reject.reason is 'What was expected and what was found.';
comment on column ops.reject.payload is 'The start of what was found.';

create table ops.gap (
    gap_id bigint generated always as identity primary key,
    cluster_key smallint not null references core.cluster,
    dataset text not null,
    source text not null,
    during tstzrange not null,
    reason text not null,
    seen_at timestamptz not null,
    acknowledged_at timestamptz,
    acknowledged_by text,
    acknowledgement text,
    unique (cluster_key, dataset, source, during),
    check ((acknowledged_at is null) = (acknowledgement is null))
);
comment on table ops.gap is 'Windows that could not be read. A gate stops at them until a person acknowledges them with a reason.';
comment on column ops.gap.gap_id is 'Key.';
comment on column ops.gap.cluster_key is 'Which cluster.';
comment on column ops.gap.dataset is 'What is missing.';
comment on column ops.gap.source is 'Which source failed; "any" for a gap acknowledged whatever the source.';
comment on column ops.gap.during is 'When.';
comment on column ops.gap.reason is 'Why, as the source put it.';
comment on column ops.gap.seen_at is 'When it was last met.';
comment on column ops.gap.acknowledged_at is 'When a person said: this cannot be filled.';
comment on column ops.gap.acknowledged_by is 'Who.';
comment on column ops.gap.acknowledgement is 'Why it cannot be filled.';

create table ops.stage (
    stage_id bigint generated always as identity primary key,
    cluster_key smallint not null references core.cluster,
    during tstzrange not null,
    kind text not null check (kind in ('hourly', 'daily')),
    state text not null check (state in ('staged', 'published', 'abandoned')),
    loads_sha256 text not null,
    created_at timestamptz not null,
    reason text not null default ''
);
create index stage_by_window on ops.stage using gist (cluster_key, during);
comment on table ops.stage is 'One computation of one window. Readers see it only once it is published.';
comment on column ops.stage.stage_id is 'Key; core and mart rows carry it.';
comment on column ops.stage.cluster_key is 'Which cluster.';
comment on column ops.stage.during is 'The window, whole hours.';
comment on column ops.stage.kind is 'Which DAG: an hour published by the daily one is not overwritten by the hourly one.';
comment on column ops.stage.state is 'staged, published (some hour of it is current) or abandoned.';
comment on column ops.stage.loads_sha256 is 'Fingerprint of the loads it was computed from; publishing demands that they are still the current ones.';
comment on column ops.stage.created_at is 'When it was begun.';
comment on column ops.stage.reason is 'Why the past was restated; empty for an ordinary run.';

create table ops.stage_hour (
    stage_id bigint not null references ops.stage on delete cascade,
    hour timestamptz not null,
    as_of timestamptz not null,
    revision integer not null,
    primary key (stage_id, hour)
);
comment on table ops.stage_hour is 'What each staged hour was computed with.';
comment on column ops.stage_hour.stage_id is 'The stage.';
comment on column ops.stage_hour.hour is 'Start of the hour, UTC.';
comment on column ops.stage_hour.as_of is 'Prices, owners and models as they were known at this moment.';
comment on column ops.stage_hour.revision is '1, and one more for every restatement.';

create table ops.check_result (
    check_result_id bigint generated always as identity primary key,
    checked_at timestamptz not null,
    cluster_key smallint not null references core.cluster,
    during tstzrange not null,
    stage_id bigint,
    gate text not null check (gate in ('raw', 'core', 'costs', 'publish')),
    check_name text not null,
    engine text not null check (engine in ('gx', 'sql')),
    severity text not null check (severity in ('critical', 'warning')),
    passed boolean not null,
    expected text not null,
    observed text not null,
    offending_count bigint not null default 0,
    sample jsonb
);
create index check_result_by_window on ops.check_result using gist (cluster_key, during);
comment on table ops.check_result is 'Verdict of every data-quality check, passed or not.';
comment on column ops.check_result.check_result_id is 'Key.';
comment on column ops.check_result.checked_at is 'When.';
comment on column ops.check_result.cluster_key is 'Which cluster.';
comment on column ops.check_result.during is 'Which window.';
comment on column ops.check_result.stage_id is 'Which stage; null before staging.';
comment on column ops.check_result.gate is 'raw, core, costs or publish.';
comment on column ops.check_result.check_name is 'Name of the check, the name of its file or expectation.';
comment on column ops.check_result.engine is 'gx (Great Expectations) or sql.';
comment on column ops.check_result.severity is 'critical stops the run, warning is shown.';
comment on column ops.check_result.passed is 'The verdict.';
comment on column ops.check_result.expected is 'What was expected.';
comment on column ops.check_result.observed is 'What was found.';
comment on column ops.check_result.offending_count is 'How many rows break it.';
comment on column ops.check_result.sample is 'Some of the offending rows.';

create table ops.publication (
    publication_id bigint generated always as identity primary key,
    cluster_key smallint not null references core.cluster,
    during tstzrange not null,
    kind text not null,
    stage_id bigint not null,
    published_at timestamptz not null,
    hours integer not null,
    row_count bigint not null,
    content_sha256 text not null,
    loads_sha256 text not null,
    reason text not null default '',
    published_by text not null default ''
);
create index publication_by_window on ops.publication using gist (cluster_key, during);
comment on table ops.publication is 'Ledger of what was made visible, when and by which run. Never edited.';
comment on column ops.publication.publication_id is 'Key.';
comment on column ops.publication.cluster_key is 'Which cluster.';
comment on column ops.publication.during is 'The window of the stage.';
comment on column ops.publication.kind is 'hourly or daily.';
comment on column ops.publication.stage_id is 'The stage that was published.';
comment on column ops.publication.published_at is 'When.';
comment on column ops.publication.hours is 'How many hours became current.';
comment on column ops.publication.row_count is 'How many cost rows became current.';
comment on column ops.publication.content_sha256 is 'SHA-256 over the hashes of the published hours, in order. The same content gives the same hash.';
comment on column ops.publication.loads_sha256 is 'Fingerprint of the loads it was computed from.';
comment on column ops.publication.reason is 'Why the past was restated; empty for an ordinary run.';
comment on column ops.publication.published_by is 'dag/run/task/try.';

create table ops.published_hour (
    cluster_key smallint not null references core.cluster,
    hour timestamptz not null,
    stage_id bigint not null references ops.stage,
    publication_id bigint not null references ops.publication,
    kind text not null,
    revision integer not null,
    as_of timestamptz not null,
    content_sha256 text not null,
    primary key (cluster_key, hour)
);
create index published_hour_by_stage on ops.published_hour (stage_id);
comment on table ops.published_hour is 'The pointer readers follow: which stage is the current truth of an hour.';
comment on column ops.published_hour.cluster_key is 'Which cluster.';
comment on column ops.published_hour.hour is 'Start of the hour, UTC.';
comment on column ops.published_hour.stage_id is 'The current stage.';
comment on column ops.published_hour.publication_id is 'The publication that made it current.';
comment on column ops.published_hour.kind is 'hourly or daily.';
comment on column ops.published_hour.revision is 'Revision shown.';
comment on column ops.published_hour.as_of is 'Knowledge it was computed with; an ordinary re-run uses it again.';
comment on column ops.published_hour.content_sha256 is 'SHA-256 over the cost rows of the hour.';

create table ops.closed_month (
    cluster_key smallint not null references core.cluster,
    month date not null check (extract(day from month) = 1),
    closed_at timestamptz not null,
    primary key (cluster_key, month)
);
comment on table ops.closed_month is 'Months that are immutable: nothing is published into them any more.';
comment on column ops.closed_month.cluster_key is 'Which cluster.';
comment on column ops.closed_month.month is 'First day of the month.';
comment on column ops.closed_month.closed_at is 'When it was closed.';

-- Runs with the owner's rights, so that the loader and the publisher need no right to create tables.
create function ops.ensure_partitions(parent regclass, first_day date, last_day date) returns integer
    language plpgsql security definer set search_path = pg_catalog
as $$
declare
    step interval;
    edge timestamptz;
    upper_edge timestamptz;
    partition_name text;
    made integer := 0;
begin
    if parent::text not in (
        'raw.pod_interval', 'raw.node_interval', 'raw.usage_interval', 'raw.namespace_interval',
        'raw.volume_interval', 'core.pod_hour', 'core.node_hour', 'core.container_hour',
        'raw.load_balancer_interval', 'raw.container_stats_interval', 'core.container_stats_hour',
        'mart.cost_hour'
    ) then
        raise exception 'no partitions are kept for %', parent;
    end if;
    step := case when parent::text like 'raw.%' then interval '1 day' else interval '1 month' end;
    edge := date_trunc(
        case when parent::text like 'raw.%' then 'day' else 'month' end, first_day::timestamp
    ) at time zone 'UTC';
    while edge < (last_day + 1)::timestamp at time zone 'UTC' loop
        upper_edge := ((edge at time zone 'UTC') + step) at time zone 'UTC';
        partition_name := parent::text || to_char(
            edge at time zone 'UTC', case when parent::text like 'raw.%' then '_YYYYMMDD' else '_YYYYMM' end
        );
        if to_regclass(partition_name) is null then
            perform pg_advisory_xact_lock(hashtextextended('kubetally/partition/' || partition_name, 0));
            if to_regclass(partition_name) is null then
                execute format(
                    'create table %s partition of %s for values from (%L) to (%L)',
                    partition_name, parent, edge, upper_edge
                );
                made := made + 1;
            end if;
        end if;
        edge := upper_edge;
    end loop;
    return made;
end
$$;
comment on function ops.ensure_partitions(regclass, date, date) is
    'Creates the missing partitions of a table for the days first_day..last_day: daily in raw, monthly elsewhere.';

create function ops.spoken(
    of_cluster smallint, of_dataset text, from_time timestamptz, to_time timestamptz
) returns table (load_id bigint, span tstzrange)
    language sql stable parallel safe
begin atomic
    select load.load_id, part.span
    from ops.load
    cross join lateral unnest(
        load.speaks_for * tstzmultirange(tstzrange(from_time, to_time))
    ) as part(span)
    where load.cluster_key = of_cluster
        and load.dataset = of_dataset
        and load.superseded_at is null
        and load.during && tstzrange(from_time, to_time);
end;
comment on function ops.spoken(smallint, text, timestamptz, timestamptz) is
    'Which load speaks for which part of a window. Rows of raw tables count only inside these spans.';

create function ops.covered(
    of_cluster smallint, of_dataset text, from_time timestamptz, to_time timestamptz
) returns tstzmultirange
    language sql stable parallel safe
begin atomic
    select coalesce(range_agg(spoken.span), '{}'::tstzmultirange)
    from ops.spoken(of_cluster, of_dataset, from_time, to_time) as spoken;
end;
comment on function ops.covered(smallint, text, timestamptz, timestamptz) is
    'The parts of a window for which some load speaks.';
