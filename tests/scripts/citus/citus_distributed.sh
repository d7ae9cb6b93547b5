#!/usr/bin/env bash
# Distributed tables: rows from before claims.distribute() are kept; sessions on different nodes get the answers that sessions of one node get,
# without waiting; functions that distributed claims do not have are 0A000.
. "$(dirname "$0")/../citus.bash"

detail() { psql -XqAt -v VERBOSITY=default -c "$1" 2>&1 | sed -n 's/^DETAIL:  //p' | head -1; }
reasons() { sql "SELECT string_agg(c ->> 'reason', ' ') FROM (SELECT conflicts FROM claims.try_begin_update(1, $1, $2)) x, jsonb_array_elements(conflicts) c"; }
# quick NAME EXPECTED NODE CREATES DESTROYS: expects this answer, without a wait.
quick() {
  local started answer elapsed
  started=$(date +%s%3N)
  answer=$($3; reasons "$4" "$5")
  elapsed=$(($(date +%s%3N) - started))
  expect "$1" "$answer" "$2"
  [ "$elapsed" -lt 8000 ] || { echo "FAILED: $1 took $elapsed ms" >&2; exit 1; }
}

# --- before -------------------------------------------------------------------------------------------------------------
fresh_database alone
expect 'without Citus' "$(sqlstate "SELECT claims.distribute(reason => 'a test')")" 55000
expect 'what it says' "$(message "SELECT claims.distribute(reason => 'a test')")" 'the tables of claims can be distributed only by Citus'
expect 'not distributed' "$(sql "SELECT distributed FROM claims.version()")" f

citus_cluster 2 -c claims.verification_slots=1
citus_service
sql "SELECT claims.commit_update(1, claims.begin_update(1, $(numbered before 300)))" >/dev/null
sql "SELECT claims.begin_update(1, $(claims_of held), lease_uuid => '$(lease 1)')" >/dev/null
sql "SELECT claims.prepare_transfer('$(lease 99)', 1, 2, '[{\"type\": \"GROUP\", \"ids\": [9]}]', 'a test')" >/dev/null
for name in early moved; do
  open_session $name
  expect "session $name from before" "$(ask $name "SELECT count(*) FROM claims.get_record('ROUTES', 'before-7')")" 1
done

sql "SELECT claims.attend(1, 'x')" >/dev/null 2>&1 || true
sql "INSERT INTO claims.expiring_claims SELECT (jsonb_populate_record(NULL::claims.expiring_claims, '{}')).* WHERE false"
expect 'a reason is needed' "$(sqlstate 'SELECT claims.distribute()')" 22023
expect 'a number of shards' "$(sqlstate "SELECT claims.distribute(0, 'a test')")" 22023
expect 'only an administrator' "$(sqlstate "SET ROLE script_claims_one; SELECT claims.distribute(reason => 'a test')")" 42501
sql "DELETE FROM claims.attended_cells"

