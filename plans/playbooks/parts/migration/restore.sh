#!/bin/sh
# restore.sh DUMP DATABASE: DATABASE becomes what DUMP (of pg_dump -Fc) holds. It need not exist.
# The dump is restored beside it and takes the name in one transaction: the name always leads to the old state or to the
# restored one, as a whole. It can be called again after an interruption. Sessions in DATABASE are ended.
set -eu
export PGOPTIONS="${PGOPTIONS:-} -c client_min_messages=warning"
dump=$1 database=$2 new=$2.restored old=$2.replaced
sql() { psql -XAtqw -v ON_ERROR_STOP=1 -v database="$database" -v new="$new" -v old="$old" -d postgres > /dev/null; }

# What the dump says of the database itself: encoding, owner, comment, settings, rights.
pg_restore --create -l "$dump" | grep -E '^[0-9]+; [0-9]+ [0-9]+ ((ACL|COMMENT|SECURITY LABEL) - )?DATABASE ' > "$dump.list"
pg_restore --create -L "$dump.list" -f - "$dump" | grep -Ev '^\\(connect|restrict|unrestrict)' > "$dump.sql"

dropdb -w --if-exists --force "$new"
sed -n 's/^CREATE DATABASE .* WITH TEMPLATE/CREATE DATABASE :"new" WITH TEMPLATE/p' "$dump.sql" | sql
pg_restore -w --exit-on-error -d "$new" "$dump"

dropdb -w --if-exists --force "$old"
{
  cat <<'SQL'
SELECT format('ALTER DATABASE %I ALLOW_CONNECTIONS false', datname) FROM pg_database WHERE datname = :'database' \gexec
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :'database';
BEGIN;
SELECT format('ALTER DATABASE %I RENAME TO %I', datname, :'old') FROM pg_database WHERE datname = :'database' \gexec
ALTER DATABASE :"new" RENAME TO :"database";
SQL
  if pg_restore -l "$dump" | grep -qxF ";     dbname: $database"; then grep -v '^CREATE DATABASE' "$dump.sql"; fi
  echo 'COMMIT;'
} | sql
dropdb -w --if-exists --force "$old"
rm "$dump.list" "$dump.sql"
