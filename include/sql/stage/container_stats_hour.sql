-- What the readings of each container come to in each hour.
-- Grain: node × pod × container × device × hour.
-- Why differences here and not in the source: readings stay as they were read, so that arriving late, twice
-- or in any order changes nothing.
-- Rules: readings are ordered by their own time. Two of them further apart than 1.5 polling cells say nothing
-- about the time between. A later start or another container id is a new life, which counts from zero at its
-- start; a counter that went down counts what it shows, from the reading before on. The first reading of a
-- container counts from its start where that lies after the node's look before. A gauge holds until the next
-- reading, else for one cell. Pods on the host's network show the node's interfaces: not theirs.
-- Invariant: the parts of an amount in its hours add up to the amount.
with reading as (
    select distinct on (series, interval.sampled_at)
        interval.*,
        series
    from raw.container_stats_interval as interval
    join ops.spoken(
        cast(:cluster_key as smallint),
        'container_stats',
        cast(:start as timestamptz) - interval '2 hours',
        cast(:end as timestamptz) + interval '1 hour'
    ) as spoken using (load_id)
    cross join lateral (
        select row(
            interval.node,
            coalesce(interval.uid, interval.namespace || '/' || interval.pod),
            interval.container,
            interval.device
        )::text as series
    ) as told_apart
    where interval.start_at >= cast(:start as timestamptz) - interval '2 hours'
        and interval.start_at < cast(:end as timestamptz) + interval '1 hour'
        and tstzrange(interval.start_at, interval.end_at) && spoken.span
    order by series, interval.sampled_at, interval.start_at, interval.started_at desc nulls last
),

look as (
    select
        node,
        start_at,
        case
            when start_at - lag(start_at) over by_node <= 1.5 * (min(end_at) - start_at)
                then lag(max(sampled_at)) over by_node
        end as last_look_at
    from reading
    group by node, start_at
    window by_node as (partition by node order by start_at)
),

beside as (
    select
        reading.*,
        1.5 * (reading.end_at - reading.start_at) as hold,
        look.last_look_at,
        lag(reading.sampled_at) over by_series as before_at,
        lead(reading.sampled_at) over by_series as next_at,
        lag(reading.container_id) over by_series as before_id,
        lag(reading.started_at) over by_series as before_started_at,
        lag(reading.syscalls_total) over by_series as before_syscalls_total,
        lag(reading.cpu_seconds_total) over by_series as before_cpu_seconds_total,
        lag(reading.cpu_periods_total) over by_series as before_cpu_periods_total,
        lag(reading.cpu_throttled_periods_total) over by_series as before_cpu_throttled_periods_total,
        lag(reading.cpu_throttled_seconds_total) over by_series as before_cpu_throttled_seconds_total,
        lag(reading.network_receive_bytes_total) over by_series as before_network_receive_bytes_total,
        lag(reading.network_transmit_bytes_total) over by_series as before_network_transmit_bytes_total,
        lag(reading.network_receive_dropped_total) over by_series as before_network_receive_dropped_total,
        lag(reading.network_transmit_dropped_total) over by_series as before_network_transmit_dropped_total,
        lag(reading.oom_events_total) over by_series as before_oom_events_total,
        lag(reading.gpu_energy_joules_total) over by_series as before_gpu_energy_joules_total
    from reading
    join look on look.node is not distinct from reading.node and look.start_at = reading.start_at
    window by_series as (partition by reading.series order by reading.sampled_at)
),

judged as (
    select
        beside.*,
        before_at is not null and sampled_at - before_at <= hold as is_next,
        before_at is not null and sampled_at - before_at <= hold and (
            container_id <> before_id
            -- A start that moves by less than a second is the same one, told with other decimals.
            or started_at - before_started_at >= interval '1 second'
        ) is true as is_new_life
    from beside
),

counted as (
    select
        judged.*,
        case
            when is_new_life then greatest(before_at, least(coalesce(started_at, before_at), sampled_at))
            when is_next then before_at
            when started_at >= last_look_at then started_at
        end as since,
        is_new_life or not is_next as is_from_zero
    from judged
),

