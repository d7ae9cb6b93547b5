#!/usr/bin/env bash
# Begins and settlements send few messages to other nodes, each for all shards of a node. Writes that Citus does not know of do no harm:
# shards that are being moved are not written, and a transaction that has statements of its own finds what it has written.
. "$(dirname "$0")/../citus.bash"

# pg_dist_transaction keeps a row for each node of a commit in two phases.
citus_cluster 2 -c citus.recover_2pc_interval=-1
citus_service
citus_spread 8

# batch PREFIX COUNT [TYPE]: so many names of a type, as SQL.
batch() { printf "(SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', '%s', 'value', '%s-' || n), 'subject', jsonb_build_object('type', 'GROUP', 'id', n), 'source', jsonb_build_object('type', 'RAILS_TABLE_ROUTES', 'id', n))) FROM generate_series(1, %s) n)" "${3:-ROUTES}" "$1" "$2"; }
buckets() { printf "(SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', '%s-' || n))) FROM generate_series(1, %s) n)" "$1" "$2"; }
active() { sql "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE '$1-%' AND status = 1 AND lease_uuid IS NULL"; }
there() { sql "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE '$1-%'"; }
# said STATEMENT...: what a session that has plans and connections says to other nodes in the last of them.
said() {
  local commands=() statement
  for statement in "${@:1:$#-1}"; do commands+=(-c "$statement"); done
  psql -XqAt "${commands[@]}" -c "SET citus.log_remote_commands = on" -c "${!#}" 2>&1 >/dev/null | grep -oE 'issuing .*' | cut -c9- || true
}
count() { grep -c "$1" || true; }
save() { printf 'SELECT claims.commit_update(1, claims.begin_update(1, %s))' "$1"; }

# --- how many ---------------------------------------------------------------------------------------------------------------
warm=$(save "$(batch warm 30)")
begun=$(said "$warm" "SELECT claims.begin_update(1, $(batch single 1), lease_uuid => NULL)")
expect 'a begin of one claim: BEGIN, one statement, RELEASE, COMMIT' "$(wc -l <<<"$begun")" 4
single=$(sql "SELECT lease_uuid FROM claims.list_leases(1)")
ended=$(said "$(save "$(batch warmer 1)")" "SELECT claims.commit_update(1, '$single')")
expect 'its commit: BEGIN, the lease, the claim, RELEASE, COMMIT' "$(wc -l <<<"$ended")" 5
expect 'they wait for locks there as long as they may' "$(printf '%s\n' "$begun" "$ended" | count 'SAVEPOINT.*SET LOCAL lock_timeout')" 2
expect 'and leave it' "$(printf '%s\n' "$begun" "$ended" | count '^SET')" 0
expect 'ACTIVE' "$(active single)" 1
begun=$(said "$warm" "SELECT claims.begin_update(1, $(batch many 30), lease_uuid => '$(lease 1)')")
expect 'a begin of 30 claims: a statement for each node' "$(count '^INSERT' <<<"$begun")" 2
expect 'two phases' "$(count PREPARE <<<"$begun")$(count '^COMMIT PREPARED' <<<"$begun")" 42
ended=$(said "$warm" "SELECT claims.commit_update(1, '$(lease 1)')")
expect 'its commit: the lease, and a statement for each node' "$(grep -c '^DELETE\|^UPDATE' <<<"$ended")" 3
expect 'all ACTIVE' "$(active many)" 30
expect 'the outcome' "$(sql "SELECT claims.lease_outcome(1, '$(lease 1)')") $(sql "SELECT count(request_digest) FROM claims.lease_outcomes WHERE lease_uuid = '$(lease 1)'")" 'committed 1'
# Ten names of the first worker, and a lease there.
of_one_node=$(sql "SELECT string_agg(name, ' ') FROM (SELECT 'one-' || n AS name FROM generate_series(1, 100) n
  JOIN pg_dist_placement p ON p.shardid = get_shard_id_for_distribution_column('claims.claims', 'one-' || n)
 WHERE p.groupid = (SELECT min(groupid) FROM pg_dist_node WHERE shouldhaveshards) LIMIT 10) x")
