-- Load balancers of the cloud in front of services.
create table raw.load_balancer_interval (
    load_id bigint not null,
    start_at timestamptz not null,
    end_at timestamptz not null,
    uid text not null,
    namespace text not null,
    service text not null,
    address text,
    ports numeric,
    load_balancer_class text,
    labels jsonb,
    annotations jsonb,
    check (start_at < end_at)
) partition by range (start_at);
create index load_balancer_interval_by_load on raw.load_balancer_interval (load_id);
comment on table raw.load_balancer_interval is 'A service has a load balancer in front of it, over [start_at, end_at).';
comment on column raw.load_balancer_interval.load_id is 'The load it came with.';
comment on column raw.load_balancer_interval.start_at is 'From when the statement holds.';
comment on column raw.load_balancer_interval.end_at is 'Until when, exclusive.';
comment on column raw.load_balancer_interval.uid is 'Kubernetes uid of the service.';
comment on column raw.load_balancer_interval.namespace is 'Namespace.';
comment on column raw.load_balancer_interval.service is 'Service name.';
comment on column raw.load_balancer_interval.address is 'First address or host name; null while it is being made.';
comment on column raw.load_balancer_interval.ports is 'Ports it listens on.';
comment on column raw.load_balancer_interval.load_balancer_class is 'Class, where one is asked for.';
comment on column raw.load_balancer_interval.labels is 'Labels of the service.';
comment on column raw.load_balancer_interval.annotations is 'Annotations of the service: kind and scheme of the load balancer.';

grant insert, delete on raw.load_balancer_interval to kubetally_loader;
