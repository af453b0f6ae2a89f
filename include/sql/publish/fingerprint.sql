-- What a window is computed from: the content of the loads that speak for it, and for which parts.
-- Ids and arrival do not matter. Only the window is fenced: what else of its UTC days a stage looks at
-- (nodes on both sides of a silence, whose name a node bears) is settled by the daily run.
select
    encode(sha256(convert_to(
        coalesce(string_agg(said.content, E'\n' order by said.content collate "C"), ''), 'UTF8'
    )), 'hex') as loads_sha256
from (
    select concat_ws(
        '|', load.dataset, load.source, load.rows_sha256, (load.speaks_for * asked.span)::text
    ) as content
    from (select tstzmultirange(tstzrange(:start, :end)) as span) as asked
    join ops.load
        on load.cluster_key = :cluster_key
        and load.superseded_at is null
        and load.during && tstzrange(:start, :end)
        and not isempty(load.speaks_for * asked.span)
) as said