amount as (
    select
        counted.*,
        is_new_life
        or (is_next and (
            cpu_seconds_total < before_cpu_seconds_total
            or cpu_periods_total < before_cpu_periods_total
            or cpu_throttled_periods_total < before_cpu_throttled_periods_total
            or cpu_throttled_seconds_total < before_cpu_throttled_seconds_total
            or network_receive_bytes_total < before_network_receive_bytes_total
            or network_transmit_bytes_total < before_network_transmit_bytes_total
            or network_receive_dropped_total < before_network_receive_dropped_total
            or network_transmit_dropped_total < before_network_transmit_dropped_total
            or oom_events_total < before_oom_events_total
            or gpu_energy_joules_total < before_gpu_energy_joules_total
        )) is true as is_reset,
        case
            when is_from_zero then cpu_seconds_total
            when before_cpu_seconds_total is null then null
            when cpu_seconds_total >= before_cpu_seconds_total then cpu_seconds_total - before_cpu_seconds_total
            else cpu_seconds_total
        end as cpu_used_core_seconds,
        case
            when is_from_zero then cpu_periods_total
            when before_cpu_periods_total is null then null
            when cpu_periods_total >= before_cpu_periods_total then cpu_periods_total - before_cpu_periods_total
            else cpu_periods_total
        end as cpu_periods,
        case
            when is_from_zero then cpu_throttled_periods_total
            when before_cpu_throttled_periods_total is null then null
            when cpu_throttled_periods_total >= before_cpu_throttled_periods_total then cpu_throttled_periods_total - before_cpu_throttled_periods_total
            else cpu_throttled_periods_total
        end as cpu_throttled_periods,
        case
            when is_from_zero then cpu_throttled_seconds_total
            when before_cpu_throttled_seconds_total is null then null
            when cpu_throttled_seconds_total >= before_cpu_throttled_seconds_total then cpu_throttled_seconds_total - before_cpu_throttled_seconds_total
            else cpu_throttled_seconds_total
        end as cpu_throttled_seconds,
        case
            when is_from_zero then network_receive_bytes_total
            when before_network_receive_bytes_total is null then null
            when network_receive_bytes_total >= before_network_receive_bytes_total then network_receive_bytes_total - before_network_receive_bytes_total
            else network_receive_bytes_total
        end as network_receive_bytes,
        case
            when is_from_zero then network_transmit_bytes_total
            when before_network_transmit_bytes_total is null then null
            when network_transmit_bytes_total >= before_network_transmit_bytes_total then network_transmit_bytes_total - before_network_transmit_bytes_total
            else network_transmit_bytes_total
        end as network_transmit_bytes,
        case
            when is_from_zero then network_receive_dropped_total
            when before_network_receive_dropped_total is null then null
            when network_receive_dropped_total >= before_network_receive_dropped_total then network_receive_dropped_total - before_network_receive_dropped_total
            else network_receive_dropped_total
        end as network_receive_dropped,
        case
            when is_from_zero then network_transmit_dropped_total
            when before_network_transmit_dropped_total is null then null
            when network_transmit_dropped_total >= before_network_transmit_dropped_total then network_transmit_dropped_total - before_network_transmit_dropped_total
            else network_transmit_dropped_total
        end as network_transmit_dropped,
        case
            when is_from_zero then oom_events_total
            when before_oom_events_total is null then null
            when oom_events_total >= before_oom_events_total then oom_events_total - before_oom_events_total
            else oom_events_total
        end as oom_events,
        case
            when is_from_zero then gpu_energy_joules_total
            when before_gpu_energy_joules_total is null then null
            when gpu_energy_joules_total >= before_gpu_energy_joules_total then gpu_energy_joules_total - before_gpu_energy_joules_total
            else gpu_energy_joules_total
        end as gpu_energy_joules
    from counted
    where since < sampled_at
),

pod_by_name as (
    select distinct on (pod.namespace, pod.pod)
        pod.namespace,
        pod.pod,
        pod.pod_key
    from core.pod_segment
    join core.pod using (pod_key)
    where pod_segment.stage_id = :stage_id
    order by pod.namespace, pod.pod, upper(pod_segment.during) desc, pod.pod_key
),

