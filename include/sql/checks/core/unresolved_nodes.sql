-- A pod on a node that nobody described has no price to share: it stays unpriced. It may also be a node whose
-- name came back on another machine.
-- severity: warning
-- expects: every pod-hour sits on a node that offers something in that hour
select
    node.node,
    pod.namespace,
    pod.pod,
    min(pod_hour.hour) as first_hour,
    count(*) as hours
from core.pod_hour
join core.pod using (pod_key)
left join core.node using (node_key)
left join core.node_hour
    on node_hour.stage_id = pod_hour.stage_id
    and node_hour.hour = pod_hour.hour
    and node_hour.node_key = pod_hour.node_key
where pod_hour.stage_id = :stage_id
    and pod_hour.hour >= :start
    and pod_hour.hour < :end
    and node_hour.node_key is null
group by node.node, pod.namespace, pod.pod
order by count(*) desc, node.node, pod.namespace, pod.pod
