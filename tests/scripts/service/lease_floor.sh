#!/usr/bin/env bash
# Lists of leases that do not read past the rows of settled ones (crates/model/src/low_water.rs) show every lease that their snapshot shows, whatever begins,
# waits, is prepared, is rolled back, or was dated by a clock that went wrong meanwhile.
. "$(dirname "$0")/../cells.bash"

start_cells -c shared_preload_libraries=claims -c log_min_messages=panic -c autovacuum=off
# Both in one query, and so of one snapshot: what the list has and the table has not, and the other way round.
differ="SELECT count(*) FROM (SELECT lease_uuid FROM claims.list_leases(1, max_results => 100000)) a FULL JOIN (SELECT uuid FROM claims.claim_leases WHERE creator_id = 1) b ON a.lease_uuid = b.uuid WHERE a.lease_uuid IS NULL OR b.uuid IS NULL"
floor="SELECT value FROM claims.counters() WHERE name = 'claims_lease_floor_age_seconds' AND labels ->> 'cell' = '1'"
floor() { at shared "$floor"; }
list() { at shared 'SELECT count(*) FROM claims.list_leases(1)'; }
# records SQL: a batch of one claim, whose name that is.
records() { printf "jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', %s), 'subject', jsonb_build_object('type', 'GROUP', 'id', 1), 'source', jsonb_build_object('type', 'RAILS_TABLE_ROUTES', 'id', 1)))" "$1"; }
old_row="INSERT INTO claims.claim_leases (uuid, creator_id, payload, created_at) VALUES ('$(lease 4)', 1, '{\"create_records\": [], \"destroy_records\": []}', clock_timestamp() - interval '7 days')"

expect 'nothing is known at first' "$(floor)" ''
expect 'one list' "$(list)" 0
expect 'begins a phase' "$(floor)" ''
expect 'another one' "$(list)" 0
expect 'ends it' "$(at shared "SELECT ($floor) < 60")" t

# A lease that was made before the floor is looked for, and comes into the table after it: the session holds it open over several lists.
open early shared cell1
tell early "BEGIN; SELECT claims.begin_update(1, '[$(claim early)]', lease_uuid => '$(lease 1)')" >/dev/null
expect 'not committed' "$(list) $(list) $(list)" '0 0 0'
tell early COMMIT >/dev/null
expect 'committed, it is listed' "$(list) $(at shared "$differ")" '1 0'
expect 'and the floor is below it' "$(at shared "SELECT ($floor) + 0.002 >= extract(epoch FROM statement_timestamp() - created_at) FROM claims.claim_leases")" t
as_cell 1 "SELECT claims.commit_update(1, '$(lease 1)')" >/dev/null

# A prepared transaction; a settlement that is taken back; a savepoint.
as_cell 1 "BEGIN; SELECT claims.begin_update(1, '[$(claim prepared)]', lease_uuid => '$(lease 2)'); PREPARE TRANSACTION 'floor'" >/dev/null
expect 'prepared' "$(list) $(list) $(list)" '0 0 0'
as_cell 1 "COMMIT PREPARED 'floor'"
expect 'its lease is listed' "$(list) $(at shared "$differ")" '1 0'
tell early "BEGIN; SELECT claims.commit_update(1, '$(lease 2)')" >/dev/null
expect 'still listed while it is being settled' "$(list) $(list) $(list)" '1 1 1'
tell early ROLLBACK >/dev/null
expect 'and when that is taken back' "$(list) $(list) $(at shared "$differ")" '1 1 0'
as_cell 1 "SELECT claims.rollback_update(1, '$(lease 2)')" >/dev/null
tell early "BEGIN; SAVEPOINT a; SELECT claims.begin_update(1, '[$(claim first)]'); ROLLBACK TO a; SELECT claims.begin_update(1, '[$(claim second)]', lease_uuid => '$(lease 5)')" >/dev/null
expect 'in a savepoint' "$(list) $(list) $(list)" '0 0 0'
tell early COMMIT >/dev/null
expect 'what was not rolled back is listed' "$(list) $(at shared "$differ")" '1 0'
as_cell 1 "SELECT claims.rollback_update(1, '$(lease 5)')" >/dev/null

# An old snapshot, of a transaction or a cursor, shows leases that were settled since.
begin 1 3 old
tell early "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM claims.list_leases(1)" >/dev/null
open cursor shared cell1
tell cursor "BEGIN; DECLARE c CURSOR FOR SELECT (SELECT count(*) FROM claims.list_leases(1)) FROM generate_series(1, 2) i" >/dev/null
as_cell 1 "SELECT claims.commit_update(1, '$(lease 3)')" >/dev/null
expect 'settled' "$(list) $(list) $(list)" '0 0 0'
expect 'an old snapshot shows it' "$(tell early 'SELECT count(*) FROM claims.list_leases(1)')" 1
expect 'so does a cursor' "$(tell cursor 'FETCH c')" 1
tell early ROLLBACK >/dev/null; tell cursor ROLLBACK >/dev/null

