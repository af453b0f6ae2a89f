-- Who may what. The roles exist already (kubetally.warehouse.migrate makes them); the owner owns.
revoke all on schema public from public;

grant usage on schema raw, core, mart, ops to kubetally_loader, kubetally_publisher, kubetally_quality;
grant select on all tables in schema raw, core, mart, ops to kubetally_loader, kubetally_publisher, kubetally_quality;
alter default privileges in schema raw, core, mart, ops grant select on tables to kubetally_loader, kubetally_publisher, kubetally_quality;

-- The loader lands what sources say and keeps the price book.
grant insert, delete on raw.pod_interval, raw.node_interval, raw.usage_interval, raw.namespace_interval, raw.volume_interval to kubetally_loader;
grant insert on core.cluster to kubetally_loader, kubetally_publisher;
grant insert, update on ops.load, ops.gap to kubetally_loader;
grant insert, delete on ops.reject to kubetally_loader;
grant insert on core.price_snapshot, core.price, core.price_lookup to kubetally_loader;
grant update on core.price, core.price_lookup to kubetally_loader;

-- The publisher stages and publishes.
grant insert, update on core.node, core.pod, core.owner_rule, core.cost_model to kubetally_publisher;
grant insert on core.price_snapshot to kubetally_publisher;
grant insert, delete on core.node_segment, core.node_price, core.namespace_segment, core.pod_segment, core.pod_hour, core.node_hour, core.container_hour to kubetally_publisher;
grant insert, delete on mart.cost_hour, mart.cost_day to kubetally_publisher;
grant insert, update on ops.stage to kubetally_publisher;
grant insert on ops.stage_hour, ops.publication, ops.check_result to kubetally_publisher;
grant insert, update, delete on ops.published_hour to kubetally_publisher;

-- The gates read everything and write their verdicts.
grant insert on ops.check_result to kubetally_quality;

revoke all on function ops.ensure_partitions(regclass, date, date) from public;
grant execute on function ops.ensure_partitions(regclass, date, date) to kubetally_loader, kubetally_publisher;
grant usage on schema bi to bi_reader, kubetally_quality, kubetally_publisher;
