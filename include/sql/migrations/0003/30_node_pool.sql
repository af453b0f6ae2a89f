-- What each node costs in each hour, cut into CPU, memory and GPU: what every model starts from.
create function mart.node_pool(
    of_stage bigint, of_cost_model text, from_hour timestamptz, to_hour timestamptz
) returns table (
    hour timestamptz,
    node_key bigint,
    cost_model_key smallint,
    revision integer,
    currency text,
    snapshot_ids bigint[],
    cost numeric,
    cpu_pool numeric,
    memory_pool numeric,
    gpu_pool numeric,
    cpu_uncovered numeric,
    memory_uncovered numeric,
    gpu_uncovered numeric
)
    language sql stable parallel safe
begin atomic
    with model as (
        select
            stage_hour.hour,
            stage_hour.revision,
            cost_model.cost_model_key,
            cost_model.cpu_weight,
            cost_model.memory_weight,
            cost_model.gpu_weight
        from ops.stage_hour
        join core.cost_model
            on cost_model.during @> stage_hour.hour and cost_model.known @> stage_hour.as_of
        where stage_hour.stage_id = of_stage
            and stage_hour.hour >= from_hour
            and stage_hour.hour < to_hour
            and cost_model.cost_model = of_cost_model
    ),

    node as (
        select
            node_hour.*,
            model.cost_model_key,
            model.revision,
            price.currency,
            price.snapshot_ids,
            mart.node_cost(price.price_per_hour, node_hour.seconds) as cost,
            case
                when parts.are_known then price.cpu_price_per_hour
                else model.cpu_weight * node_hour.cpu_capacity_core_seconds * 1073741824
            end as cpu_weight,
            case
                when parts.are_known then price.memory_price_per_hour
                else model.memory_weight * node_hour.memory_capacity_byte_seconds
            end as memory_weight,
            case
                when parts.are_known then price.gpu_price_per_hour
                else model.gpu_weight * node_hour.gpu_capacity_gpu_seconds * 1073741824
            end as gpu_weight
        from core.node_hour
        join model using (hour)
        left join core.node_price as price
            on price.stage_id = node_hour.stage_id
            and price.node_key = node_hour.node_key
            and price.during @> node_hour.hour
            and not node_hour.is_virtual
        cross join lateral (
            select (
                price.cpu_price_per_hour is not null
                and price.memory_price_per_hour is not null
                and price.gpu_price_per_hour is not null
            ) as are_known
        ) as parts
        where node_hour.stage_id = of_stage and node_hour.hour >= from_hour and node_hour.hour < to_hour
    ),

    cut as (
        select
            node.*,
            weight.total,
            div(node.cost * 1000000000000000000 * node.cpu_weight, nullif(weight.total, 0)) as cpu_units,
            div(node.cost * 1000000000000000000 * node.gpu_weight, nullif(weight.total, 0)) as gpu_units,
            div(node.cost * 1000000000000000000 * node.memory_weight, nullif(weight.total, 0)) as memory_units,
            mod(node.cost * 1000000000000000000 * node.cpu_weight, nullif(weight.total, 0)) as cpu_rest,
            mod(node.cost * 1000000000000000000 * node.gpu_weight, nullif(weight.total, 0)) as gpu_rest,
            mod(node.cost * 1000000000000000000 * node.memory_weight, nullif(weight.total, 0)) as memory_rest
        from node
        cross join lateral (
            select node.cpu_weight + node.memory_weight + node.gpu_weight as total
        ) as weight
    ),

    pool as (
        select
            cut.*,
            case
                when cut.total = 0 then cut.cost
                else (
                    cut.cpu_units + (
                        given.units_left > (cut.gpu_rest > cut.cpu_rest)::integer
                        + (cut.memory_rest > cut.cpu_rest)::integer
                    )::integer
                ) * 0.000000000000000001
            end as cpu_pool,
            case
                when cut.total = 0 then 0
                else (
                    cut.gpu_units + (
                        given.units_left > (cut.cpu_rest >= cut.gpu_rest)::integer
                        + (cut.memory_rest > cut.gpu_rest)::integer
                    )::integer
                ) * 0.000000000000000001
            end as gpu_pool,
            case
                when cut.total = 0 then 0
                else (
                    cut.memory_units + (
                        given.units_left > (cut.cpu_rest >= cut.memory_rest)::integer
                        + (cut.gpu_rest >= cut.memory_rest)::integer
                    )::integer
                ) * 0.000000000000000001
            end as memory_pool
        from cut
        cross join lateral (
            select
                cut.cost * 1000000000000000000 - cut.cpu_units - cut.gpu_units - cut.memory_units as units_left
        ) as given
    )

    select
        hour,
        node_key,
        cost_model_key,
        revision,
        currency,
        snapshot_ids,
        cost,
        cpu_pool,
        memory_pool,
        gpu_pool,
        mart.share(cpu_pool, seconds - covered_seconds, seconds),
        mart.share(memory_pool, seconds - covered_seconds, seconds),
        mart.share(gpu_pool, seconds - covered_seconds, seconds)
    from pool;
end;
comment on function mart.node_pool(bigint, text, timestamptz, timestamptz) is
    'What each staged node costs in each hour (null = unpriced) and how a model cuts that into CPU, memory and GPU, exactly: by component prices where the provider has them, else by the model''s base prices, by largest remainder, ties by name. *_uncovered is what falls into seconds whose pods are not known, truncated. Virtual nodes cost nothing of their own.';
