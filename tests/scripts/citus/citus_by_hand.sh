#!/usr/bin/env bash
# Tables of claims that were distributed by Citus' own functions: every function refuses on every node, also in open sessions, instead of reading an
# empty table; other work in the database continues, and nothing is lost.
. "$(dirname "$0")/../citus.bash"

refused='the tables of claims cannot be distributed'
elsewhere='the tables of claims are on another node'

citus_cluster 1
citus_service
have 1 known
reads="SELECT count(*) FROM claims.get_record('ROUTES', 'known')"

# --- Citus is there, and the tables are not distributed ---------------------------------------------------------------
expect 'beside Citus everything works' "$(sql "$reads")" 1
expect 'Citus has installed the extension on the worker' "$(on_worker 1; sql "SELECT count(*) FROM pg_extension WHERE extname = 'claims'")" 1
expect 'there nobody is told that a name is free' "$(on_worker 1; message "$reads")" "$elsewhere"
expect 'nor gets one' "$(on_worker 1; message "SELECT claims.begin_update(1, '[$(claim known)]')")" "$elsewhere"
expect 'the SQLSTATE is' "$(on_worker 1; sqlstate "$reads")" 55000
expect 'DDL on the worker goes on' "$(on_worker 1; sql "CREATE TABLE parted (a int) PARTITION BY LIST (a); CREATE TABLE part PARTITION OF parted FOR VALUES IN (1); DROP TABLE parted; SELECT 'done'")" done

# --- sessions that are open already -----------------------------------------------------------------------------------
open_session plain
open_session snapshot
open_session prepared
expect 'an open session reads' "$(ask plain "$reads")" 1
ask snapshot 'BEGIN ISOLATION LEVEL REPEATABLE READ' >/dev/null
expect 'and one with a snapshot' "$(ask snapshot "$reads")" 1
ask prepared "PREPARE known AS $reads" >/dev/null
expect 'and one with a prepared statement' "$(ask prepared 'EXECUTE known')" 1

# --- in a transaction that is rolled back: it is refused there, and nowhere afterwards -------------------------------
in_transaction() {
  psql -XqAt -v VERBOSITY=sqlstate 2>&1 <<SQL | grep -v '^$' | tr '\n' ' '
SET client_min_messages = warning;
SET citus.enable_unsafe_triggers = on;
BEGIN;
SELECT 'distributed' FROM (SELECT $1) x;
$reads;
ROLLBACK;
$reads;
SQL
}
expect 'a distributed table' "$(in_transaction "create_distributed_table('claims.claims', 'bucket_value')")" 'distributed ERROR:  55000 1 '
expect 'a distributed table of leases' "$(in_transaction "create_distributed_table('claims.claim_leases', 'uuid')")" 'distributed ERROR:  55000 1 '
expect 'a reference table' "$(in_transaction "create_reference_table('claims.cells')")" 'distributed ERROR:  55000 1 '
expect 'a table of the shorter holds' "$(in_transaction "create_reference_table('claims.expiring_claims')")" 'distributed ERROR:  55000 1 '
expect 'the open session goes on' "$(ask plain "$reads")" 1

# --- for good ---------------------------------------------------------------------------------------------------------
dump() { pg_dump --data-only --inserts --table='claims.claims' | grep '^INSERT' | LC_ALL=C sort; }
before=$(dump)
sql "SELECT create_distributed_table('claims.claims', 'bucket_value', shard_count => 4)" >/dev/null 2>&1
for session in plain prepared snapshot; do
  statement=$reads
  [ $session != prepared ] || statement='EXECUTE known'
  expect "the session '$session', open since before, is refused" "$(ask $session "$statement")" 55000
done
expect 'what it says' "$(message "$reads")" "$refused"
expect 'on the worker too' "$(on_worker 1; message "$reads")" "$refused"
expect 'DDL goes on' "$(sql "CREATE TABLE parted (a int) PARTITION BY LIST (a); CREATE TABLE part PARTITION OF parted FOR VALUES IN (1); DROP TABLE parted; SELECT 'done'")" done

# Every function, with arguments that it takes as far as their types say so. What touches no table may answer.
value_of() {
  cat <<'SQL'
CASE t::regtype::text WHEN 'bigint' THEN '1' WHEN 'integer' THEN '1000' WHEN 'text' THEN '''ROUTES''' WHEN 'name' THEN '''script_claims_one'''
  WHEN 'uuid' THEN '''00000000-0000-4000-8000-000000000001''' WHEN 'jsonb' THEN '''[]''' WHEN 'boolean' THEN 'true' WHEN 'interval' THEN '''1 h'''
  WHEN 'regclass' THEN '''pg_class''' WHEN 'xid8' THEN '''1''' WHEN 'oid' THEN '1259' WHEN 'uuid[]' THEN '''{}''' WHEN 'text[]' THEN '''{}'''
  WHEN 'timestamp with time zone' THEN '''2026-01-01''' ELSE 'NULL' END || '::' || t::regtype
SQL
}
# The validators of options, and what looks at catalogs, shared memory, tables that are a cell's alone or the application's, or its arguments only.
no_tables='service_validator|has_fixed_text|running_verifications|service_states|spell_out_condition|canonical_form|note_check'
no_tables+='|service_calls|find_altered_tables|list_lease_waiters|wait_for_import|list_imports|find_altered_settings|find_capture_problems|find_dump_problems'
no_tables+='|is_citext|has_unique_text|find_duplicates|unique_duplicates'
# Internal functions, which only functions call that have refused before.
inner='change_grants|feed_holder|find_held_feed|changes_of|find_claims_on|find_settled_leases|find_unknown_owners|find_distributed_problems|buckets_in_flight'
inner+='|claim_unique_values|purge_given_up'
calls=$(sql "SELECT p.proname || ' SELECT * FROM ' || p.oid::regproc || '(' || coalesce((SELECT string_agg($(value_of), ', ' ORDER BY n) FROM unnest(p.proargtypes) WITH ORDINALITY a (t, n)), '') || ')'
               FROM pg_proc p WHERE p.pronamespace = 'claims'::regnamespace AND p.prokind = 'f'
                AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype, 'fdw_handler'::regtype) AND p.proname !~ '^($no_tables|$inner)$' ORDER BY 1")
expect 'there are functions' "$([ "$(wc -l <<<"$calls")" -gt 60 ] && echo yes)" yes
while read -r name call; do
  found=$(message "$call") || true
  [ "$found" = "$refused" ] || answered="${answered:-}$name: ${found:-an answer}"$'\n'
done <<<"$calls"
expect 'all of them refuse' "${answered:-}" ''

# --- the way out ------------------------------------------------------------------------------------------------------
expect 'nothing is lost' "$(dump)" "$before"
sql postgres "CREATE DATABASE restored ENCODING 'UTF8' TEMPLATE template0"
pg_dump | psql -Xq -d restored >/dev/null 2>"$CLAIMS_TMP/restore.log" || true
export PGDATABASE=restored
expect 'after dump and restore' "$(sql "$reads")" 1
expect 'check() finds nothing' "$(sql "SELECT count(*) FROM claims.check()")" 0
