-- Cost lines that share a pool out, and lines that belong to no node and no pod.
alter table mart.cost_hour
    add column is_distribution boolean not null default false,
    add column pool text,
    add column namespace text,
    drop constraint cost_hour_check1,
    drop constraint cost_hour_check2,
    add constraint overcommit_is_negative check (line <> 'overcommit' or cost <= 0 or is_distribution),
    add constraint idle_is_positive check (line <> 'idle' or cost >= 0 or is_distribution);
comment on column mart.cost_hour.is_distribution is 'One of the paired plus and minus rows that pass a pool on; per hour, model and line they net to zero.';
comment on column mart.cost_hour.pool is 'What the cost comes from where it is no node: claim:namespace/name, load_balancer:namespace/name, control_plane, or the name of a fixed cost.';
comment on column mart.cost_hour.namespace is 'Namespace of a line that belongs to no pod but to a namespace.';

alter table mart.cost_day
    add column is_distribution boolean not null default false,
    add column pool text;
comment on column mart.cost_day.is_distribution is 'As in mart.cost_hour.';
comment on column mart.cost_day.pool is 'As in mart.cost_hour.';
