-- Schemas, extensions and the helpers every later file leans on.
create schema raw;
create schema core;
create schema mart;
create schema bi;
create schema ops;

comment on schema raw is 'What the sources said, as landed: statements over half-open UTC intervals.';
comment on schema core is 'Hourly facts and the dated dimensions they hang on; price book; owners; cost models.';
comment on schema mart is 'Costs: every line of every cluster and hour, and their daily rollup.';
comment on schema bi is 'Documented read-only views for people and BI tools. Nothing else is theirs to read.';
comment on schema ops is 'Loads, rejects, gaps, stages, checks and publications: how the numbers came to be.';

create extension if not exists btree_gist;

create function core.seconds(span tstzrange) returns numeric
    language sql immutable parallel safe
    return case when isempty(span) then 0 else extract(epoch from upper(span) - lower(span)) end;
comment on function core.seconds(tstzrange) is 'Exact length of a range in seconds; 0 when empty.';

create function core.seconds_of_parts(spans tstzmultirange) returns numeric
    language sql immutable parallel safe
    return (
        select coalesce(sum(extract(epoch from upper(span) - lower(span))), 0)
        from unnest(spans) as part(span)
    );
comment on function core.seconds_of_parts(tstzmultirange) is 'Exact length of a multirange in seconds, range by range.';

-- A subquery cannot be inlined and costs microseconds a row; most multiranges are one range.
create function core.seconds(spans tstzmultirange) returns numeric
    language sql immutable parallel safe
    return case
        when spans is null or isempty(spans) then 0
        when tstzmultirange(range_merge(spans)) = spans then extract(epoch from upper(spans) - lower(spans))
        else core.seconds_of_parts(spans)
    end;
comment on function core.seconds(tstzmultirange) is 'Exact length of a multirange in seconds.';

create function mart.share(pool numeric, part numeric, whole numeric) returns numeric
    language sql immutable parallel safe
    return case when whole > 0
        then div(pool * part * 1000000000000000000, whole) * 0.000000000000000001
        else 0
    end;
comment on function mart.share(numeric, numeric, numeric) is
    'pool * part / whole, truncated toward zero at 18 decimals without any intermediate rounding; 0 when whole is 0. The closing line of the pool takes what is left.';

create function mart.node_cost(price_per_hour numeric, seconds numeric) returns numeric
    language sql immutable parallel safe
    return div(price_per_hour * seconds * 2000000000000000000 + 3600, 7200) * 0.000000000000000001;
comment on function mart.node_cost(numeric, numeric) is
    'price_per_hour * seconds / 3600, rounded half up at 18 decimals without any intermediate rounding.';

create function core.portion(amount numeric, part numeric, whole numeric) returns numeric
    language sql immutable parallel safe
    return div(amount * part * 2000000000 + whole, 2 * whole) * 0.000000001;
comment on function core.portion(numeric, numeric, numeric) is
    'amount * part / whole, rounded half up at 9 decimals without any intermediate rounding: the part of a usage amount that falls into part of its seconds.';