# --- distribute -----------------------------------------------------------------------------------------------------------
before=$(sql "SELECT md5(string_agg(c::text, ',' ORDER BY bucket_value)) FROM claims.claims c")
# Look-ups that have begun before, and wait for the lock of a table until the tables are distributed, answer.
open_session distributing
look_up_waits() { [ "$(sql "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'claims.$1'::regclass")" = 1 ]; }
ask distributing 'SET client_min_messages = warning; BEGIN; LOCK TABLE claims.cell_transfers IN ACCESS EXCLUSIVE MODE' >/dev/null
printf "SELECT bucket_value || ' ' || cell_id || ' ' || status FROM claims.get_record('ROUTES', 'before-9');\n" >&"${SESSION_IN[moved]}"
wait_until look_up_waits cell_transfers
ask distributing 'LOCK TABLE claims.claims IN ACCESS EXCLUSIVE MODE' >/dev/null
printf "SELECT bucket_value || ' ' || cell_id || ' ' || status FROM claims.get_record('ROUTES', 'before-7');\n" >&"${SESSION_IN[early]}"
wait_until look_up_waits claims
expect 'distributed' "$(ask distributing "SELECT claims.distribute(8, 'a test'); COMMIT")" 8
expect 'a look-up finds its name meanwhile' "$(ask early 'SELECT 1')" 'before-7 1 ACTIVE 1'
expect 'one that a transfer holds' "$(ask moved 'SELECT 1')" 'before-9 1 TRANSFERRING 1'
expect 'all claims' "$(sql "SELECT md5(string_agg(c::text, ',' ORDER BY bucket_value)) FROM claims.claims c")" "$before"
expect 'distributed' "$(sql "SELECT distributed FROM claims.version()")" t
expect 'on a worker too' "$(on_worker 1; sql "SELECT distributed FROM claims.version()")" t
expect 'once' "$(message "SELECT claims.distribute(8, 'a test')")" 'the tables of claims are distributed already'
sql "SELECT claims.cancel_transfer('$(lease 99)', 'a test')" >/dev/null
expect 'it is written down' "$(sql "SELECT count(*) FROM claims.admin_log WHERE action = 'distribute'")" 1
expect 'the session from before goes on' "$(ask early "SELECT count(*) FROM claims.get_record('ROUTES', 'before-7')")" 1
expect 'rows on both workers' "$(sql "SELECT count(DISTINCT p.groupid) FROM pg_dist_shard s JOIN pg_dist_placement p USING (shardid) WHERE s.logicalrelid = 'claims.claims'::regclass")" 2
expect 'check() finds nothing' "$(sql 'SELECT count(*) FROM claims.check()')" 0
for node in "${NODES[@]}"; do
  expect "reading on $node" "$($node; sql "SELECT bucket_value || ' ' || cell_id || ' ' || status FROM claims.get_record('ROUTES', 'before-7')")" 'before-7 1 ACTIVE'
  expect "listing on $node" "$($node; sql 'SELECT count(*) FROM claims.list_records(1)')" 301
  expect "the lease on $node" "$($node; sql "SELECT claims.lease_outcome(1, '$(lease 1)')")" outstanding
  expect "a cell's role on $node" "$($node; sql "SET ROLE script_claims_two; SELECT claims.lease_outcome(2, '$(lease 1)') IS NULL")" t
  expect "another cell's role on $node" "$($node; sqlstate "SET ROLE script_claims_two; SELECT claims.lease_outcome(1, '$(lease 1)')")" 42501
  expect "a router on $node" "$($node; sql "SET ROLE script_claims_router; SELECT count(*) FROM claims.get_record('ROUTES', 'before-7')")" 1
  expect "nobody else on $node" "$($node; sqlstate "SET ROLE script_claims_router; SELECT claims.begin_update(1, $(claims_of more))")" 42501
done
expect 'what was begun before is committed after, on a worker' "$(on_worker 2; sql "SELECT claims.commit_update(1, '$(lease 1)')")" t
expect 'and again, elsewhere' "$(on_worker 1; sql "SELECT claims.commit_update(1, '$(lease 1)')")" f

# --- slots for verification, which are those of all nodes --------------------------------------------------------------------
slot() { sql "SELECT claims.hold_verification_slot($1, $2)"; }
expect 'a slot, held on a worker' "$(on_worker 1; slot 1 60)" t
for node in "${NODES[@]}"; do expect "no other one on $node" "$($node; slot 2 60)$($node; slot 1 60)" ft; done
expect 'given back on another node' "$(on_worker 2; slot 1 0)" t
for node in "${NODES[@]}"; do expect "free on $node" "$($node; slot 2 60)" t; done
expect "only for who may act for the cell" "$(sqlstate "SET ROLE script_claims_two; SELECT claims.hold_verification_slot(1, 60)")" 42501

# --- sessions on different nodes ---------------------------------------------------------------------------------------------
on_coordinator; open_session coordinator
on_worker 1; open_session one
on_worker 2; open_session two
on_coordinator
expect 'a begin in an open transaction' "$(ask coordinator "BEGIN; SELECT claims.begin_update(2, $(claims_of contended), lease_uuid => '$(lease 2)')")" "$(lease 2)"
for node in "${NODES[@]}"; do
  quick "its name on $node" in_flight "$node" "$(claims_of contended)" "'[]'"
  expect "its uuid on $node" "$($node; sqlstate "SELECT claims.begin_update(2, $(claims_of another), lease_uuid => '$(lease 2)')")" 55P03
  expect "its settlement on $node" "$($node; sqlstate "SELECT claims.commit_update(2, '$(lease 2)')")" 55P03
  expect "a fence on $node" "$($node; sqlstate "SELECT claims.rollback_update(2, '$(lease 2)')")" 55P03
