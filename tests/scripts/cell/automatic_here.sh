#!/usr/bin/env bash
# An application in the shared database claims in its own transactions, and later moves to a database of its own. Nobody gets one of its
# names meanwhile, and after it only by its deletes.
. "$(dirname "$0")/../cells.bash"

start_cells -c shared_preload_libraries=claims
declare="SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id')"
at shared "CREATE ROLE app LOGIN; CREATE TABLE routes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE);
  GRANT SELECT, INSERT, UPDATE, DELETE ON routes TO app; $declare; SELECT claims.automatic_here(1)" >/dev/null
at cell1 'DROP TABLE routes' >/dev/null
state_of_app() { ( use_cluster shared; export PGUSER=app; sqlstate "$1" ) }
names() { at shared "SELECT string_agg(bucket_value, ' ' ORDER BY bucket_value) FROM claims.claims WHERE creator_id = $1 AND status = 1"; }

say 'one database'
expect 'saves' "$(state_of_app "INSERT INTO routes (name) SELECT 'name/' || n FROM generate_series(1, 100) n")" 00000
as_cell 2 "SELECT claims.commit_update(2, claims.begin_update(2, '[{\"bucket\": {\"type\": \"ROUTES\", \"value\": \"theirs\"},
  \"subject\": {\"type\": \"GROUP\", \"id\": 1}, \"source\": {\"type\": \"RAILS_TABLE_ROUTES\", \"rails_primary_key_id\": 1}}]'))" >/dev/null
expect 'a name of another cell' "$(state_of_app "INSERT INTO routes (name) VALUES ('theirs')")" 23505

say 'metrics: a save counts as a begin and a commit of the cell, once it is committed'
counted() {
  at shared "SELECT concat_ws(' ', sum(value) FILTER (WHERE name = 'claims_begins_total'), sum(value) FILTER (WHERE name = 'claims_commits_total'),
      sum(value) FILTER (WHERE name = 'claims_begin_duration_seconds_count'), sum(value) FILTER (WHERE name = 'claims_conflicts_total'))
    FROM claims.metrics() WHERE labels ->> 'cell' = '1'"
}
expect 'a save and a refused one' "$(counted)" '1 1 2 1'
state_of_app "BEGIN; INSERT INTO routes (name) VALUES ('undone'); SET CONSTRAINTS ALL IMMEDIATE; SAVEPOINT a; INSERT INTO routes (name) VALUES ('undone too'); ROLLBACK" >/dev/null
state_of_app "BEGIN; SAVEPOINT a; INSERT INTO routes (name) VALUES ('undone'); SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK TO a; COMMIT" >/dev/null
expect 'none that was rolled back' "$(counted | cut -d' ' -f 1,2,4)" '1 1 1'

say 'a crash in the middle of saves leaves claims of committed rows only'
open saver shared app
tell saver "BEGIN; INSERT INTO routes (name) VALUES ('lost'); SET CONSTRAINTS ALL IMMEDIATE" >/dev/null
crash shared; close saver; resume shared
expect 'rows and claims' "$(at shared "SELECT count(*), (SELECT count(*) FROM claims.claims WHERE creator_id = 1), (SELECT count(*) FROM claims.claim_leases)
  FROM routes")" '100|100|0'

say 'dump and restore keep the mode'
at shared 'CREATE DATABASE restored' >/dev/null
( use_cluster shared; "$CLAIMS_BINDIR/pg_dump" postgres | PGDATABASE=restored "$CLAIMS_BINDIR/psql" -Xq -v ON_ERROR_STOP=1 ) >/dev/null
restored() { ( use_cluster shared; PGDATABASE=restored sql "$1" ) }
restored "INSERT INTO routes (name) VALUES ('after')" >/dev/null
expect 'a save' "$(restored "SELECT cell_id, service IS NULL, (SELECT count(*) FROM claims.claims WHERE bucket_value = 'after' AND status = 1)
  FROM claims.automatic_service")" '1|t|1'
at shared 'DROP DATABASE restored' >/dev/null

say 'the way to two databases, while another cell tries to get the names'
touch "$CLAIMS_TMP/trying"
tries() {
  local got=0 rounds=0
  while :; do
    # The claims are tried together, so one that is free is enough to see it: it is no conflict.
    got=$((got + $(as_cell 2 "SELECT 100 - coalesce(jsonb_array_length(conflicts), 0) FROM claims.try_begin_update(2, (SELECT jsonb_agg(jsonb_build_object(
      'bucket', jsonb_build_object('type', 'ROUTES', 'value', 'name/' || n), 'subject', '{\"type\": \"GROUP\", \"id\": 1}'::jsonb,
      'source', '{\"type\": \"RAILS_TABLE_ROUTES\", \"rails_primary_key_id\": 1}'::jsonb)) FROM generate_series(1, 100) n))")))
    rounds=$((rounds + 1))
    [ -e "$CLAIMS_TMP/trying" ] || break
  done
  echo "$rounds $got"
}
tries >"$CLAIMS_TMP/tried" & tried=$!
# 1. No more writes. LOCK waits for the transactions that write.
at shared 'BEGIN; REVOKE INSERT, UPDATE, DELETE ON routes FROM app; LOCK routes IN SHARE MODE; COMMIT' >/dev/null
# 2. The table and its rows, without the triggers of claims, which declaring it makes again.
( use_cluster shared; "$CLAIMS_BINDIR/pg_dump" --table=routes postgres | grep -vE '^CREATE TRIGGER claims_' ) >"$CLAIMS_TMP/routes.sql"
( use_cluster cell1; "$CLAIMS_BINDIR/psql" -Xq -v ON_ERROR_STOP=1 -f "$CLAIMS_TMP/routes.sql" ) >/dev/null
# 3. The same declarations, now with the service.
at cell1 "GRANT SELECT, INSERT, UPDATE, DELETE ON routes TO app; $declare" >/dev/null
as_app 1 "SELECT claims.automatic(1, 'service')" >/dev/null
expect 'everything is in order before the first save' "$(as_app 1 "SELECT missing, different, extra FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', recent => '0 s')")" '0|0|0'
# 4. The application connects to its own database; the old table goes, and its claims stay.
expect 'a save' "$(state_as_app 1 "INSERT INTO routes (name) VALUES ('new')")" 00000
at shared 'SELECT claims.automatic(NULL, NULL); DROP TABLE routes' >/dev/null
rm "$CLAIMS_TMP/trying"; wait $tried
expect 'no name was free' "$(awk '{ print ($1 > 0), $2 }' "$CLAIMS_TMP/tried")" '1 0'
reconcile 1 >/dev/null
expect 'all names are those of the cell' "$(at shared 'SELECT count(*) FROM claims.claims WHERE creator_id = 1 AND status = 1')" 101
expect 'a rename' "$(state_as_app 1 "UPDATE routes SET name = 'renamed' WHERE name = 'name/1'")" 00000
expect 'a taken name' "$(state_as_app 1 "INSERT INTO routes (name) VALUES ('theirs')")" 23505
expect 'a delete' "$(state_as_app 1 "DELETE FROM routes WHERE name LIKE 'name/%'")" 00000
reconcile 1 >/dev/null
expect 'and what is left' "$(names 1)" 'new renamed'
expect 'everything is in order' "$(as_app 1 "SELECT missing, different, extra FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', recent => '0 s')") $(at shared 'SELECT count(*) FROM claims.check()')" '0|0|0 0'
