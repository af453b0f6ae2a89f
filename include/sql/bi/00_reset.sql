-- Takes every view of this schema away; the files after this one make the current ones.
-- Why: `create or replace view` can neither rename nor remove a column. All of it happens in the one
-- transaction of the migration, so no reader meets a half-made schema.
do $$
declare
    view_name text;
begin
    for view_name in
        select relname
        from pg_class
        where relnamespace = 'bi'::regnamespace and relkind = 'v'
        order by relname
    loop
        execute format('drop view if exists bi.%I cascade', view_name);
    end loop;
end
$$;
