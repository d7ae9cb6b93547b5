#!/usr/bin/env bash
# The bounds of import_claims(): its pace, its time, its locks, its limits at the service, collisions with another cell, a service whose disk
# is full, and two imports side by side.
. "$(dirname "$0")/../imports.bash"

ROWS=3000
start_cells -c shared_preload_libraries=claims
at cell1 "INSERT INTO routes (name) SELECT 'old/' || n FROM generate_series(1, $ROWS) n;
  CREATE TABLE users (id bigint PRIMARY KEY, username text); GRANT SELECT, INSERT, UPDATE, DELETE ON users TO app;
  INSERT INTO users SELECT n, 'user' || n FROM generate_series(1, $ROWS) n; ANALYZE routes, users;
  ALTER ROLE app SET client_min_messages = warning;
  SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'),
         claims.claim_attribute('users', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id')" >/dev/null
as_app 1 "SELECT claims.automatic(1, 'service')" >/dev/null
done_rows() { at cell1 "SELECT rows_done FROM claims.imports WHERE source_type = 'RAILS_TABLE_ROUTES'"; }
# took SQL: the milliseconds that the server needs for it.
took() { local from; from=$(date +%s%N); as_app 1 "$1" >/dev/null; echo $((($(date +%s%N) - from) / 1000000)); }

say 'the names of another cell'
at cell2 "INSERT INTO routes (name) VALUES ('old/17'), ('old/2500')" >/dev/null
as_cell 2 "SELECT claims.commit_update(2, claims.begin_update(2, '[$(claim old/17), $(claim old/2500)]'))" >/dev/null
as_app 1 "$import, batch_size => 100)" >/dev/null
expect 'do not stop it' "$(state) $(at cell1 'SELECT rows_done, collisions FROM claims.imports')" "finished $ROWS|2"
expect 'are listed with their holder' "$(as_app 1 "SELECT bucket_value, source_id, reason, holder_cell_id FROM claims.import_collisions(1, 'RAILS_TABLE_ROUTES')" | tr '\n' ' ')" \
  'old/17|17|held_by_other|2 old/2500|2500|held_by_other|2 '
expect 'stay with it' "$(at shared "SELECT count(*) FROM claims.claims WHERE creator_id = 2 AND status = 1")" 2
as_app 1 "UPDATE routes SET name = name || ' of cell 1' WHERE name IN ('old/17', 'old/2500')" >/dev/null
expect 'and are resolved by other names' "$(differences)" '0|0|0'

say 'its pace'
begin_anew
# The first batch comes at once, and each other one in its time: no busy machine makes it faster.
milliseconds=$(took "$import, rows_per_second => 1000, batch_size => 100)")
expect 'rows_per_second is kept' "$([ "$milliseconds" -ge $(((ROWS - 100) * 1000 / 1000)) ] && echo yes || echo "$milliseconds ms")" yes
expect 'and all is in order' "$(state) $(differences)" 'finished 0|0|0'
begin_anew
# At this pace it would take five minutes.
milliseconds=$(took "$import, rows_per_second => 10, batch_size => 10, max_runtime => '1500 ms')")
expect 'max_runtime is kept' "$([ "$milliseconds" -ge 1500 ] && [ "$milliseconds" -lt 60000 ] && echo yes || echo "$milliseconds ms")" yes
expect 'it has stopped on the way' "$(state) $([ "$(done_rows)" -ge 10 ] && [ "$(done_rows)" -lt 1000 ] && echo some)" 'stopped some'
expect 'and continues there' "$(before=$(done_rows); as_app 1 "$import)" >/dev/null; at cell1 "SELECT state, rows_done = $ROWS, $before < $ROWS FROM claims.imports")" 'finished|t|t'

say 'its locks'
begin_anew
# The service does not end the second batch before it is let go.
at shared "CREATE FUNCTION held_up() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN
    WHILE (SELECT count(*) > 100 FROM claims.claims WHERE creator_id = 1) AND EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND granted)
      LOOP PERFORM pg_sleep(0.02); END LOOP; RETURN NULL; END \$\$;
  CREATE TRIGGER held_up AFTER INSERT ON claims.claims FOR EACH STATEMENT EXECUTE FUNCTION held_up()" >/dev/null