# shellcheck disable=SC2086
begun=$(said "$warm" "SELECT claims.begin_update(1, $(claims_of $of_one_node))")
single=$(sql "SELECT lease_uuid FROM claims.list_leases(1)")
ended=$(said "$warm" "SELECT claims.commit_update(1, '$single')")
expect 'ten claims of one node: as many messages as one claim, and one phase' "$(wc -l <<<"$begun") $(wc -l <<<"$ended") $(printf '%s\n' "$begun" "$ended" | count '^PREPARE')" '4 5 0'
expect 'all ACTIVE' "$(active one)" 10
for n in $(seq 101 140); do printf "SELECT claims.begin_update(1, %s, lease_uuid => '%s');\n" "$(claims_of "settled-$n")" "$(lease "$n")"; done | psql -XqAt -v ON_ERROR_STOP=1 >/dev/null
ended=$(said "$warm" "SELECT count(*) FROM claims.settle_leases(1, ARRAY(SELECT ('00000000-0000-4000-8000-000000000' || n)::uuid FROM generate_series(101, 140) n))")
expect 'settle_leases for 40 leases: two statements for each shard of leases, one for each node of claims' "$(count '^SELECT uuid' <<<"$ended") $(count '^DELETE' <<<"$ended") $(count '^UPDATE' <<<"$ended")" '8 8 2'
expect 'and nothing else but the frame' "$([ "$(wc -l <<<"$ended")" -le 34 ] || echo "$ended")" ''
expect 'all ACTIVE' "$(active settled)" 40
misplaced="SELECT count(*) FROM run_command_on_shards('claims.claims', \$\$SELECT count(*) FROM %1\$s c WHERE get_shard_id_for_distribution_column('claims.claims', c.bucket_value) <> substring('%1\$s' FROM '[0-9]+\$')::bigint\$\$) WHERE result IS DISTINCT FROM '0'"
expect 'every claim is in its shard' "$(sql "$misplaced")" 0

# --- an import ------------------------------------------------------------------------------------------------------------------
# imported PREFIX LIST: what an import of the list says to other nodes. Its answer is in a file.
imported() {
  psql -XqAt -c "$warm" -c "SELECT claims.import_records(1, ($(batch "warm-$1" 30))::text)" -c "SET citus.log_remote_commands = on" \
    -c "SELECT string_agg(outcome, ' ') FROM claims.import_records(1, ($2)::text)" 2>"$CLAIMS_TMP/issued" | tail -1 >"$CLAIMS_TMP/refused"
  grep -oE 'issuing .*' "$CLAIMS_TMP/issued" | cut -c9- || true
}
issued=$(imported new "$(batch new 300)")
expect 'an import of 300 new names: a statement for each node' "$(count '^INSERT' <<<"$issued")" 2
expect 'for each node BEGIN, the statement, RELEASE, PREPARE and COMMIT PREPARED' "$(wc -l <<<"$issued")" 10
expect 'all ACTIVE, each in its shard' "$(active new) $(sql "$misplaced") $(cat "$CLAIMS_TMP/refused")" '300 0 '
# An attempt ends with the first name that exists: on one node, or on both.
attempts() { echo $((($(count '^INSERT') + 1) / 2)); }
issued=$(imported again "$(batch new 300)")
expect 'again: what exists is compared' "$(attempts <<<"$issued") $(cat "$CLAIMS_TMP/refused")" '1 '
issued=$(imported more "$(batch new 100) || $(batch more 200)")
expect 'where some exist: a second attempt' "$(attempts <<<"$issued") $(active more) $(cat "$CLAIMS_TMP/refused")" '2 200 '
expect 'its messages' "$([ "$(wc -l <<<"$issued")" -lt 60 ] || wc -l <<<"$issued")" ''
open_session flying
ask flying "BEGIN; SELECT claims.begin_update(2, $(batch air 2))" >/dev/null
issued=$(imported mixed "$(batch air 1) || $(batch mixed 200)")
expect 'where one is in flight: a second attempt for all others, and its own ones' "$([ "$(count '^INSERT' <<<"$issued")" -le 12 ] || echo "$issued") $(active mixed) $(cat "$CLAIMS_TMP/refused")" ' 200 busy'
ask flying 'ROLLBACK' >/dev/null
expect 'in a transaction block' "$(sql "BEGIN; SELECT claims.import_records(1, ($(batch blocked 300))::text); COMMIT") $(active blocked) $(sql "$misplaced")" ' 300 0'
expect 'in a function' "$(sql "DO \$\$ BEGIN PERFORM claims.import_records(1, ($(batch function 300))::text); END \$\$") $(active function) $(sql "$misplaced")" ' 300 0'
expect 'rolled back with its transaction' "$(sql "BEGIN; SELECT claims.import_records(1, ($(batch rolled 300))::text); ROLLBACK") $(there rolled)" ' 0'