done
ask coordinator COMMIT >/dev/null
quick 'leased' leased 'on_worker 2' "$(claims_of contended)" "'[]'"
expect 'a repeat on another node' "$(on_worker 1; sql "SELECT claims.begin_update(2, $(claims_of contended), lease_uuid => '$(lease 2)')")" "$(lease 2)"
expect 'a commit in an open transaction' "$(ask one "BEGIN; SELECT claims.commit_update(2, '$(lease 2)')")" t
expect 'is not waited for' "$(on_worker 2; sqlstate "SELECT claims.commit_update(2, '$(lease 2)')")" 55P03
expect 'settle_leases says busy' "$(sql "SELECT outcome || ' ' || settled FROM claims.settle_leases(2, ARRAY['$(lease 2)'::uuid])")" 'busy false'
ask one COMMIT >/dev/null
quick 'taken' taken 'on_worker 2' "$(claims_of contended)" "'[]'"
quick "not one's own" not_owner 'on_worker 2' "'[]'" "$(buckets_of contended)"
expect 'a destroy in an open transaction' "$(ask two "BEGIN; SELECT claims.begin_update(1, '[]', $(buckets_of before-1), '$(lease 3)')")" "$(lease 3)"
quick 'its claim' in_flight on_coordinator "'[]'" "$(buckets_of before-1)"
ask two ROLLBACK >/dev/null
expect 'free again' "$(on_worker 1; sql "SELECT claims.begin_update(1, '[]', $(buckets_of before-1), '$(lease 4)')")" "$(lease 4)"
expect 'rolled back' "$(sql "SELECT claims.rollback_update(1, '$(lease 4)')")" t
expect 'the other way, elsewhere' "$(on_worker 2; sqlstate "SELECT claims.commit_update(1, '$(lease 4)')")" 55000
expect 'a fence' "$(on_worker 2; sql "SELECT claims.rollback_update(1, '$(lease 5)')" 2>/dev/null)" t
expect 'keeps the begin out, elsewhere' "$(sqlstate "SELECT claims.begin_update(1, $(claims_of late), lease_uuid => '$(lease 5)')")" 55000
expect 'within a savepoint the caller goes on' "$(ask one "BEGIN; SELECT claims.begin_update(1, $(claims_of first)) IS NOT NULL; SAVEPOINT s; SELECT claims.begin_update(1, $(claims_of contended)); ROLLBACK TO s; SELECT claims.begin_update(1, $(claims_of second)) IS NOT NULL; COMMIT")" 't ERROR:  23505 t'

