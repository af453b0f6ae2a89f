-- Namespaces that are left out of reports: their cost stays, their names do not show.
create function core.is_excluded(of_cluster smallint, of_namespace text) returns boolean
    language sql stable parallel safe security definer set search_path = pg_catalog
    return exists (
        select
        from core.owner_rule
        join core.cluster on cluster.cluster ~ owner_rule.cluster_pattern
        where owner_rule.owner = 'excluded'
            and upper_inf(owner_rule.known)
            and cluster.cluster_key = of_cluster
            and of_namespace ~ owner_rule.namespace_pattern
    );
comment on function core.is_excluded(smallint, text) is
    'Whether the configuration as it is now leaves the namespace out of the cluster''s reports.';

create view core.shown_pod as
select
    pod.pod_key,
    pod.cluster_key,
    pod.uid,
    case when not hidden.is_hidden then pod.namespace end as namespace,
    case when not hidden.is_hidden then pod.pod end as pod,
    case when not hidden.is_hidden then pod.workload_kind end as workload_kind,
    case when not hidden.is_hidden then pod.workload_name end as workload_name
from core.pod
cross join lateral (select core.is_excluded(pod.cluster_key, pod.namespace) as is_hidden) as hidden;
comment on view core.shown_pod is 'Pods as reports show them: without names where their namespace is excluded.';
comment on column core.shown_pod.pod_key is 'Key.';
comment on column core.shown_pod.cluster_key is 'Which cluster.';
comment on column core.shown_pod.uid is 'Kubernetes uid, or a synthetic one.';
comment on column core.shown_pod.namespace is 'Namespace; null = excluded.';
comment on column core.shown_pod.pod is 'Name; null = excluded.';
comment on column core.shown_pod.workload_kind is 'Kind of the top owner.';
comment on column core.shown_pod.workload_name is 'Name of the top owner.';