# --- corrections, and names of a type that refuses look-alikes ---------------------------------------------------------------------
# corrected LIST: what a correction of cell 2 by the list says to other nodes. What it has found is in a file.
corrected() {
  psql -XqAt -c "SELECT FROM claims.verify_records(2, 'RAILS_TABLE_ROUTES', NULL, NULL, $1, '0 s')" -c "SET citus.log_remote_commands = on" \
    -c "SELECT string_agg(found, ' ' ORDER BY found) FROM (SELECT concat_ws(' ', count(*), discrepancy, outcome) AS found
          FROM claims.verify_records(2, 'RAILS_TABLE_ROUTES', NULL, NULL, $1, '0 s', true) GROUP BY discrepancy, outcome) x" 2>"$CLAIMS_TMP/issued" | tail -1 >"$CLAIMS_TMP/found"
  grep -oE 'issuing .*' "$CLAIMS_TMP/issued" | cut -c9- || true
}
# at_most NUMBER PATTERN: fails with the messages if more of them match.
at_most() { local messages; messages=$(cat); [ "$(count "$2" <<<"$messages")" -le "$1" ] || printf '%s\n' "$messages"; }
issued=$(corrected "$(batch fixed 300)")
expect '300 missing claims: a statement for each node' "$(cat "$CLAIMS_TMP/found"): $(count '^INSERT' <<<"$issued")" '300 missing corrected: 2'
expect 'all ACTIVE, each in its shard' "$(active fixed) $(sql "$misplaced")" '300 0'
other="replace($(batch fixed 200)::text, '\"GROUP\"', '\"USER\"')::jsonb"
issued=$(corrected "$other")
expect '200 that differ, and 100 extra ones' "$(cat "$CLAIMS_TMP/found")" '100 extra corrected 200 different corrected'
expect 'a statement for each shard' "$(at_most 8 '^UPDATE' <<<"$issued")$(at_most 8 '^DELETE' <<<"$issued")" ''
user=$(sql "SELECT id FROM claims.subject_types WHERE name = 'USER'")
expect 'each has the subject that belongs to it' "$(sql "SELECT count(*), count(*) FILTER (WHERE bucket_value = 'fixed-' || source_id AND subject_id = source_id AND subject_type = $user) FROM claims.claims WHERE bucket_value LIKE 'fixed-%'")" '200|200'
issued=$(corrected "'[]'::jsonb")
expect 'all of them extra' "$(cat "$CLAIMS_TMP/found") $(at_most 8 '^DELETE' <<<"$issued")$(there fixed)" '200 extra corrected 0'

sql "SELECT claims.add_bucket_type(101, 'LOOKS', 'casefold', 'reject')" >/dev/null
skeletons() { sql "SELECT count(*) FROM claims.skeletons"; }
issued=$(imported looking "$(batch looking 300 LOOKS)")
expect 'an import of 300 names that refuse look-alikes' "$(active looking) $(skeletons) $(cat "$CLAIMS_TMP/refused")" '300 300 '
expect 'a statement for each node, two for each shard of skeletons' "$(count '^INSERT INTO claims.claims' <<<"$issued") $(at_most 8 '^INSERT INTO claims.skeletons' <<<"$issued")$(at_most 8 is_look_reserved <<<"$issued")" '2 '
expect 'and nothing else but the comparison and the frame' "$([ "$(wc -l <<<"$issued")" -le 64 ] || echo "$issued")" ''
expect 'a look-alike of one of them' "$(imported twin "replace($(batch looking 1 LOOKS)::text, 'looking-1', 'looking-l')::jsonb || $(batch alone 20 LOOKS)" >/dev/null; cat "$CLAIMS_TMP/refused"; active alone)" $'confusable\n20'
begun=$(said "$(save "$(batch warmed 30 LOOKS)")" "SELECT claims.begin_update(1, $(batch seen 30 LOOKS), lease_uuid => '$(lease 7)')")
expect 'a begin' "$(at_most 8 '^INSERT INTO claims.skeletons' <<<"$begun")$(at_most 8 is_look_reserved <<<"$begun") $(skeletons)" ' 380'
ended=$(said "$warm" "SELECT claims.rollback_update(1, '$(lease 7)')")
expect 'its end' "$(at_most 16 'claims.skeletons' <<<"$ended") $(there seen) $(skeletons)" ' 0 350'

