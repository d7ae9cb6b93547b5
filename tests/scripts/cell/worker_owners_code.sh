#!/usr/bin/env bash
# Committed leases are settled although the owner of a claimed table delays the worker by a condition that sleeps, or a locked table.
# test: long
. "$(dirname "$0")/../cells.bash"

start_cells -c shared_preload_libraries=claims -c claims.databases=postgres -c claims.reconcile_interval=1s -c claims.verify_interval=1s
until_true() { # SECONDS WHAT CLUSTER STATEMENT
  local _
  for _ in $(seq 1 $(($1 * 20))); do
    if [ "$( (at "$3" "$4") 2>/dev/null)" = t ]; then printf 'ok: %s\n' "$2"; return; fi
    sleep 0.05
  done
  expect "$2 (within $1 s)" "$(at "$3" "$4")" t
}
# As a role of no rights: the owner of a table.
at cell1 "CREATE ROLE mallory LOGIN IN ROLE app; GRANT CREATE ON SCHEMA public TO mallory" >/dev/null
as_mallory() { ( use_cluster cell1; PGUSER=mallory sql "$1" ); }
as_mallory "CREATE TABLE slow (id bigint PRIMARY KEY, path text UNIQUE, owner_id bigint, is_shown boolean);
            CREATE FUNCTION sleeps(boolean) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(3600); RETURN true; END';
            INSERT INTO slow VALUES (1, 'slowly', 1, true)"
as_mallory "SELECT claims.claim_attribute('slow', 'path', 'ROUTES', 'GROUP', 'owner_id', 'RAILS_TABLE_GROUPS', condition => 'sleeps(is_shown)')" >/dev/null
as_app 1 "SELECT claims.attend(1, 'service')" >/dev/null

# settles WHAT FROM: committed leases, and one that is given up, are settled while the owner's code runs.
settles() {
  local number xid
  for number in 1 2; do
    save 1 $(($2 + number)) "name$(($2 + number))"
    until_true 10 "$1: what is committed is settled" shared "SELECT status = 1 FROM claims.claims WHERE bucket_value = 'name$(($2 + number))'"
  done
  xid=$(as_app 1 "BEGIN; SELECT pg_current_xact_id(); ROLLBACK")
  begin 1 $(($2 + 3)) given-up "$xid"
  until_true 30 "$1: what was given up is rolled back" shared "SELECT count(*) = 0 FROM claims.claims WHERE bucket_value = 'given-up'"
}
until_true 60 'a verification sleeps in the condition' cell1 "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type <> 'client backend' AND wait_event = 'PgSleep'"
settles 'a condition that sleeps' 10
expect 'and it still sleeps' "$(at cell1 "SELECT backend_type FROM pg_stat_activity WHERE wait_event = 'PgSleep'")" 'claims verifier'

# Without the condition, but locked for as long as its owner likes.
open locker cell1 mallory
tell locker 'BEGIN; LOCK TABLE slow' >/dev/null
at cell1 "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'" >/dev/null
until_true 60 'a verification waits for the table' cell1 "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type <> 'client backend' AND wait_event_type = 'Lock'"
settles 'a table that is locked' 20
tell locker ROLLBACK >/dev/null
close locker

# Verification continues when the condition no longer sleeps.
as_mallory "CREATE OR REPLACE FUNCTION sleeps(boolean) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN false; END'"
at cell1 "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'" >/dev/null
until_true 60 'a verification has ended' cell1 "SELECT count(*) > 0 FROM claims.passes WHERE kind = 'verify' AND sqlstate IS NULL"
agree 'at the end'
