-- Decides which load speaks for which time, after a landing.
-- Grain: the current loads of one cluster, dataset and UTC day.
-- Why: sources overlap (polls and Prometheus), windows overlap (hours and days), arrival is unordered.
-- Invariant: the speaks_for of current loads are disjoint; a later load of the same source replaces the
-- window it was asked for; a source listed earlier in clusters.yaml wins where both cover a time.
with current_load as (
    select load_id, source, source_rank, during, covered
    from ops.load
    where cluster_key = :cluster_key
        and dataset = :dataset
        and superseded_at is null
        and during && tstzrange(:start, :end)
),

own as (
    select
        load.load_id,
        load.source_rank,
        tstzmultirange(load.during) - later.windows as left_of_window,
        load.covered - later.windows as covered
    from current_load as load
    cross join lateral (
        select coalesce(range_agg(other.during), '{}'::tstzmultirange) as windows
        from current_load as other
        where other.source = load.source and other.load_id > load.load_id
    ) as later
),

spoken as (
    select
        own.load_id,
        own.covered - better.covered as speaks_for,
        isempty(own.left_of_window) as is_superseded
    from own
    cross join lateral (
        select coalesce(range_agg(span), '{}'::tstzmultirange) as covered
        from own as other, unnest(other.covered) as part(span)
        where other.source_rank < own.source_rank
    ) as better
)

update ops.load
set
    speaks_for = case when spoken.is_superseded then '{}'::tstzmultirange else spoken.speaks_for end,
    superseded_at = case when spoken.is_superseded then :now else null end
from spoken
where load.load_id = spoken.load_id
    and (load.speaks_for is distinct from spoken.speaks_for or spoken.is_superseded)
returning load.load_id, load.superseded_at is not null as is_superseded