# --- names of a type that keeps them back ------------------------------------------------------------------------------------------
sql "SELECT claims.add_bucket_type(102, 'KEPT')" >/dev/null
sql "SELECT claims.set_quarantine('KEPT', '1 day', 'a test')" >/dev/null
statuses() { sql "SELECT string_agg(status || ': ' || n, ', ' ORDER BY status) FROM (SELECT status, count(*) AS n FROM claims.claims WHERE bucket_value LIKE '$1-%' GROUP BY 1) x"; }
begun=$(said "$(save "$(batch used 30 KEPT)")" "SELECT claims.begin_update(1, $(batch kept 30 KEPT), lease_uuid => '$(lease 21)')")
expect 'a begin: a statement for each node, and the frame' "$(count '^INSERT' <<<"$begun") $([ "$(wc -l <<<"$begun")" -le 11 ] || echo "$begun")" '2 '
ended=$(said "$warm" "SELECT claims.commit_update(1, '$(lease 21)')")
expect 'the commit of creates: the lease, and a statement for each node' "$(grep -c '^DELETE\|^UPDATE' <<<"$ended")" 3
sql "SELECT claims.begin_update(1, '[]', $(buckets kept 30 | sed 's/ROUTES/KEPT/'), '$(lease 22)')" >/dev/null
ended=$(said "$warm" "SELECT claims.commit_update(1, '$(lease 22)')")
expect 'the commit of destroys: a statement for each shard keeps their names back' "$(statuses kept) $(at_most 8 '^UPDATE' <<<"$ended")$(at_most 1 '^DELETE' <<<"$ended")" '5: 30 '
# The other 29 claims of the lease have no statements of their own.
sql "SELECT claims.begin_update(1, $(batch kept 1 KEPT) || $(batch beside 29 KEPT), lease_uuid => '$(lease 23)')" >/dev/null
ended=$(said "$warm" "SELECT claims.commit_update(1, '$(lease 23)')")
expect 'the commit of a name that is taken back, among others' "$(statuses kept) $(statuses beside) $(count 'SET uuid' <<<"$ended")" '1: 1, 5: 29 1: 29 1'
expect 'which is found by a look at each shard' "$(at_most 8 '^SELECT bucket_type' <<<"$ended")" ''
sql "SELECT claims.begin_update(1, replace(($(batch kept 2 KEPT))::text, 'kept-1', 'new-1')::jsonb || $(batch undone 29 KEPT), lease_uuid => '$(lease 25)')" >/dev/null
expect 'its rollback' "$(sql "SELECT claims.rollback_update(1, '$(lease 25)')") $(statuses kept) $(there undone)" 't 1: 1, 5: 29 0'
sql "SELECT claims.begin_update(1, $(batch forced 30 KEPT), lease_uuid => '$(lease 24)')" >/dev/null
ended=$(said "$warm" "SELECT claims.force_rollback(1, '$(lease 24)', 'a test')")
expect 'a forced rollback: a statement for each shard, after a look' "$(statuses forced) $(at_most 8 '^UPDATE' <<<"$ended")$(at_most 8 '^SELECT bucket_type' <<<"$ended")" '5: 30 '

