-- Times in which a cluster was down and nobody is billed by service units.
create table core.outage (
    outage_id bigint generated always as identity primary key,
    cluster text not null,
    service text not null,
    url text not null,
    during tstzrange not null check (not isempty(during)),
    known tstzrange not null
);
create index outage_by_cluster on core.outage (cluster);
comment on table core.outage is 'Outages, from include/config/outages/, bitemporal. They may overlap: core.outages unites them.';
comment on column core.outage.outage_id is 'Key.';
comment on column core.outage.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column core.outage.service is 'What the file calls it.';
comment on column core.outage.url is 'Where the outage was announced.';
comment on column core.outage.during is 'When; half-open.';
comment on column core.outage.known is 'Since and until when the configuration said so; what it said first counts for all time before.';

create function core.outages(
    of_cluster text, as_of timestamptz, from_time timestamptz, to_time timestamptz
) returns tstzmultirange
    language sql stable parallel safe
begin atomic
    select coalesce(range_agg(outage.during), '{}') * tstzmultirange(tstzrange(from_time, to_time))
    from core.outage
    where outage.cluster = of_cluster
        and outage.known @> as_of
        and outage.during && tstzrange(from_time, to_time);
end;
comment on function core.outages(text, timestamptz, timestamptz, timestamptz) is
    'When the cluster was down in [from_time, to_time), as it was known at as_of: the union, so that nothing is subtracted twice.';

grant insert, update on core.outage to kubetally_publisher;
