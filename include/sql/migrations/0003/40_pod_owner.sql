-- Who pays for each pod in each hour: the first rule that matches.
create function mart.pod_owner(
    of_stage bigint, of_cluster smallint, from_hour timestamptz, to_hour timestamptz
) returns table (hour timestamptz, pod_key bigint, namespace text, owner text)
    language sql stable parallel safe
begin atomic
    with valid_rule as (
        select
            stage_hour.hour,
            array_agg(rule.owner_rule_id order by rule.position, rule.owner_rule_id) as rule_ids
        from ops.stage_hour
        cross join core.cluster
        left join core.owner_rule as rule
            on rule.during @> stage_hour.hour
            and rule.known @> stage_hour.as_of
            and cluster.cluster ~ rule.cluster_pattern
        where stage_hour.stage_id = of_stage
            and stage_hour.hour >= from_hour
            and stage_hour.hour < to_hour
            and cluster.cluster_key = of_cluster
        group by stage_hour.hour
    ),

    pod_label as (
        select distinct on (pod_segment.pod_key, stage_hour.hour)
            pod_segment.pod_key,
            stage_hour.hour,
            pod_segment.labels
        from core.pod_segment
        join ops.stage_hour
            on stage_hour.stage_id = pod_segment.stage_id
            and pod_segment.during && tstzrange(stage_hour.hour, stage_hour.hour + interval '1 hour')
        where pod_segment.stage_id = of_stage and stage_hour.hour >= from_hour and stage_hour.hour < to_hour
        order by pod_segment.pod_key, stage_hour.hour, upper(pod_segment.during) desc
    ),

    namespace_label as (
        select distinct on (segment.namespace, stage_hour.hour)
            segment.namespace,
            stage_hour.hour,
            segment.labels
        from core.namespace_segment as segment
        join ops.stage_hour
            on stage_hour.stage_id = segment.stage_id
            and date_trunc('day', stage_hour.hour, 'UTC') = date_trunc('day', lower(segment.during), 'UTC')
        cross join lateral (
            select extract(epoch from stage_hour.hour + interval '1 hour' - lower(segment.during)) as seconds
        ) as before_end
        where segment.stage_id = of_stage and stage_hour.hour >= from_hour and stage_hour.hour < to_hour
        order by segment.namespace, stage_hour.hour, before_end.seconds > 0 desc, abs(before_end.seconds)
    ),

    held as (
        select
            pod_hour.hour,
            pod_hour.pod_key,
            pod.namespace,
            valid_rule.rule_ids,
            coalesce(pod_label.labels, '{}') as pod_labels,
            coalesce(namespace_label.labels, '{}') as namespace_labels
        from core.pod_hour
        join core.pod using (pod_key)
        join valid_rule using (hour)
        left join pod_label using (pod_key, hour)
        left join namespace_label using (namespace, hour)
        where pod_hour.stage_id = of_stage and pod_hour.hour >= from_hour and pod_hour.hour < to_hour
    ),

    owned as materialized (
        select
            kind.*,
            coalesce(chosen.owner, 'unowned') as owner
        from (select distinct namespace, rule_ids, pod_labels, namespace_labels from held) as kind
        left join lateral (
            select coalesce(nullif(rule.owner, ''), label.value) as owner
            from core.owner_rule as rule
            cross join lateral (
                select coalesce(
                    source.labels ->> rule.label_key,
                    source.labels ->> regexp_replace(rule.label_key, '[^a-zA-Z0-9_]', '_', 'g')
                ) as value
                from (
                    select case rule.label_of
                        when 'pod' then kind.pod_labels
                        when 'namespace' then kind.namespace_labels
                    end as labels
                ) as source
            ) as label
            where rule.owner_rule_id = any(kind.rule_ids)
                and kind.namespace ~ rule.namespace_pattern
                and (rule.label_of = '' or (label.value <> '' and label.value ~ rule.label_pattern))
            order by rule.position, rule.owner_rule_id
            limit 1
        ) as chosen on true
    )

    select
        held.hour,
        held.pod_key,
        held.namespace,
        owned.owner
    from held
    join owned using (namespace, rule_ids, pod_labels, namespace_labels);
end;
comment on function mart.pod_owner(bigint, smallint, timestamptz, timestamptz) is
    'The owner of every staged pod-hour by the rules valid in that hour, as they were known to the stage; "unowned" where none matches, "excluded" for namespaces left out of reports.';