# --- the other ends -----------------------------------------------------------------------------------------------------------
sql "SELECT claims.begin_update(1, $(batch undone 30), $(buckets many 20), '$(lease 2)')" >/dev/null
expect 'a rollback' "$(sql "SELECT claims.rollback_update(1, '$(lease 2)')") $(there undone) $(active many)" 't 0 30'
expect 'destroyed, and replaced' "$(sql "SELECT claims.commit_update(1, claims.begin_update(1, $(batch many 10), $(buckets many 20)))") $(active many)" 't 20'
both="$(batch twin 12) || $(batch twin 12 USERNAMES) || $(batch twin 12 EMAILS)"
expect 'values of several types' "$(sql "SELECT claims.commit_update(1, claims.begin_update(1, $both))") $(active twin)" 't 36'
expect 'rolled back' "$(sql "SELECT claims.rollback_update(1, claims.begin_update(1, replace(($both)::text, 'twin', 'twix')::jsonb))") $(there twix)" 't 0'
sql "SELECT claims.begin_update(1, $(batch damaged 30), lease_uuid => '$(lease 3)')" >/dev/null
sql "DELETE FROM claims.claims WHERE bucket_value = 'damaged-17'"
expect 'a claim that is not there' "$(sqlstate "SELECT claims.commit_update(1, '$(lease 3)')")" XX001
expect 'leaves all as it was' "$(active damaged) $(there damaged) $(sql "SELECT claims.lease_outcome(1, '$(lease 3)')")" '0 29 outstanding'
sql "INSERT INTO claims.claims SELECT gen_random_uuid(), bucket_type, 'damaged-17', subject_type, subject_id, source_type, source_id, creator_id, lease_uuid, status, created_at, updated_at FROM claims.claims WHERE bucket_value = 'damaged-16'"
expect 'there again' "$(sql "SELECT claims.commit_update(1, '$(lease 3)')") $(active damaged)" 't 30'
expect 'one of 30 is taken: nothing is kept' "$(sql "SELECT jsonb_array_length(conflicts) FROM claims.try_begin_update(2, $(batch other 30) || $(batch many 1))") $(there other)" '1 0'
expect 'forms that names were given in' "$(sql "SELECT claims.add_bucket_type(100, 'FOLDED', 'casefold')" >/dev/null; sql "$(save "$(batch Folded 30 FOLDED)")") $(sql "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'folded-%' AND display_value LIKE 'Folded-%'")" 't 30'

# --- the saves of a cell ------------------------------------------------------------------------------------------------------
start_cluster cell --fast
sql "CREATE EXTENSION claims; CREATE ROLE app LOGIN; SELECT claims.register_cell(1, 'app');
  CREATE SERVER service FOREIGN DATA WRAPPER claims_service OPTIONS (host '${CLUSTER_DIR[coordinator]}', port '${CLUSTER_PORT[coordinator]}', dbname '$CITUS_DATABASE');
  ALTER DATABASE postgres SET claims.service_timeout = '20s';
  CREATE USER MAPPING FOR postgres SERVER service OPTIONS (user 'script_claims_one');
  CREATE TABLE routes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text);
  GRANT SELECT, INSERT ON routes TO app;
  SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id');
  SELECT claims.automatic(1, 'service')" >/dev/null
two_phases() { (on_coordinator; sql 'SELECT count(*) FROM pg_dist_transaction'); }
outstanding() { (on_coordinator; sql 'SELECT count(*) FROM claims.list_leases(1)'); }
before=$(two_phases)
for n in $(seq 1 40); do echo "INSERT INTO routes (name) VALUES ('cell-$n');"; done | PGUSER=app psql -Xq -v ON_ERROR_STOP=1
expect 'they are settled' "$(wait_for 0 outstanding)" 0
expect 'lease and claim are on one node, and each commit has one phase' "$(($(two_phases) - before))" 0
on_coordinator
expect 'all ACTIVE' "$(active cell)" 40

# --- where it must not be so --------------------------------------------------------------------------------------------------
begun=$(said "$warm" BEGIN "SELECT claims.begin_update(1, $(batch block 30), lease_uuid => '$(lease 4)')")
expect 'in a transaction block Citus knows of each shard' "$(count on_node <<<"$begun")" 0
expect 'and waits are as before afterwards' "$(count '^SET LOCAL lock_timeout = 0' <<<"$begun")" 2
begun=$(said "$warm" "DO \$\$ BEGIN PERFORM claims.begin_update(1, $(batch done 30), lease_uuid => '$(lease 4)'); END \$\$")
expect 'in a function, too' "$(count create_on_node <<<"$begun")" 0
sql "SELECT claims.rollback_update(1, '$(lease 4)')" >/dev/null
parallel() { psql -XqAt -v VERBOSITY=terse -c "SET citus.force_max_query_parallelization = on" "$@" 2>&1 | tail -1; }
for turn in 1 2 3; do
  expect 'a transaction that has read in several connections' "$(parallel -c BEGIN -c 'SELECT count(*) FROM claims.claims' -c "SELECT claims.begin_update(1, $(batch "mixed$turn" 30), lease_uuid => '$(lease "1$turn")') IS NOT NULL" -c 'SELECT count(*) FROM claims.claims' -c "SELECT claims.commit_update(1, '$(lease "1$turn")')" -c COMMIT)" t
  expect 'has all' "$(active "mixed$turn")" 30
