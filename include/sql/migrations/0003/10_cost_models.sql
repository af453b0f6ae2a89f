-- What a cost model may say: what is billed, which namespaces are shared, who pays the pools.
alter table core.cost_model
    drop constraint cost_model_kind_check,
    add constraint cost_model_kind_check check (kind in ('resource', 'charge_back', 'rated', 'service_units')),
    add column cpu_basis text not null default 'max' check (cpu_basis in ('max', 'requested', 'used')),
    add column memory_basis text not null default 'max' check (memory_basis in ('max', 'requested', 'used')),
    add column shared_namespace_pattern text;
comment on column core.cost_model.cpu_basis is 'What of a pod''s CPU is billed: max (of request and use), requested or used.';
comment on column core.cost_model.memory_basis is 'The same of its memory.';
comment on column core.cost_model.shared_namespace_pattern is 'Namespaces whose pods serve everybody (line shared, owner cluster); null = none.';

create table core.share_policy (
    cost_model_key smallint not null references core.cost_model,
    line text not null check (line in ('system', 'uncovered', 'shared', 'unmounted', 'overcommit', 'idle')),
    scope text not null check (scope in ('node', 'node_pool', 'cluster')),
    weights text not null check (weights in ('resource', 'cost', 'even', 'shares', 'driver', 'node_pool_owner')),
    shares jsonb not null default '{}',
    driver text,
    primary key (cost_model_key, line),
    check ((weights = 'driver') = (driver is not null))
);
comment on table core.share_policy is 'Which pools of the cluster are passed on to those who run workloads, and how. A pool without a policy stays a line of the cluster.';
comment on column core.share_policy.cost_model_key is 'Which version of which cost model.';
comment on column core.share_policy.line is 'The pool.';
comment on column core.share_policy.scope is 'Among whom: workloads on the same node, on the nodes of the same node pool, in the cluster.';
comment on column core.share_policy.weights is 'resource: each resource''s cost by the direct cost of that resource; cost: by direct cost; even: by owner, equally; shares: fixed; driver: an outside figure per owner; node_pool_owner: all to the owner of the node pool.';
comment on column core.share_policy.shares is 'Fixed weights by owner, or owners by node pool.';
comment on column core.share_policy.driver is 'Name of the driver in core.share_driver.';

create table core.share_driver (
    share_driver_id bigint generated always as identity primary key,
    driver text not null,
    owner text not null,
    weight numeric not null check (weight >= 0),
    during tstzrange not null,
    known tstzrange not null,
    exclude using gist (driver with =, owner with =, during with &&, known with &&)
);
comment on table core.share_driver is 'Outside figures to share costs by (heads, seats, revenue), from include/config/drivers/, bitemporal.';
comment on column core.share_driver.share_driver_id is 'Key.';
comment on column core.share_driver.driver is 'Name of the driver: its file''s name.';
comment on column core.share_driver.owner is 'Whose figure.';
comment on column core.share_driver.weight is 'The figure; only proportions count.';
comment on column core.share_driver.during is 'When it applies.';
comment on column core.share_driver.known is 'Since and until when the configuration said so; what it said first counts for all time before.';

grant insert on core.share_policy to kubetally_publisher;
grant insert, update on core.share_driver to kubetally_publisher;

create function mart.billed(basis text, requested numeric, requested_where_used numeric, used numeric) returns numeric
    language sql immutable parallel safe
    return case basis
        when 'requested' then requested
        when 'used' then requested - requested_where_used + coalesce(used, 0)
        else requested - requested_where_used + greatest(requested_where_used, used)
    end;
comment on function mart.billed(text, numeric, numeric, numeric) is
    'What a pod is billed for in an hour. Where its use is not known its request stands in for it: missing is not zero.';

create function core.node_pool(labels jsonb) returns text
    language sql immutable parallel safe
    return coalesce(
        labels ->> 'cloud.google.com/gke-nodepool',
        labels ->> 'eks.amazonaws.com/nodegroup',
        labels ->> 'alpha.eksctl.io/nodegroup-name',
        labels ->> 'kubernetes.azure.com/agentpool',
        labels ->> 'agentpool',
        labels ->> 'karpenter.sh/nodepool',
        labels ->> 'karpenter.sh/provisioner-name',
        labels ->> 'kops.k8s.io/instancegroup',
        labels ->> 'doks.digitalocean.com/node-pool',
        labels ->> 'hypershift.openshift.io/nodePool',
        labels ->> 'node.kubernetes.io/pool',
        labels ->> 'cloud_google_com_gke_nodepool',
        labels ->> 'eks_amazonaws_com_nodegroup',
        labels ->> 'alpha_eksctl_io_nodegroup_name',
        labels ->> 'kubernetes_azure_com_agentpool',
        labels ->> 'karpenter_sh_nodepool',
        labels ->> 'karpenter_sh_provisioner_name',
        labels ->> 'kops_k8s_io_instancegroup',
        labels ->> 'doks_digitalocean_com_node_pool',
        labels ->> 'hypershift_openshift_io_nodePool',
        labels ->> 'node_kubernetes_io_pool',
        ''
    );
comment on function core.node_pool(jsonb) is
    'The node pool a node says it belongs to by its labels, in their own or in Prometheus'' spelling; empty when it says none.';