# Written by hand, without a begin, and dated before the floor: it takes minutes, or a list from the beginning.
at shared "$old_row"
expect 'what was written by hand is below the floor' "$(list) $(at shared "SELECT count(*) FROM claims.list_leases(1, created_after => '-infinity')")" '0 1'
expect 'another cell is not concerned' "$(at shared 'SELECT count(*) FROM claims.list_leases(2)')" 0
crash shared; resume shared
expect 'after a crash nothing is known' "$(floor) $(list)" ' 1'
expect 'and then what there is' "$(list) $(list) $(at shared "SELECT ($floor) > 86400")" '1 1 t'
at shared "DELETE FROM claims.claim_leases WHERE uuid = '$(lease 4)'"
close early 2>/dev/null || true; close cursor 2>/dev/null || true

# Another database of the cluster with the same cell.
at shared 'CREATE DATABASE other' >/dev/null
begin 1 6 here
( use_cluster shared; sql other "CREATE EXTENSION claims; SELECT claims.register_cell(1, 'cell1')" >/dev/null
  for _ in 1 2 3; do sql other 'SELECT count(*) FROM claims.list_leases(1)' >/dev/null; done )
expect 'has a floor of its own' "$(list) $(list) $(at shared "$differ")" '1 1 0'
as_cell 1 "SELECT claims.rollback_update(1, '$(lease 6)')" >/dev/null

# A row that comes into the table late: until then its transaction has no number, and lists do not wait for it.
hold_up INSERT
as_cell 1 "SELECT claims.begin_update(1, '[$(claim late)]', lease_uuid => '$(lease 7)')" >/dev/null &
late=$!
wait_for 1 at shared "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'" >/dev/null
expect 'it is not there yet' "$(list) $(list) $(list)" '0 0 0'
let_go
wait $late
expect 'there, it is listed' "$(list) $(list) $(at shared "$differ")" '1 1 0'
as_cell 1 "SELECT claims.rollback_update(1, '$(lease 7)')" >/dev/null

# Under load: writers, some of which hold their begins open, and one who looks all the time.
until=$((SECONDS + 12))
for number in 1 2 3; do
  ( while [ ! -e "$CLAIMS_TMP/stop" ]; do
      as_cell 1 "DO \$\$ DECLARE l uuid; BEGIN FOR i IN 1..60 LOOP
          l := claims.begin_update(1, $(records "'w$number-' || gen_random_uuid()"));
          IF random() < 0.1 THEN PERFORM pg_sleep(random() * 0.05); END IF;
          IF random() < 0.2 THEN ROLLBACK; CONTINUE; END IF;
          COMMIT;
          IF random() < 0.5 THEN PERFORM claims.commit_update(1, l); PERFORM claims.rollback_update(1, gen_random_uuid()); ELSE PERFORM claims.rollback_update(1, l); END IF;
          COMMIT;
        END LOOP; END \$\$" >/dev/null 2>&1 || true
    done ) &
done
looks=0 wrong=0 fewer=0
while [ $SECONDS -lt $until ] || [ $looks -lt 20 ]; do
  began=$SECONDS
  got=$(at shared "$differ; $differ; $floor" | tr '\n' ' ')
  looks=$((looks + 1))
  case $got in '0 0 '*) ;; *) wrong=$((wrong + 1)) ;; esac
  # It is learned again and again, by every second list: its age does not grow all the time.
  awk -v age="${got#0 0 }" -v took=$((SECONDS - began)) 'BEGIN { exit !(age != "" && age < 6 + 3 * took) }' && fewer=$((fewer + 1))
done
touch "$CLAIMS_TMP/stop"
wait
expect 'no list misses a lease, or shows one too many' "$wrong" 0
expect 'there were many, and the floor rose' "$( [ $fewer -ge $((looks / 2)) ] && echo yes || echo "$looks lists, $fewer with a young floor")" yes

# Made anew, as by a restore into a fresh extension: rows that come with their old times.
expect 'the floor is known' "$(list) $(list) $(at shared "SELECT ($floor) IS NOT NULL")" "$(at shared 'SELECT count(*) FROM claims.claim_leases WHERE creator_id = 1') $(at shared 'SELECT count(*) FROM claims.claim_leases WHERE creator_id = 1') t"
at shared 'DROP EXTENSION claims CASCADE; CREATE EXTENSION claims' >/dev/null 2>&1
at shared "SELECT claims.register_cell(1, 'cell1')" >/dev/null
at shared "$old_row"
expect 'DROP and CREATE EXTENSION: nothing is known of the new table' "$(list) $(floor)" '1 '
