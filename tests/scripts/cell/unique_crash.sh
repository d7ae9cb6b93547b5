#!/usr/bin/env bash
# A crash at each step of the commands that begin and end uniques and their partitions. A step is a table that the command waits for, or the moment
# before its COMMIT. Afterwards everything is as before. After a crash behind the COMMIT, everything is done. A prepared transaction survives.
# test: long
. "$(dirname "$0")/../common.bash"

start_cluster unique_crash --fast -c synchronous_commit=on
sql "CREATE EXTENSION claims; CREATE SCHEMA tenant;
  CREATE TABLE one (key text, id int, day int DEFAULT 1); CREATE TABLE tenant.users (LIKE one INCLUDING DEFAULTS); CREATE TABLE parts (LIKE one INCLUDING DEFAULTS) PARTITION BY LIST (day);
  CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1); CREATE TABLE parts_2 (LIKE one INCLUDING DEFAULTS);
  INSERT INTO one VALUES ('ann', 1); INSERT INTO tenant.users VALUES ('bob', 1); INSERT INTO parts VALUES ('cid', 1), ('dan', 2); INSERT INTO parts_2 VALUES ('eve', 1, 2);
  CREATE FUNCTION attempt(value text) RETURNS text LANGUAGE plpgsql AS \$\$ BEGIN
    INSERT INTO tenant.users VALUES (value); SET CONSTRAINTS ALL IMMEDIATE; RAISE EXCEPTION 'free';
    EXCEPTION WHEN unique_violation THEN RETURN 'taken'; WHEN raise_exception THEN RETURN 'free'; END \$\$"

# Everything that a unique has: what a save of each value would get, its tables with generations, their claims, triggers, types, mode and cell.
state() {
  sql "SELECT concat_ws('; ',
    (SELECT string_agg(v || ' ' || attempt(v), ', ') FROM unnest('{ann, bob, cid, dan, eve, new}'::text[]) v),
    (SELECT string_agg(concat_ws(' ', u.name, u.table_names), ', ') FROM claims.uniques u),
    (SELECT string_agg(concat_ws(' ', t.table_name, (SELECT string_agg(c.bucket_value, ' ' ORDER BY c.bucket_value) FROM claims.claims c
       WHERE c.source_type = t.type_id AND c.source_id = t.generation::text)), ', ' ORDER BY t.table_name::text) FROM claims.unique_tables t WHERE t.table_name IS NOT NULL),
    (SELECT string_agg(t.tgrelid::regclass || ' ' || t.tgname, ', ' ORDER BY t.tgrelid::regclass::text, t.tgname) FROM pg_trigger t WHERE t.tgname LIKE '%claims_unique%'),
    (SELECT count(*) FROM claims.list_types() WHERE id >= 1000000), (SELECT count(*) FROM claims.automatic_service), (SELECT count(*) FROM claims.cells),
    (SELECT string_agg(concat_ws(' ', i.inhrelid::regclass, i.inhdetachpending), ', ' ORDER BY i.inhrelid::regclass::text) FROM pg_inherits i WHERE i.inhparent = 'parts'::regclass),
    (SELECT count(*) FROM claims.check()))"
}

crashes=0
# crash PID: kills a backend, or stops the server at once, in turn, and waits until the server is there again.
crash() {
  local before
  before=$(checkpointer sql)
  if [ $((++crashes % 3)) = 0 ]; then restart_cluster unique_crash immediate; else kill -9 "$1"; fi
  wait_until has_restarted "$before" sql
}

# The backend of a session that waits, by its application_name; nothing as long as it does not wait.
waiting() { sql "SELECT pid FROM pg_stat_activity WHERE application_name = '$1' AND wait_event_type IN ('Lock', 'Timeout') AND state = 'active'"; }

