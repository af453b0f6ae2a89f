-- The hash of every staged hour: SHA-256 over its cost rows in a fixed order, names instead of keys,
-- without ids that differ from run to run.
-- Grain: one row per hour of the stage, also for hours without a cost row.
select
    stage_hour.hour,
    stage_hour.revision,
    stage_hour.as_of,
    count(line.hour) as row_count,
    encode(sha256(convert_to(coalesce(string_agg(line.content, E'\n' order by line.content collate "C"), ''), 'UTF8')), 'hex')
    as content_sha256
from ops.stage_hour
left join (
    select
        cost_hour.hour,
        concat_ws(
            '|',
            cost_model.cost_model,
            cost_model.version,
            cost_hour.line,
            coalesce(node.uid, ''),
            coalesce(pod.uid, ''),
            coalesce(pod.namespace, ''),
            cost_hour.owner,
            trim_scale(cost_hour.cpu_core_seconds),
            trim_scale(cost_hour.memory_byte_seconds),
            trim_scale(cost_hour.gpu_seconds),
            trim_scale(cost_hour.storage_byte_seconds),
            trim_scale(cost_hour.network_bytes),
            trim_scale(cost_hour.load_balancer_seconds),
            coalesce(cost_hour.cpu_cost::text, 'unpriced'),
            coalesce(cost_hour.memory_cost::text, 'unpriced'),
            coalesce(cost_hour.gpu_cost::text, 'unpriced'),
            coalesce(cost_hour.storage_cost::text, 'unpriced'),
            coalesce(cost_hour.network_cost::text, 'unpriced'),
            coalesce(cost_hour.load_balancer_cost::text, 'unpriced'),
            coalesce(cost_hour.other_cost::text, 'unpriced'),
            coalesce(cost_hour.currency, ''),
            case when cost_hour.is_distribution then 'distribution' end,
            'pool=' || cost_hour.pool,
            'namespace=' || cost_hour.namespace
        ) as content
    from mart.cost_hour
    join core.cost_model using (cost_model_key)
    left join core.node using (node_key)
    left join core.pod using (pod_key)
    where cost_hour.stage_id = :stage_id
        and cost_hour.hour >= :start
        and cost_hour.hour < :end
) as line using (hour)
where stage_hour.stage_id = :stage_id
group by stage_hour.hour, stage_hour.revision, stage_hour.as_of
order by stage_hour.hour
