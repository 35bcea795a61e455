-- The rows of each table, as `schema.table|rows`.
SELECT format('SELECT %L, count(*) FROM %I.%I', schemaname || '.' || tablename, schemaname, tablename) FROM pg_tables
WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY (schemaname || '.' || tablename) COLLATE "C" \gexec