# crash_at COMMAND TABLE...: the command meets a session that writes each of the tables, waits for it, and the server crashes; then once before its COMMIT.
crash_at() {
  local command=$1 table before
  shift
  before=$(state)
  for table in "$@"; do
    PGAPPNAME=blocker psql -Xq -c "BEGIN; LOCK TABLE $table IN EXCLUSIVE MODE; SELECT pg_sleep(1000)" >/dev/null 2>&1 &
    wait_for_any waiting blocker >/dev/null
    PGAPPNAME=command psql -Xq -c "$command" >"$CLAIMS_TMP/command" 2>&1 &
    crash "$(wait_for_any waiting command)"
    wait
    expect "$command: a crash where it waits for $table" "$(state)" "$before"
  done
}
crash_before_commit() {
  local before
  before=$(state)
  PGAPPNAME=command psql -Xq -c "BEGIN; $1; SELECT pg_sleep(1000)" >/dev/null 2>&1 &
  crash "$(wait_for_any waiting command)"
  wait
  expect "$1: a crash before its COMMIT" "$(state)" "$before"
  sql "BEGIN; $1; PREPARE TRANSACTION 'command'" >/dev/null
  crash "$(checkpointer sql)"
  sql "ROLLBACK PREPARED 'command'"
  expect "$1: prepared, a crash, and rolled back" "$(state)" "$before"
}
# done_and_crash COMMAND: it is prepared, if that is possible, and committed after a crash; then another crash.
done_and_crash() {
  local after
  if [ "${2:-}" = plainly ]; then
    sql "$1" >/dev/null
  else
    sql "BEGIN; $1; PREPARE TRANSACTION 'command'" >/dev/null
    crash "$(checkpointer sql)"
    sql "COMMIT PREPARED 'command'"
  fi
  after=$(state)
  crash "$(checkpointer sql)"
  expect "$1: done, and a crash" "$(state)" "$after"
  done=$after
}
# Asks for a part of the state after a command.
expect_done() { case $done in *"$2"*) printf 'ok: %s\n' "$1" ;; *) printf 'FAILED: %s\n  wanted in it: %s\n  got: %s\n' "$1" "$2" "$done" >&2; exit 1 ;; esac; }

add="SELECT claims.add_unique('keys', '{one, tenant.users, parts}', 'key')"
crash_at "$add" parts_1 claims.bucket_types claims.unique_constraints claims.unique_tables claims.claims
crash_before_commit "$add"
done_and_crash "$add"
expect_done 'all values are claimed' 'ann taken, bob taken, cid taken, dan taken, eve free, new free; keys {one,parts,tenant.users}; one ann, parts_1 cid dan, tenant.users bob;'

attach='ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES IN (2)'
crash_at "$attach" parts_2 claims.unique_tables claims.claims
crash_before_commit "$attach"
done_and_crash "$attach"
expect_done 'the values of the partition are claimed' 'eve taken, new free; keys {one,parts,tenant.users}; one ann, parts_1 cid dan, parts_2 eve, tenant.users bob;'

detach='ALTER TABLE parts DETACH PARTITION parts_2'
crash_at "$detach" parts_2 claims.unique_tables
crash_before_commit "$detach"
done_and_crash "$detach"
expect_done 'its values are free' 'eve free'
sql "$attach"

# DETACH CONCURRENTLY has two transactions. After the first one PostgreSQL wants it to be finished.
crash_at "$detach CONCURRENTLY" parts
concurrently() {
  PGAPPNAME=blocker psql -Xq -c "BEGIN; $1; SELECT pg_sleep(1000)" >/dev/null 2>&1 &
  wait_for_any waiting blocker >/dev/null
  PGAPPNAME=command psql -Xq -c "$detach CONCURRENTLY" >"$CLAIMS_TMP/command" 2>&1 &
  wait_for_any sql 'SELECT FROM pg_inherits WHERE inhdetachpending' >/dev/null
  wait_for_any waiting command >/dev/null
}
concurrently 'SELECT FROM parts'
crash "$(waiting command)"
wait
done=$(state)
expect_done 'detached by half: no value is free' 'eve taken, new free; keys {one,parts,tenant.users}; one ann, parts_1 cid dan, parts_2 eve,'
crash_at "$detach FINALIZE" claims.unique_tables
crash_before_commit "$detach FINALIZE"
done_and_crash "$detach FINALIZE"
expect_done 'finished: its values are free' 'eve free'
sql "$attach"

drop='DROP TABLE parts_2'
crash_at "$drop" parts claims.unique_tables
crash_before_commit "$drop"
done_and_crash "$drop"
expect_done 'dropped: its values are free' 'eve free'

truncate='TRUNCATE parts'
crash_at "$truncate" parts_1 claims.unique_tables
crash_before_commit "$truncate"
done_and_crash "$truncate"
expect_done 'truncated: its values are free' 'cid free, dan free'

schema='DROP SCHEMA tenant CASCADE'
crash_before_commit "$schema"

remove="SELECT claims.drop_unique('keys', 'test')"
crash_at "$remove" parts_1 claims.claims claims.unique_tables claims.unique_constraints claims.bucket_types claims.automatic_service
crash_before_commit "$remove"
done_and_crash "$remove"
expect_done 'nothing is left' 'ann free, bob free, cid free, dan free, eve free, new free; 0; 0; 0; parts_1 f; 0'
