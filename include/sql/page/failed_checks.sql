-- The latest verdicts that did not pass, newest first: why nothing new is published.
select
    cluster,
    start_at,
    end_at,
    gate,
    check_name,
    severity,
    expected,
    observed,
    offending_count
from bi.checks
where not passed
order by
    checked_at desc,
    check_name
limit 20
