#!/usr/bin/env bash
# import_claims() beside writers, with rows that are being renamed and deleted, and with crashes of the cell and of the service.
# test: long
. "$(dirname "$0")/../imports.bash"

ROWS=6000
start_cells -c max_prepared_transactions=5
at cell1 "INSERT INTO routes (name) SELECT 'old/' || n FROM generate_series(1, $ROWS) n; ANALYZE routes;
  ALTER TABLE routes ADD seen int; ALTER ROLE app SET client_min_messages = warning;
  SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id')" >/dev/null
as_app 1 "SELECT claims.automatic(1, 'service')" >/dev/null

say 'rows that another transaction is changing'
# Each session has one row, and ends while the import waits for it.
open renames cell1; open forgets cell1; open deletes cell1; open sees cell1; open importer cell1
tell renames "BEGIN; UPDATE routes SET name = 'new/1' WHERE id = 1" >/dev/null
tell forgets "BEGIN; UPDATE routes SET name = 'new/2' WHERE id = 2" >/dev/null
tell deletes "BEGIN; DELETE FROM routes WHERE id = 3" >/dev/null
tell sees "BEGIN; UPDATE routes SET seen = 1 WHERE id = 4" >/dev/null
send importer "$import)"
expect 'the others are imported meanwhile' "$(wait_for $((ROWS - 4)) at shared 'SELECT count(*) FROM claims.claims WHERE creator_id = 1')" $((ROWS - 4))
expect 'and it goes on' "$(state)" running
expect 'one at a time for a source type' "$(state_as_app 1 "$import)")" 55P03
# In a subshell where the answer of another session is still to come.
( tell renames COMMIT; tell forgets ROLLBACK; tell deletes COMMIT; tell sees COMMIT ) >/dev/null
expect 'it ends when they have ended' "$(answer importer)" ''
expect 'finished' "$(state) $(at cell1 'SELECT rows_done, collisions FROM claims.imports')" "finished $((ROWS - 1))|0"
expect 'a rename, a rollback, a delete and an update' "$(as_cell 1 "SELECT string_agg(bucket_value || ' ' || source_id, ', ' ORDER BY bucket_value)
  FROM claims.list_records(1) WHERE source_id IN ('1', '2', '3', '4')")" 'new/1 1, old/2 2, old/4 4'
expect 'all is in order' "$(differences)" '0|0|0'

say 'a row that stays locked'
begin_anew
tell sees "BEGIN; UPDATE routes SET seen = 2 WHERE id = 5; PREPARE TRANSACTION 'stays'" >/dev/null
expect 'ends the import after a while' "$(state_as_app 1 "$import)") $(state)" '00000 finished'
expect 'and is listed' "$(as_app 1 "SELECT bucket_value, reason FROM claims.import_collisions(1, 'RAILS_TABLE_ROUTES')")" 'old/5|locked'
tell sees "COMMIT PREPARED 'stays'" >/dev/null
as_app 1 "$import)" >/dev/null
expect 'the next import claims it' "$(differences) $(at cell1 'SELECT collisions FROM claims.imports')" '0|0|0 0'

say 'writers beside the import'
begin_anew
cat >"$CLAIMS_TMP/writers.sql" <<'SQL'
\set id random(1, 6000)
\set other random(1, 6000)
\set what random(1, 6)
\if :what <= 2
UPDATE routes SET name = 'renamed/' || :id || '/' || :other WHERE id = :id;
\elif :what = 3
DELETE FROM routes WHERE id = :id AND id % 3 = 0;
\elif :what = 4
INSERT INTO routes (name) VALUES ('new/' || :id || '/' || :other) ON CONFLICT DO NOTHING;
\else
UPDATE routes SET seen = :other WHERE id = :id;
\endif
SQL
writers() { ( leave_sessions; use_cluster cell1; PGUSER=app pgbench -n -c 4 -T "$1" -f "$CLAIMS_TMP/writers.sql" >"$CLAIMS_TMP/writers.out" 2>&1 || true ) & WRITERS=$!; }
writers 12
expect 'it finishes' "$(as_app 1 "$import, 1000, 50)") $(state)" ' finished'
wait "$WRITERS"
# A save can meet a name that another one has at this moment: that is no error of the import.
expect 'no save failed because of it' "$(grep -c 'ERROR' "$CLAIMS_TMP/writers.out" | sed 's/^0$/none/')" none
expect 'all is in order' "$(differences)" '0|0|0'
expect 'check()' "$(at shared 'SELECT count(*) FROM claims.check()')" 0

say 'crashes'
for who in cell1 shared; do
  begin_anew
  ( leave_sessions; as_app 1 "$import, 1500, 50)" >/dev/null 2>&1 ) &
  importer=$!
  some() { [ "$(at cell1 'SELECT rows_done > 500 FROM claims.imports')" = t ]; }
  wait_until some
  writers 5
  crash $who
  wait $importer || true
  resume $who
  wait "$WRITERS"
  expect "it stopped ($who)" "$(state)" stopped
  before=$(at cell1 'SELECT rows_done FROM claims.imports')
  as_app 1 "$import)" >/dev/null
  expect 'and continued there' "$(at cell1 "SELECT state, rows_done >= $before FROM claims.imports")" 'finished|t'
  expect 'all is in order' "$(differences)" '0|0|0'
done

say 'progress'
begin_anew
notices=$( (use_cluster cell1; PGOPTIONS='-c client_min_messages=notice' PGUSER=app psql -XqAt -c "$import, 100, max_runtime => '25 s')" 2>&1) )
# Two of them ten seconds apart, or one if a batch came a little too early for the second, and one at the end.
expect 'a notice every ten seconds, and at the end' "$(grep -cE '^NOTICE:  RAILS_TABLE_ROUTES: [0-9]+ of about [0-9]+ rows, [0-9]+ rows/s, 0 collisions, about 0:[0-9]{2}:[0-9]{2} remaining$' <<<"$notices" |
  sed 's/^[23]$/2 or 3/')" '2 or 3'
expect 'it stopped in time' "$(state)" stopped
agree_after() { as_app 1 "$import)" >/dev/null; differences; }
expect 'and all is in order after the rest' "$(agree_after)" '0|0|0'

say 'a full disk at the service'
begin_anew
# A statement that runs out of space fails as this one does.
at shared "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN IF (SELECT count(*) FROM claims.claims) > 3000 THEN
    RAISE 'could not extend file' USING ERRCODE = '53100'; END IF; RETURN NULL; END \$\$;
  CREATE TRIGGER full_disk AFTER INSERT ON claims.claims FOR EACH STATEMENT EXECUTE FUNCTION full_disk()" >/dev/null
expect 'ends it with the error of the service' "$(state_as_app 1 "$import)") $(state)" '53100 stopped'
at shared 'DROP FUNCTION full_disk CASCADE' >/dev/null 2>&1
expect 'and it continues' "$(agree_after)" '0|0|0'

say 'the rate of begins of the cell'
begin_anew
at shared "SELECT claims.set_cell_limits(1, 'a limit', max_outstanding => 5)" >/dev/null
expect 'an import needs none' "$(agree_after)" '0|0|0'
expect 'nor does it take any from saves' "$(state_as_app 1 "INSERT INTO routes (name) VALUES ('at last')")" 00000
