-- Sharing across clusters: a question asked of what is published, not part of it.

create view bi.pod_label_hour as
select
    cluster.cluster,
    published.hour,
    pod.uid as pod_uid,
    coalesce(last_segment.labels, '{}') as labels
from ops.published_hour as published
join core.cluster on cluster.cluster_key = published.cluster_key
join core.pod_hour
    on pod_hour.stage_id = published.stage_id and pod_hour.hour = published.hour
join core.pod using (pod_key)
left join lateral (
    select pod_segment.labels
    from core.pod_segment
    where pod_segment.stage_id = published.stage_id
        and pod_segment.pod_key = pod_hour.pod_key
        and pod_segment.during && tstzrange(published.hour, published.hour + interval '1 hour')
    order by upper(pod_segment.during) desc
    limit 1
) as last_segment on true;

comment on view bi.pod_label_hour is 'The labels of each pod in each hour, for costs by any label: join bi.cost_hour on cluster, hour and pod_uid.';
comment on column bi.pod_label_hour.cluster is 'Cluster, as named in include/config/clusters.yaml.';
comment on column bi.pod_label_hour.hour is 'Start of the hour, UTC.';
comment on column bi.pod_label_hour.pod_uid is 'Kubernetes uid of the pod, or a synthetic one.';
comment on column bi.pod_label_hour.labels is 'Its labels, as they were last in the hour; labels ->> ''team'' is one of them.';

create function bi.share_across_clusters(
    of_cost_model text,
    from_hour timestamptz,
    to_hour timestamptz,
    shared_namespaces text[] default '{}',
    shared_labels jsonb default null,
    how text default 'weighted',
    overhead numeric default 0
)
returns table (namespace text, line text, is_shared boolean, cost numeric)
    language sql stable parallel safe
begin atomic
    with cost as (
        select
            cost_hour.namespace,
            cost_hour.line,
            cost_hour.is_distribution,
            coalesce(
                cost_hour.namespace = any(shared_namespaces)
                or (shared_labels is not null and pod_label_hour.labels @> shared_labels),
                false
            ) as is_shared,
            sum(cost_hour.cost) as cost
        from bi.cost_hour
        left join bi.pod_label_hour
            on shared_labels is not null
            and pod_label_hour.cluster = cost_hour.cluster
            and pod_label_hour.hour = cost_hour.hour
            and pod_label_hour.pod_uid = cost_hour.pod_uid
        where cost_hour.cost_model = of_cost_model
            and cost_hour.hour >= from_hour
            and cost_hour.hour < to_hour
            and cost_hour.cost is not null
        group by 1, 2, 3, 4
    ),

    own as (
        select
            cost.namespace,
            case
                when how = 'even' then 1
                else sum(cost.cost) filter (where cost.line = 'workload' and not cost.is_shared)
            end as weight
        from cost
        where cost.namespace is not null and not cost.namespace = any(shared_namespaces)
        group by cost.namespace
    ),

    pool as (
        select
            cost.line,
            sum(cost.cost) as cost
        from cost
        where cost.is_shared
        group by cost.line
        union all
        select
            'shared',
            overhead
        where overhead <> 0
    ),

    whole as (
        select
            pool.line,
            sum(pool.cost) as cost
        from pool
        group by pool.line
    ),

    cut as (
        select
            own.namespace,
            whole.line,
            whole.cost,
            div(abs(whole.cost) * 1000000000000000000 * own.weight, total.weight) as units,
            mod(abs(whole.cost) * 1000000000000000000 * own.weight, total.weight) as rest
        from own
        cross join whole
        cross join (select sum(weight) as weight from own) as total
        where own.weight > 0
    )

    select
        cost.namespace,
        cost.line,
        false,
        sum(cost.cost)
    from cost
    where not cost.is_shared or not exists (select from cut)
    group by cost.namespace, cost.line
    union all
    select
        cut.namespace,
        cut.line,
        true,
        (
            cut.units + (
                row_number() over (partition by cut.line order by cut.rest desc, cut.namespace collate "C")
                <= abs(cut.cost) * 1000000000000000000 - sum(cut.units) over (partition by cut.line)
            )::integer
        ) * sign(cut.cost) * 0.000000000000000001
    from cut;
end;
comment on function bi.share_across_clusters(text, timestamptz, timestamptz, text[], jsonb, text, numeric) is
    'Costs by namespace over all clusters, after the costs of shared namespaces, or of pods that carry the shared labels, and an overhead were shared among the others: by direct workload cost (weighted) or equally (even). Whatever was passed to the shared ones (idle, system) is passed on with them, so a part of the answer is that part of the whole. Lines without a namespace stay apart. Nothing is lost or made: cut by largest remainder, ties by name.';