host_pod as (
    select pod_key
    from core.pod_segment
    where stage_id = :stage_id
    group by pod_key
    having bool_or(host_network)
),

owner as (
    select
        named.series,
        coalesce(by_uid.pod_key, pod_by_name.pod_key) as pod_key,
        host_pod.pod_key is not null as is_on_host_network
    from (select distinct series, uid, namespace, pod from reading) as named
    left join core.pod as by_uid on by_uid.cluster_key = :cluster_key and by_uid.uid = named.uid
    left join pod_by_name on pod_by_name.namespace = named.namespace and pod_by_name.pod = named.pod
    left join host_pod on host_pod.pod_key = coalesce(by_uid.pod_key, pod_by_name.pod_key)
),

hour as (
    select
        started as hour,
        started + interval '1 hour' as hour_end
    from generate_series(
        cast(:start as timestamptz), cast(:end as timestamptz) - interval '1 hour', interval '1 hour'
    ) as started
),

counter_hour as (
    select
        amount.series,
        hour.hour,
        count(*) filter (where is_reset) as resets,
        sum(extract(epoch from part.until - part.since)) as covered_seconds,
        sum(core.amount_between(cpu_used_core_seconds, amount.since, amount.sampled_at, part.since, part.until)) as cpu_used_core_seconds,
        sum(core.amount_between(cpu_periods, amount.since, amount.sampled_at, part.since, part.until)) as cpu_periods,
        sum(core.amount_between(cpu_throttled_periods, amount.since, amount.sampled_at, part.since, part.until)) as cpu_throttled_periods,
        sum(core.amount_between(cpu_throttled_seconds, amount.since, amount.sampled_at, part.since, part.until)) as cpu_throttled_seconds,
        sum(core.amount_between(network_receive_bytes, amount.since, amount.sampled_at, part.since, part.until)) as network_receive_bytes,
        sum(core.amount_between(network_transmit_bytes, amount.since, amount.sampled_at, part.since, part.until)) as network_transmit_bytes,
        sum(core.amount_between(network_receive_dropped, amount.since, amount.sampled_at, part.since, part.until)) as network_receive_dropped,
        sum(core.amount_between(network_transmit_dropped, amount.since, amount.sampled_at, part.since, part.until)) as network_transmit_dropped,
        sum(core.amount_between(oom_events, amount.since, amount.sampled_at, part.since, part.until)) as oom_events,
        sum(core.amount_between(gpu_energy_joules, amount.since, amount.sampled_at, part.since, part.until)) as gpu_energy_joules
    from amount
    join hour on amount.since < hour.hour_end and amount.sampled_at > hour.hour
    cross join lateral (
        select
            greatest(amount.since, hour.hour) as since,
            least(amount.sampled_at, hour.hour_end) as until
    ) as part
    group by amount.series, hour.hour
),

called as (
    select
        amount.series,
        hour.hour,
        call.name,
        sum(core.amount_between(
            case
                when is_from_zero or call.count < coalesce(before.count, 0) then call.count
                else call.count - coalesce(before.count, 0)
            end,
            amount.since,
            amount.sampled_at,
            greatest(amount.since, hour.hour),
            least(amount.sampled_at, hour.hour_end)
        )) as calls
    from amount
    join hour on amount.since < hour.hour_end and amount.sampled_at > hour.hour
    cross join lateral (
        select key as name, value::numeric as count
        from jsonb_each_text(amount.syscalls_total)
    ) as call
    left join lateral (
        select (amount.before_syscalls_total ->> call.name)::numeric as count
    ) as before on true
    where is_from_zero or amount.before_syscalls_total is not null
    group by amount.series, hour.hour, call.name
),

called_hour as (
    select
        series,
        hour,
        sum(calls) as syscalls,
        jsonb_object_agg(name, trim_scale(calls)) as syscalls_by_name
    from called
    group by series, hour
),

