-- Who may read the views. bi_reader may read nothing else.
grant select on all tables in schema bi to bi_reader, kubetally_quality, kubetally_publisher;