done
expect 'a function that reads so' "$(parallel -c "DO \$\$ BEGIN PERFORM count(*) FROM claims.claims; PERFORM claims.begin_update(1, $(batch inner 30), lease_uuid => '$(lease 5)'); PERFORM count(*) FROM claims.claims; PERFORM claims.commit_update(1, '$(lease 5)'); END \$\$" -c "SELECT 'done'")" done
expect 'has all' "$(active inner)" 30
expect 'two calls of one statement' "$(sql "$(save "$(batch inone 30)")") $(active inone)" 't 30'
expect 'an error in the statement undoes them' "$(sqlstate "SELECT claims.begin_update(1, $(batch undone 30)), 1 / (SELECT count(*) - count(*) FROM pg_class)") $(there undone)" '22012 0'
expect 'whatever the caller sets' "$(psql -XqAt -v VERBOSITY=sqlstate -c 'SET citus.function_opens_transaction_block = off' -c "SELECT claims.begin_update(1, $(batch undone 30)), 1 / (SELECT count(*) - count(*) FROM pg_class)" 2>&1) $(there undone)" 'ERROR:  22012 0'

# --- shards that are being moved ------------------------------------------------------------------------------------------------
# Citus holds this lock on a shard from when it has copied the last row until the shard is elsewhere.
sql "SELECT claims.begin_update(1, $(batch early 30), lease_uuid => '$(lease 6)')" >/dev/null
mkfifo "$CLAIMS_TMP/mover"
# Those of one node: Citus itself plans to write into one of them, at most.
for shard in $(sql "SELECT shardid FROM pg_dist_shard WHERE logicalrelid = 'claims.claims'::regclass AND shardid % 2 = 0"); do
  psql -XqAt <"$CLAIMS_TMP/mover" >/dev/null 2>&1 &
  exec {mover}>"$CLAIMS_TMP/mover"
  echo "BEGIN; SELECT lock_shard_metadata(7, ARRAY[$shard::bigint]);" >&"$mover"
  for _ in $(seq 1 100); do [ "$(sql "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND objid = $shard")" = 0 ] || break; sleep 0.05; done
  expect "a begin while shard $shard moves" "$(sql "SELECT conflicts -> 0 ->> 'reason' FROM claims.try_begin_update(1, $(batch "moved$shard" 30))") $(there "moved$shard")" 'in_flight 0'
  expect "a commit while shard $shard moves" "$(sqlstate "SELECT claims.commit_update(1, '$(lease 6)')")" 55P03
  exec {mover}>&-
  wait $!
done
expect 'afterwards' "$(sql "SELECT claims.commit_update(1, '$(lease 6)')") $(active early)" 't 30'
sql "SELECT claims.settle_leases(1, '{}', ARRAY(SELECT lease_uuid FROM claims.list_leases(1)))" >/dev/null
# A statement that only reads takes no such lock. It may come to the node when the shard has left it, which a rename stands for.
read -r shard port < <(sql "SELECT p.shardid, p.nodeport FROM pg_dist_shard_placement p WHERE p.shardid = get_shard_id_for_distribution_column('claims.claims', 'early-1')" | tr '|' ' ')
node=$(for name in worker1 worker2; do [ "${CLUSTER_PORT[$name]}" != "$port" ] || echo "$name"; done)
rename() { on_node "$node"; sql "SET citus.override_table_visibility = off; SET citus.enable_ddl_propagation = off; ALTER TABLE claims.$1 RENAME TO $2"; on_coordinator; }
rename "claims_$shard" away
expect 'a look-up whose shard has left the node' "$(sqlstate "SELECT * FROM claims.get_record('ROUTES', 'early-1')")" 55P03
expect 'says so' "$(message "SELECT * FROM claims.get_record('ROUTES', 'early-1')")" 'a shard of claims was moved while a statement was on its way to it'
rename away "claims_$shard"
expect 'and finds it again' "$(sql "SELECT status FROM claims.get_record('ROUTES', 'early-1')")" ACTIVE
expect 'check() finds nothing' "$(sql "SELECT coalesce(string_agg(problem || ' ' || coalesce(detail, ''), ', '), '-') FROM claims.check()")" -
echo ok