# --- what a session has set ---------------------------------------------------------------------------------------------------------
for node in on_coordinator 'on_worker 1'; do
  $node
  open_session set
  ask set "SET lock_timeout = '3210ms'; SET synchronous_commit = off; SET DateStyle = 'SQL, DMY'; SET client_encoding = 'LATIN1'; SET standard_conforming_strings = off; SET bytea_output = 'escape'; SET citus.function_opens_transaction_block = off" >/dev/null
  settings="SELECT string_agg(current_setting(s), ' ') FROM unnest('{lock_timeout,synchronous_commit,DateStyle,client_encoding,citus.propagate_set_commands,citus.max_adaptive_executor_pool_size}'::text[]) s"
  was=$(ask set "$settings")
  accented="jsonb_build_array(replace('$(claim set-NAME)', 'NAME', chr(233))::jsonb)"
  expect "a begin under other settings on $node" "$(ask set "SELECT claims.begin_update(1, $accented, lease_uuid => '$(lease 20)')")" "$(lease 20)"
  expect "leave them as they are on $node" "$(ask set "$settings")" "$was"
  ask set "SELECT claims.begin_update(2, $(claims_of contended))" >/dev/null
  expect "an error leaves them on $node" "$(ask set "$settings")" "$was"
  expect "in a transaction on $node" "$(ask set "BEGIN; SELECT claims.rollback_update(1, '$(lease 20)'); $settings; SAVEPOINT s; SELECT claims.begin_update(2, $(claims_of contended)); ROLLBACK TO s; $settings; COMMIT; $settings")" "t $was ERROR:  23505 $was $was"
  ask set "SELECT claims.begin_update(1, jsonb_build_array(replace('$(claim set-NAME)', 'NAME', E'x\\\\\\\\y\\\\\"z\\'')::jsonb), lease_uuid => '$(lease 21)')" >/dev/null
  expect "a name with a backslash and quotes, on $node" "$(ask set "SELECT right(bucket_value, 6) FROM claims.list_records(1) WHERE bucket_value LIKE 'set-x%'")" "x\\y\"z'"
  expect "a repeat of its request, on $node" "$(ask set "SELECT claims.begin_update(1, jsonb_build_array(replace('$(claim set-NAME)', 'NAME', E'x\\\\\\\\y\\\\\"z\\'')::jsonb), lease_uuid => '$(lease 21)')")" "$(lease 21)"
  ask set "SELECT claims.rollback_update(1, '$(lease 21)')" >/dev/null
  expect "nothing of it is left on $node" "$(sql "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'set-%'")" 0
  expect "the time of a lease on $node" "$(ask set "SELECT claims.begin_update(1, $accented) IS NOT NULL; SELECT created_at BETWEEN now() - interval '1 minute' AND now() + interval '1 minute' FROM claims.get_record('ROUTES', 'set-' || chr(233))")" 't t'
  sql "SELECT claims.settle_leases(1, '{}', ARRAY(SELECT lease_uuid FROM claims.list_leases(1)))" >/dev/null
  ask set "DELETE FROM claims.lease_outcomes" >/dev/null
  ask set '\q' >/dev/null || true
  rm -f "$CLAIMS_TMP/set.in" "$CLAIMS_TMP/set.out"
done
on_coordinator

# --- big batches ------------------------------------------------------------------------------------------------------------
expect 'a batch of 1,000' "$(on_worker 1; sql "SELECT claims.begin_update(1, $(numbered many 1000), lease_uuid => '$(lease 6)')")" "$(lease 6)"
expect 'its conflicts' "$(sql "SELECT jsonb_array_length(conflicts) FROM claims.try_begin_update(2, $(numbered many 1000))")" 1000
expect 'its end' "$(on_worker 2; sql "SELECT claims.commit_update(1, '$(lease 6)')")" t
expect 'all ACTIVE' "$(sql "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'many-%' AND status = 1")" 1000
expect 'one conflict of 300' "$(sql "SELECT jsonb_array_length(conflicts) FROM claims.try_begin_update(2, $(numbered many 1) || $(numbered others 300))")" 1
expect 'nothing of it is kept' "$(sql "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'others-%'")" 0
expect 'an error keeps nothing, whatever the caller sets' "$(psql -XqAt -v VERBOSITY=sqlstate -c "SET citus.function_opens_transaction_block = off" -c "SELECT claims.begin_update(2, $(numbered others 300) || $(numbered many 1))" 2>&1; sql "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'others-%'")" $'ERROR:  23505\n0'
expect 'destroyed' "$(on_worker 1; sql "SELECT claims.commit_update(1, claims.begin_update(1, '[]', (SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', 'many-' || n))) FROM generate_series(1, 1000) n)))")" t
expect 'gone' "$(sql "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'many-%'")" 0

# --- a name on a node whose part of a commit is prepared and not committed ----------------------------------------------------
prepared_node() { sql "SELECT substring(n.nodename FROM 'worker[12]') FROM pg_dist_placement p JOIN pg_dist_node n USING (groupid) WHERE p.shardid = get_shard_id_for_distribution_column('claims.claims', 'prepared'::text)"; }
shard=$(sql "SELECT 'claims.claims_' || get_shard_id_for_distribution_column('claims.claims', 'prepared'::text)")
keeper=$(prepared_node)
prepare() {
  (on_node "$keeper"
   psql -Xq -v ON_ERROR_STOP=1 -c 'SET citus.enable_manual_changes_to_shards = on' -c 'BEGIN' \
     -c "INSERT INTO $shard SELECT gen_random_uuid(), 1, 'prepared', 2, '1', 3, '1', 2, NULL, 1, now(), now()" -c "PREPARE TRANSACTION 'between'")
}
ended() { (on_node "$keeper"; psql -Xq -c "$1 'between'"); }
prepare
quick 'between PREPARE and COMMIT PREPARED' in_flight on_coordinator "$(claims_of prepared)" "'[]'"
ended 'ROLLBACK PREPARED'
quick 'after it was rolled back' '' on_coordinator "$(claims_of prepared)" "'[]'"
sql "SELECT claims.settle_leases(1, '{}', ARRAY(SELECT lease_uuid FROM claims.list_leases(1)))" >/dev/null
prepare
ended 'COMMIT PREPARED'
quick 'after it was committed' taken 'on_worker 1' "$(claims_of prepared)" "'[]'"

# --- what every node hears of -------------------------------------------------------------------------------------------------
expect 'an unknown type' "$(ask one "SELECT count(*) FROM claims.get_record('NEW_TYPE', 'x')")" 22023
sql "SELECT claims.add_bucket_type(100, 'NEW_TYPE', 'casefold', 'reject')" >/dev/null
expect 'a new type, on a worker' "$(ask one "SELECT count(*) FROM claims.get_record('NEW_TYPE', 'x')")" 0
sql "SELECT claims.register_cell(3, 'script_claims_two', 'three')" >/dev/null
expect 'a new cell' "$(ask two "SET ROLE script_claims_two; SELECT claims.lease_outcome(3, '$(lease 1)') IS NULL; RESET ROLE")" t
sql "SELECT claims.set_mode('read_only', 'a test')" >/dev/null
expect 'a mode' "$(ask two "SELECT claims.begin_update(1, $(claims_of mode))")" 55000
sql "SELECT claims.set_mode('open', 'a test')" >/dev/null
new() { printf '[{"bucket": {"type": "NEW_TYPE", "value": "%s"}, "subject": {"type": "GROUP", "id": 1}, "source": {"type": "RAILS_TABLE_ROUTES", "id": 1}}]' "$1"; }
expect 'names that look alike: one' "$(on_worker 1; sql "SELECT claims.commit_update(1, claims.begin_update(1, '$(new Paypal)'))")" t
quick 'the other one' confusable 'on_worker 2' "'$(new 'pаypal')'" "'[]'"
expect 'a reserved name' "$(sql "SELECT claims.reserve_names('ROUTES', '{admin,root}', 'a test')")" 2
quick 'is nobody'"'"'s' reserved 'on_worker 2' "$(claims_of admin)" "'[]'"
expect 'given free' "$(sql "SELECT claims.unreserve_names('ROUTES', '{admin,root}', 'a test')")" 2
expect 'the first of several that can be had' "$(on_worker 2; sql "SELECT chosen FROM claims.begin_first(1, '[{\"create_records\": [$(claim contended)]}, {\"create_records\": [$(claim fresh)]}]')")" 2

# --- what there is not -----------------------------------------------------------------------------------------------------------
expect 'REPEATABLE READ' "$(sqlstate 'BEGIN ISOLATION LEVEL REPEATABLE READ; '"SELECT count(*) FROM claims.get_record('ROUTES', 'x')")" 0A000
expect 'SERIALIZABLE' "$(sqlstate 'BEGIN ISOLATION LEVEL SERIALIZABLE; '"SELECT claims.begin_update(1, $(claims_of serial))")" 0A000
expect 'PREPARE TRANSACTION' "$(sqlstate "BEGIN; SELECT claims.begin_update(1, $(claims_of twophase)); PREPARE TRANSACTION 'x'")" 0A000
expect 'a rate, not preloaded' "$(sqlstate "SELECT claims.set_cell_limits(1, 'a test', begins_per_second => 5)")" 22023
expect 'expiring claims' "$(message "SELECT * FROM claims.acquire_expiring('a', 'b', '1 min')")" 'distributed claims do not have this function'
expect 'tracked leases' "$(message "SELECT claims.track_lease('$(lease 8)')")" 'distributed claims do not have this function'
for call in "claims.register_cell(4, 'script_claims_one')" "claims.set_mode('open', 'a test')" "claims.add_source_type(100, 'X')" "claims.purge_outcomes()" "claims.grant_read('script_claims_router')"; do
  expect "on a worker: $call" "$(on_worker 1; message "SELECT $call")" 'distributed claims are administered on the coordinator'
done

# --- in the end ---------------------------------------------------------------------------------------------------------------------
settle_all
sql "DELETE FROM claims.claims WHERE bucket_value = 'prepared'"
expect_clean 'in the end'
(on_worker 1; expect_clean 'on a worker')
sql "UPDATE claims.claims SET status = 2 WHERE bucket_value = 'before-3' AND bucket_type = 1"
expect 'a violation is found' "$(sql "SELECT coalesce(string_agg(problem, ', '), '-') FROM claims.check()")" 'status and lease do not agree'
sql "UPDATE claims.claims SET status = 1 WHERE bucket_value = 'before-3' AND bucket_type = 1"

echo ok