open holder shared postgres
tell holder 'SELECT pg_advisory_lock(77)' >/dev/null
open importer cell1; open renames cell1; open deletes cell1
send importer "$import, batch_size => 100)"
locked() { at cell1 'SELECT count(*) - (SELECT count(*) FROM (SELECT FROM routes FOR UPDATE SKIP LOCKED) free) FROM routes'; }
expect 'it locks the rows of one batch' "$(wait_for 100 locked)" 100
# The pace of the first batch, and what is left at it.
expect 'its progress' "$(at cell1 "SELECT state, rows_done, estimated, rate > 0, remaining >= '0 s', pid IS NOT NULL FROM claims.imports")" "running|100|$ROWS|t|t|t"
expect 'not those of the batch before' "$(state_as_app 1 'SELECT FROM routes WHERE id <= 100 FOR UPDATE NOWAIT')" 00000
# locked() locks rows itself, for a moment: on a busy machine its session may not have ended yet.
expect 'nor those to come' "$(wait_for 00000 state_as_app 1 'SELECT FROM routes WHERE id > 200 FOR UPDATE NOWAIT')" 00000
expect 'a row that was read keeps its name until it is claimed' "$(state_as_app 1 "SET lock_timeout = '100 ms'; UPDATE routes SET name = 'never' WHERE id = 150")" 55P03
# In subshells: the answer of the import is still to come.
printf "UPDATE routes SET name = 'renamed' WHERE id = 150;\n" >&"${SESSION_IN[renames]}"
printf 'DELETE FROM routes WHERE id = 151;\n' >&"${SESSION_IN[deletes]}"
waiting() { [ "$(at cell1 "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ '^(UPDATE|DELETE)'")" = 2 ]; }
wait_until waiting
( tell holder 'SELECT pg_advisory_unlock(77)' ) >/dev/null
expect 'it ends' "$(answer importer) $(state)" ' finished'
close renames; close deletes; close holder
at shared 'DROP FUNCTION held_up CASCADE' >/dev/null 2>&1
expect 'a row that was renamed, and one that was deleted, just when they were imported' "$(differences) $(at shared "SELECT string_agg(bucket_value, ' ') FROM claims.claims
  WHERE creator_id = 1 AND source_id IN ('150', '151') AND source_type = 3")" '0|0|0 renamed'

say 'two at once'
begin_anew
open users cell1
send importer "$import, rows_per_second => 500, batch_size => 50)"
( send users "CALL claims.import_claims(1, 'service', 'RAILS_TABLE_USERS', rows_per_second => 500, batch_size => 50)"
  both() { [ "$(at cell1 "SELECT count(*) FROM claims.imports WHERE state = 'running' AND rows_done > 0")" = 2 ]; }
  wait_until both
  expect 'the other one ends' "$(answer users) $(state RAILS_TABLE_USERS)" ' finished' )
expect 'and the one' "$(answer importer) $(state)" ' finished'
expect 'both are in order' "$(differences) $(differences RAILS_TABLE_USERS)" '0|0|0 0|0|0'

say 'limits of the cell'
begin_anew
at shared "SELECT claims.set_cell_limits(1, 'a limit', max_outstanding => 1, max_batch_size => 10, begins_per_second => 1)" >/dev/null
# Ten records at a time, a thousand a second after the first thousand.
milliseconds=$(took "$import, batch_size => 500)")
expect 'slow it down' "$([ "$milliseconds" -ge $((ROWS - 1000 - 100)) ] && echo yes || echo "$milliseconds ms")" yes
expect 'and do not end it' "$(state) $(done_rows)" "finished $((ROWS - 1))"
at shared "DELETE FROM claims.claims WHERE creator_id = 1 AND bucket_value LIKE 'old/1%'" >/dev/null
expect 'a correcting verification keeps to them, too' "$(as_app 1 "SELECT missing = corrected, missing > 1000 FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', correct => true, recent => '0 s')")" 't|t'
at shared "SELECT claims.set_cell_limits(1, 'no limit')" >/dev/null
begin_anew
at shared "SELECT claims.set_mode('settle_only', 'a test', 1)" >/dev/null
expect 'a mode stops it' "$(state_as_app 1 "$import)") $(state)" '55000 stopped'
at shared "SELECT claims.set_mode('open', 'a test', 1)" >/dev/null
expect 'until the cell is open again' "$(as_app 1 "$import)") $(state) $(differences)" ' finished 0|0|0'

say 'a full disk at the service'
disk=$(cd /tmp && mktemp -d /tmp/claims-disk.XXXXXX)
if mount -t tmpfs -o size=4m,mode=755 tmpfs "$disk" 2>/dev/null; then
  trap 'for session in "${!SESSION_PID[@]}"; do close "$session"; done; cleanup; umount "$disk"; rmdir "$disk"' EXIT
  [ "$(id -u)" != 0 ] || chown "$SERVER_USER" "$disk"
  begin_anew
  at cell1 "BEGIN; SELECT claims.skip_capture('a test'); INSERT INTO routes (name) SELECT 'long/' || repeat('x', 200) || n FROM generate_series(1, 20000) n; COMMIT" >/dev/null
  at shared 'VACUUM FULL claims.claims' >/dev/null
  at shared "CREATE TABLESPACE small LOCATION '$disk'" >/dev/null
  at shared 'ALTER TABLE claims.claims SET TABLESPACE small' >/dev/null
  expect 'ends it with the error of the service' "$(state_as_app 1 "$import)") $(state)" '53100 stopped'
  expect 'what is counted is claimed' "$(at shared "SELECT count(*) >= $(done_rows) FROM claims.claims WHERE creator_id = 1")" t
  mount -o remount,size=100m "$disk"
  expect 'with room it continues' "$(before=$(done_rows); as_app 1 "$import)" >/dev/null; at cell1 "SELECT state, rows_done > $before FROM claims.imports WHERE source_type = 'RAILS_TABLE_ROUTES'")" 'finished|t'
  expect 'and all is in order' "$(differences) $(at shared 'SELECT count(*) FROM claims.check()')" '0|0|0 0'
else
  rmdir "$disk"
  say 'only root may mount a small disk'
fi