gauge_hour as (
    select
        held.series,
        hour.hour,
        sum(part.seconds) as gauge_seconds,
        sum(memory_rss_bytes * part.seconds) as memory_rss_byte_seconds,
        sum(memory_working_set_bytes * part.seconds) as memory_working_set_byte_seconds,
        max(memory_working_set_bytes) as memory_working_set_max_bytes,
        sum(memory_cache_bytes * part.seconds) as memory_cache_byte_seconds,
        coalesce(sum(part.seconds) filter (where memory_limit_bytes is not null), 0) as memory_limited_seconds,
        sum(memory_limit_bytes * part.seconds) as memory_limit_byte_seconds,
        sum(filesystem_used_bytes * part.seconds) as filesystem_used_byte_seconds,
        max(processes) as processes_max,
        sum(gpu_utilisation_percent * part.seconds) / 100 as gpu_busy_seconds,
        sum(gpu_memory_used_bytes * part.seconds) as gpu_memory_used_byte_seconds
    from (
        select
            judged.*,
            case
                when next_at - sampled_at <= hold then next_at
                else sampled_at + (end_at - start_at)
            end as holds_until
        from judged
    ) as held
    join hour on held.sampled_at < hour.hour_end and held.holds_until > hour.hour
    cross join lateral (
        select extract(
            epoch from least(held.holds_until, hour.hour_end) - greatest(held.sampled_at, hour.hour)
        ) as seconds
    ) as part
    group by held.series, hour.hour
),

identity as (
    select distinct on (series)
        series,
        namespace,
        pod,
        container,
        device,
        node,
        gpu_model,
        gpu_profile
    from reading
    order by series, sampled_at desc
)

insert into core.container_stats_hour (
    stage_id, cluster_key, hour, pod_key, namespace, pod, container, device, node, resets, covered_seconds,
    cpu_used_core_seconds, cpu_periods, cpu_throttled_periods, cpu_throttled_seconds,
    network_receive_bytes, network_transmit_bytes, network_receive_dropped, network_transmit_dropped,
    oom_events, syscalls, syscalls_by_name, gauge_seconds, memory_rss_byte_seconds,
    memory_working_set_byte_seconds, memory_working_set_max_bytes, memory_cache_byte_seconds,
    memory_limited_seconds, memory_limit_byte_seconds, filesystem_used_byte_seconds, processes_max,
    gpu_model, gpu_profile, gpu_busy_seconds, gpu_memory_used_byte_seconds, gpu_energy_joules
)
select
    :stage_id,
    :cluster_key,
    hour,
    owner.pod_key,
    identity.namespace,
    identity.pod,
    coalesce(identity.container, ''),
    coalesce(identity.device, ''),
    identity.node,
    coalesce(counter_hour.resets, 0),
    coalesce(counter_hour.covered_seconds, 0),
    counter_hour.cpu_used_core_seconds,
    counter_hour.cpu_periods,
    counter_hour.cpu_throttled_periods,
    counter_hour.cpu_throttled_seconds,
    case when not owner.is_on_host_network then counter_hour.network_receive_bytes end,
    case when not owner.is_on_host_network then counter_hour.network_transmit_bytes end,
    case when not owner.is_on_host_network then counter_hour.network_receive_dropped end,
    case when not owner.is_on_host_network then counter_hour.network_transmit_dropped end,
    counter_hour.oom_events,
    called_hour.syscalls,
    called_hour.syscalls_by_name,
    coalesce(gauge_hour.gauge_seconds, 0),
    gauge_hour.memory_rss_byte_seconds,
    gauge_hour.memory_working_set_byte_seconds,
    gauge_hour.memory_working_set_max_bytes,
    gauge_hour.memory_cache_byte_seconds,
    coalesce(gauge_hour.memory_limited_seconds, 0),
    gauge_hour.memory_limit_byte_seconds,
    gauge_hour.filesystem_used_byte_seconds,
    gauge_hour.processes_max,
    identity.gpu_model,
    identity.gpu_profile,
    gauge_hour.gpu_busy_seconds,
    gauge_hour.gpu_memory_used_byte_seconds,
    counter_hour.gpu_energy_joules
from counter_hour
full join gauge_hour using (series, hour)
left join called_hour using (series, hour)
join identity using (series)
join owner using (series)
