#!/usr/bin/env bash
# The change feed on distributed tables: every node returns the same changes in the same order, each once and none left out, with late commits,
# crashes and commits between their two phases; no reader gets a change that another node does not show yet.
. "$(dirname "$0")/../citus.bash"

# Without autovacuum: where a table has statistics, planning a query reads rows at the ends of its index, which are counted below.
CITUS_SETTINGS='-c shared_preload_libraries=citus,claims -c claims.change_feed=on -c citus.recover_2pc_interval=-1 -c max_connections=60 -c autovacuum=off'
citus_cluster 2
citus_service
save() { sql "SELECT claims.commit_update($1, claims.begin_update($1, $2, ${3:-"'[]'"}))"; }
cursor() { sql 'SELECT claims.change_cursor()'; }
# Waits until no transaction on the node of the feed delays committed changes. (Autovacuum has some, too.)
decided() {
  local _
  for _ in $(seq 1 200); do
    [ "$(sql "SELECT count(*) FROM claims.change_sets s WHERE s.era = (SELECT h.era FROM claims.change_horizon h) AND s.xid >= pg_snapshot_xmin(pg_current_snapshot())")" != 0 ] || return 0
    sleep 0.05
  done
  echo 'FAILED: the feed is never decided' >&2; exit 1
}
# told AFTER: prints the changes after a cursor.
told() { sql "SELECT string_agg(concat_ws(' ', op, bucket_value, coalesce(old_cell_id::text, '-'), coalesce(new_cell_id::text, '-')), ', ') FROM claims.list_changes('$1')"; }
# expect_told NAME AFTER WANTED: expects the changes after a cursor, on every node.
expect_told() { local node; (on_coordinator; decided); for node in "${NODES[@]}"; do expect "$1, $node" "$($node; told "$2")" "$3"; done; }

# --- a feed that there is before ------------------------------------------------------------------------------------------------------
have 1 early
early=$(cursor)
have 1 later
citus_spread 8
for node in "${NODES[@]}"; do
  $node
  expect "a place from before, $node" "$(sqlstate "SELECT * FROM claims.list_changes('$early')")" 55000
  expect "the history from before, $node" "$(sql "SELECT op || ' ' || cell_id FROM claims.bucket_history('ROUTES', 'later')")" 'create 1'
done
on_coordinator
feed=$(sql "SELECT substring(n.nodename FROM 'worker[12]') FROM pg_dist_shard s JOIN pg_dist_placement p USING (shardid) JOIN pg_dist_node n USING (groupid) WHERE s.logicalrelid = 'claims.change_sets'::regclass")
other=worker$((3 - ${feed#worker}))
# kept_by NODE PREFIX COUNT: names that a worker keeps.
kept_by() {
  sql "SELECT string_agg(v, ' ' ORDER BY v) FROM (SELECT v FROM generate_series(1, 200) i, LATERAL (SELECT '$2-' || i) x (v)
         JOIN pg_dist_placement p ON p.shardid = get_shard_id_for_distribution_column('claims.claims', v) JOIN pg_dist_node n USING (groupid)
        WHERE n.nodename LIKE '%$1%' ORDER BY i LIMIT $3) f"
}

# --- the changes of calls on every node -----------------------------------------------------------------------------------------------
# shellcheck disable=SC2046
for node in "${NODES[@]}"; do
  key=${node// /-}
  on_coordinator
  here=$(kept_by "$feed" "$key" 1) there=$(kept_by "$other" "$key" 1)
  place=$(cursor)
  $node
  save 1 "$(claims_of "$here" "$there")" >/dev/null
  expect_told "creates, called $node" "$place" "create $here - 1, create $there - 1"
  place=$(cursor)
  $node
  save 1 "$(claims_of "$here")" "$(buckets_of "$here" "$there")" >/dev/null
  expect_told "a destroy, then what is replaced, called $node" "$place" "destroy $there 1 -, replace $here 1 1"
  place=$(cursor)
  $node
  sql "SELECT claims.rollback_update(1, claims.begin_update(1, $(claims_of "$there")))" >/dev/null
  sql "BEGIN; SELECT claims.commit_update(1, claims.begin_update(1, $(claims_of "$there"))); ROLLBACK" >/dev/null
  sql "BEGIN; SAVEPOINT s; SELECT claims.commit_update(1, claims.begin_update(1, $(claims_of "$there"))); ROLLBACK TO s; SELECT claims.commit_update(2, claims.begin_update(2, $(claims_of "$there-2"))); COMMIT" >/dev/null
  psql -Xq -c 'SET citus.function_opens_transaction_block = off' -c "SELECT claims.commit_update(1, claims.begin_update(1, $(claims_of "$there")))::int / 0" >/dev/null 2>&1 || true
  expect_told "what is rolled back is not told, called $node" "$place" "create $there-2 - 2"
  place=$(cursor)
  $node
  sql "SELECT claims.begin_update(1, $(claims_of "$key-many-1" "$key-many-2"), lease_uuid => '$(lease 1)'), claims.begin_update(1, $(claims_of "$key-many-3"), lease_uuid => '$(lease 2)')" >/dev/null
  expect "several leases, called $node" "$(sql "SELECT count(*) FROM claims.settle_leases(1, ARRAY['$(lease 1)', '$(lease 2)']::uuid[]) WHERE settled")" 2
  expect_told "of several leases, called $node" "$place" "create $key-many-1 - 1, create $key-many-2 - 1, create $key-many-3 - 1"
  place=$(cursor)
  $node
  expect "corrections, called $node" "$(sql "SELECT count(*) FROM claims.verify_records(2, 'RAILS_TABLE_USERS', NULL, NULL, jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'USERNAMES', 'value', '$key-found'), 'subject', jsonb_build_object('type', 'USER', 'id', 1), 'source', jsonb_build_object('type', 'RAILS_TABLE_USERS', 'id', 1))), '0 s', true)")" 1
  expect_told "corrections, called $node" "$place" "create $key-found - 2"
  $node
  sql "SELECT count(*) FROM claims.verify_records(2, 'RAILS_TABLE_USERS', NULL, NULL, '[]', '0 s', true)" >/dev/null
  sql "DELETE FROM claims.lease_outcomes" >/dev/null
done
on_coordinator
place=$(cursor)
sql "SELECT claims.begin_update(2, $(claims_of forced), lease_uuid => '$(lease 3)')" >/dev/null
sql "SELECT claims.force_rollback(2, '$(lease 3)', 'a test')" >/dev/null
expect_told 'forced' "$place" 'destroy forced 2 -'
place=$(cursor)
expect 'released' "$(sql "SELECT claims.release_records(2, 'a test')" 2>/dev/null)" 3
decided
expect 'of what is released' "$(on_worker 2; sql "SELECT count(*), count(DISTINCT bucket_value) FROM claims.list_changes('$place') WHERE op = 'destroy' AND old_cell_id = 2")" '3|3'
place=$(cursor)
big() { printf "(SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', '%s-' || n), 'subject', jsonb_build_object('type', 'GROUP', 'id', n), 'source', jsonb_build_object('type', 'RAILS_TABLE_ROUTES', 'id', n))) FROM generate_series(1, %s) n)" "$1" "$2"; }
expect 'a big batch' "$(on_worker 1; save 1 "$(big big 1500)")" t
decided
pages="DO \$\$ DECLARE c record; place text := '$place'; was bigint := 0; found boolean; names text[] := '{}'; BEGIN
  FOR round IN 1..100 LOOP found := false;
    FOR c IN SELECT * FROM claims.list_changes(place, 333) LOOP
      IF c.id <= was THEN RAISE 'out of order'; END IF;
      was := c.id; place := c.cursor; found := true; names := names || c.bucket_value;
    END LOOP; EXIT WHEN NOT found; END LOOP;
  IF cardinality(names) <> 1500 OR (SELECT count(DISTINCT n) FROM unnest(names) n) <> 1500 THEN RAISE '% names', cardinality(names); END IF; END \$\$"
for node in "${NODES[@]}"; do expect "in pages, $node" "$($node; sqlstate "$pages")" 00000; done
expect 'of one type' "$(on_worker 2; sql "SELECT count(*) FROM claims.list_changes('$place', 10, 'USERNAMES')")" 0
# The node of the feed reads its shard in the session that asks, which counts the rows that it has read by the index: those of
# the page, and that of the place three times.
on_coordinator
shard=$(sql "SELECT shardid FROM pg_dist_shard WHERE logicalrelid = 'claims.change_sets'::regclass")
single=$(save 1 "$(claims_of single)" >/dev/null; decided; cursor)
sql "INSERT INTO claims.change_sets (xid, id, at, op, new_cell_id, actor, bucket_types, bucket_values, era)
     SELECT s.xid, s.id + 1024 * n, s.at, s.op, s.new_cell_id, s.actor, s.bucket_types, ARRAY['copy'], s.era FROM claims.change_sets s, generate_series(1, 3000) n WHERE s.bucket_values = ARRAY['single']"
read_for() { (on_worker "${feed#worker}"; sql "BEGIN; SET LOCAL citus.override_table_visibility = off; SELECT count(*) FROM claims.list_changes('$single', $1, $2); SELECT pg_stat_get_xact_tuples_fetched('claims.change_sets_pkey_$shard'::regclass); COMMIT" | tr '\n' ' '); }
expect 'a page reads what it returns' "$(read_for 1 NULL)$(read_for 1000 NULL)$(read_for 2500 NULL)" '1 4 1000 1003 2500 2503 '
expect 'so does one of a type' "$(read_for 1 "'ROUTES'")$(read_for 2500 "'ROUTES'")" '1 4 2500 2503 '
sql "DELETE FROM claims.change_sets WHERE bucket_values = ARRAY['copy']"
for node in "${NODES[@]}"; do
  $node
  expect "a router, $node" "$(sql "SET ROLE script_claims_router; SELECT count(*) FROM claims.list_changes('$place', 7)")" 7
  expect "a cell, $node" "$(sqlstate "SET ROLE script_claims_one; SELECT count(*) FROM claims.list_changes()")" 42501
  expect "REPEATABLE READ, $node" "$(sqlstate 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM claims.list_changes()')" 0A000
  expect "READ ONLY, $node" "$(sql "BEGIN READ ONLY; SELECT count(*) FROM claims.list_changes('$place', 7); COMMIT")" 7
  expect "nonsense, $node" "$(sqlstate "SELECT * FROM claims.list_changes('nonsense')")" 22023
done
on_worker 1
expect 'who listens hears it' "$(psql -XqAt -c 'LISTEN claims_changes' -c 'SET claims.notify_changes = on' -c "SELECT claims.commit_update(1, claims.begin_update(1, $(claims_of heard heard-2 heard-3 heard-4)))" | grep -c 'Asynchronous notification "claims_changes"')" 1
on_coordinator
expect 'the history of a name, by its order' "$(on_worker 1; save 1 "$(claims_of passed)"; save 1 "'[]'" "$(buckets_of passed)"; on_worker 2; save 2 "$(claims_of passed)"; sql "SELECT string_agg(concat_ws(' ', op, cell_id), ', ' ORDER BY since) FROM claims.bucket_history('ROUTES', 'passed')")" $'t\nt\nt\ncreate 1, destroy, create 2'

# --- who is late --------------------------------------------------------------------------------------------------------------------------
on_coordinator
place=$(cursor)
on_worker 2; open_session late
on_coordinator
expect 'a save in an open transaction' "$(ask late "BEGIN; SELECT claims.commit_update(1, claims.begin_update(1, $(claims_of late-1 late-2 late-3)))")" t
on_worker 1; save 2 "$(claims_of younger-1 younger-2 younger-3)" >/dev/null
for node in "${NODES[@]}"; do expect "keeps back what is younger, $node" "$($node; told "$place")" ''; done
beginner=$(on_coordinator; cursor)
ask late COMMIT >/dev/null
all='create late-1 - 1, create late-2 - 1, create late-3 - 1, create younger-1 - 2, create younger-2 - 2, create younger-3 - 2'
expect_told 'until it ends' "$place" "$all"
expect_told 'who began meanwhile misses nothing' "$beginner" "$all"
ask late '\q' >/dev/null || true

# --- between the two phases -----------------------------------------------------------------------------------------------------------------
# The coordinator waits for a standby that is not there, with its own commit written, and the workers' parts prepared.
hold_commits() { on_coordinator; sql "ALTER SYSTEM SET synchronous_standby_names = 'nobody'" >/dev/null; sql 'SELECT pg_reload_conf()' >/dev/null; sleep 0.5; }
prepared_on() { (use_cluster "$1"; export PGDATABASE=spread; sql "SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'citus_%'"); }
round=0
for crashed in "$other" "$feed"; do
  round=$((round + 1))
  on_coordinator
  here=$(kept_by "$feed" "between-$round" 1) there=$(kept_by "$other" "between-$round" 1)
  place=$(cursor)
  hold_commits
  PGOPTIONS='-c synchronous_commit=on' psql -XqAt -c "SELECT claims.commit_update(1, claims.begin_update(1, $(claims_of "$here" "$there")))" >"$CLAIMS_TMP/between" 2>&1 &
  between=$!
  for _ in $(seq 1 100); do [ "$(prepared_on worker1) $(prepared_on worker2)" != '1 1' ] || break; sleep 0.1; done
  expect 'prepared on both workers' "$(prepared_on worker1) $(prepared_on worker2)" '1 1'
  sql "ALTER SYSTEM RESET synchronous_standby_names" >/dev/null
  restart_cluster "$crashed" immediate
  on_coordinator
  sql 'SELECT pg_reload_conf()' >/dev/null
  wait "$between" || true
  expect "the commit stands, $crashed has crashed" "$(grep -cx t "$CLAIMS_TMP/between")" 1
  expect "its part waits" "$(prepared_on "$crashed")" 1
  # Another one, after it, on one node.
  (on_worker "${feed#worker}"; save 2 "$(claims_of "$(kept_by "$feed" "behind-$round" 1)")" >/dev/null)
  for node in "${NODES[@]}"; do
    $node
    expect "nobody is told before $crashed shows it, $node" "$(told "$place")" ''
    [ "$crashed" = "$feed" ] || expect "nor gets a place behind it, $node" "$(sqlstate 'SELECT claims.change_cursor()')" 55000
  done
  on_coordinator
  [ "$crashed" = "$feed" ] || expect 'nor is it purged' "$(sql "SELECT claims.purge_changes('0')" >/dev/null; sqlstate "SELECT * FROM claims.list_changes('$place')")" 00000
  sql 'SELECT recover_prepared_transactions()' >/dev/null
  expect 'nothing is left prepared' "$(prepared_on worker1) $(prepared_on worker2)" '0 0'
  expect_told "then each once, after a crash of $crashed" "$place" "create $here - 1, create $there - 1, create $(kept_by "$feed" "behind-$round" 1) - 2"
done

# --- a node is down: changes of several nodes wait ----------------------------------------------------------------------------------
on_coordinator
place=$(cursor)
# shellcheck disable=SC2046
save 1 "$(claims_of $(kept_by "$feed" down 1) $(kept_by "$other" down 1))" >/dev/null
decided
control "$other" stop
expect 'nobody knows what is committed there' "$(told "$place")" ''
expect 'a new reader is told why' "$(sqlstate 'SELECT claims.change_cursor()')" 55000
control "$other" start
expect 'when it is back' "$(sql "SELECT count(*) FROM claims.list_changes('$place')")" 2

# --- purging ------------------------------------------------------------------------------------------------------------------------------------
place=$(sql "SELECT cursor FROM claims.list_changes('$place', 1)")
expect 'of the coordinator' "$(on_worker 1; sqlstate "SELECT claims.purge_changes('0')")" 0A000
end=$(cursor)
expect 'purged' "$(sql "SELECT claims.purge_changes('0') > 0")" t
expect 'all' "$(sql 'SELECT count(*) FROM claims.change_sets')" 0
for node in "${NODES[@]}"; do
  $node
  expect "who is behind is told so, $node" "$(sqlstate "SELECT * FROM claims.list_changes('$place')")" 55000
  expect "who is at the end goes on, $node" "$(sqlstate "SELECT * FROM claims.list_changes('$end')")" 00000
done
on_coordinator
save 1 "$(claims_of fresh)" >/dev/null
expect_told 'what comes then' "$end" 'create fresh - 1'

# --- writers and readers on several nodes ----------------------------------------------------------------------------------------------------------
sql "CREATE FUNCTION act(cell bigint, name text, how int) RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE
    claim jsonb := jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', name), 'subject', jsonb_build_object('type', 'GROUP', 'id', how), 'source', jsonb_build_object('type', 'RAILS_TABLE_ROUTES', 'id', how)));
    bucket jsonb := jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', name)));
    lease uuid;
BEGIN
    SELECT b.lease_uuid INTO lease FROM claims.try_begin_update(cell, CASE WHEN how % 3 = 0 THEN '[]' ELSE claim END, CASE WHEN how % 3 = 1 THEN '[]' ELSE bucket END) b;
    IF lease IS NOT NULL THEN PERFORM claims.commit_update(cell, lease); END IF;
END \$\$" 2>/dev/null
# The next change that a reader gets, and whether a look-up of the name after it returns an older state.
sql "CREATE FUNCTION read_on(after text) RETURNS SETOF text LANGUAGE plpgsql AS \$\$
DECLARE c record; r record; stale boolean;
BEGIN
    FOR c IN SELECT * FROM claims.list_changes(after, 50) LOOP
        SELECT * INTO r FROM claims.get_record(c.bucket_type, c.bucket_value);
        -- A begin that has waited for the destroy is dated before it.
        stale := FOUND AND r.updated_at < c.at AND NOT (c.op = 'destroy' AND r.status = 'LEASE_CREATING');
        RETURN NEXT concat_ws('|', c.xid, c.id, c.op, c.bucket_value, coalesce(c.old_cell_id::text, '-'), coalesce(c.new_cell_id::text, '-'), stale, c.cursor);
    END LOOP;
END \$\$" 2>/dev/null
for number in 1 2; do
  on_worker "$number"
  [ "$(sql "SELECT count(*) FROM pg_proc WHERE proname IN ('act', 'read_on')")" = 2 ] || { on_coordinator; for name in act read_on; do sql "SELECT pg_get_functiondef('$name'::regproc)"; echo ';'; done >"$CLAIMS_TMP/functions"; on_worker "$number"; psql -Xq -c 'SET citus.enable_ddl_propagation = off' -f "$CLAIMS_TMP/functions"; }
done
on_coordinator
start=$(cursor)
rm -f "$CLAIMS_TMP/stop"
writer() {
  local seed=$1
  ${NODES[$(($1 % 3))]}
  RANDOM=$seed
  # Without the directory the test has failed, and ended.
  while [ -d "$CLAIMS_TMP" ] && [ ! -e "$CLAIMS_TMP/stop" ]; do
    for _ in $(seq 1 20); do
      case $((RANDOM % 6)) in
        0) printf "BEGIN; SELECT act(%s, 'name-%s', %s); SELECT act(%s, 'name-%s', %s); ROLLBACK;\n" $((seed % 2 + 1)) $((RANDOM % 30)) $RANDOM $((seed % 2 + 1)) $((RANDOM % 30)) $RANDOM ;;
        1) printf "BEGIN; SELECT act(%s, 'name-%s', %s); SELECT pg_sleep(0.1); SELECT act(%s, 'name-%s', %s); COMMIT;\n" $((seed % 2 + 1)) $((RANDOM % 30)) $RANDOM $((seed % 2 + 1)) $((RANDOM % 30)) $RANDOM ;;
        *) printf "SELECT act(%s, 'name-%s', %s);\n" $((seed % 2 + 1)) $((RANDOM % 30)) $RANDOM ;;
      esac
    done | psql -XqAt -v VERBOSITY=verbose >/dev/null 2>>"$CLAIMS_TMP/errors" || sleep 0.2
  done
}
reader() {
  local place=$start page
  ${NODES[$1]}
  while [ -d "$CLAIMS_TMP" ]; do
    # The changes read and the cursor after them are stored in one transaction.
    page=$(sql "SELECT read_on('$place')" 2>>"$CLAIMS_TMP/errors.reading") || page=
    if [ -n "$page" ]; then
      printf '%s\n' "$page" >>"$CLAIMS_TMP/read.$1"
      place=${page##*|}
    elif [ -e "$CLAIMS_TMP/end" ]; then
      break
    else
      sleep 0.1
    fi
  done
}
writers=() readers=()
for number in 1 2 3 4; do writer "$number" & writers+=($!); done
for number in 1 2; do reader "$number" & readers+=($!); done
# Whether there are so many changes since the name `fresh`.
has_written() { on_coordinator; sql "SELECT count(*) > $1 FROM claims.changes WHERE id > (SELECT max(id) FROM claims.changes WHERE bucket_value = 'fresh')"; }
sleep "${CITUS_SECONDS:-6}"
written=100
for name in "$other" "$feed"; do
  expect "$written changes before $name crashes" "$(wait_for t has_written $written)" t
  restart_cluster "$name" immediate
  sleep "${CITUS_SECONDS:-4}"
  written=$((written + 60))
done
expect "$written changes" "$(wait_for t has_written $written)" t
touch "$CLAIMS_TMP/stop"
wait "${writers[@]}" || true
for node in "${NODES[@]}"; do (for _ in $(seq 1 50); do $node; sql 'SELECT recover_prepared_transactions()' >/dev/null 2>&1 && break; sleep 0.2; done); done
on_coordinator
decided
touch "$CLAIMS_TMP/end"
wait "${readers[@]}"
sql "SELECT concat_ws('|', xid, id, op, bucket_value, coalesce(old_cell_id::text, '-'), coalesce(new_cell_id::text, '-')) FROM claims.changes
      WHERE id > (SELECT max(id) FROM claims.changes WHERE bucket_value = 'fresh') ORDER BY changes.xid, changes.id" >"$CLAIMS_TMP/stored"
expect 'all of them were told' "$([ "$(wc -l <"$CLAIMS_TMP/stored")" -gt $written ] && echo yes)" yes
for number in 1 2; do
  expect "reader $number got each once, in order, and none was left out" "$(cut -d'|' -f1-6 "$CLAIMS_TMP/read.$number" | diff - "$CLAIMS_TMP/stored" | head -5)" ''
  expect "what reader $number asked for then was not older" "$(cut -d'|' -f7 "$CLAIMS_TMP/read.$number" | grep -c t || true)" 0
done
# From the feed alone: whose each name is.
sort -t'|' -k2,2n "$CLAIMS_TMP/stored" | awk -F'|' '{ if ((($4 in owner) ? owner[$4] : "-") != $5) print "not the owner: " $0; owner[$4] = $6 } END { for (name in owner) if (owner[name] != "-") print name "|" owner[name] }' | LC_ALL=C sort >"$CLAIMS_TMP/owners"
sql "SELECT bucket_value || '|' || creator_id FROM claims.claims WHERE bucket_value LIKE 'name-%' AND status IN (1, 3)" | LC_ALL=C sort >"$CLAIMS_TMP/there"
expect 'the feed ends with what the tables have' "$(diff "$CLAIMS_TMP/owners" "$CLAIMS_TMP/there" | head -5)" ''

# --- the feed moves to another node ---------------------------------------------------------------------------------------------------------------
sql "SELECT claims.settle_leases(c, '{}', ARRAY(SELECT lease_uuid FROM claims.list_leases(c))) FROM unnest('{1,2}'::bigint[]) c" >/dev/null
before=$(cursor)
last=$(sql 'SELECT max(id) FROM claims.change_sets')
read -r shard from from_port to to_port < <(sql "SELECT s.shardid || ' ' || f.nodename || ' ' || f.nodeport || ' ' || t.nodename || ' ' || t.nodeport
   FROM pg_dist_shard s JOIN pg_dist_placement p USING (shardid) JOIN pg_dist_node f USING (groupid) JOIN pg_dist_node t ON t.groupid NOT IN (0, f.groupid)
  WHERE s.logicalrelid = 'claims.change_sets'::regclass")
expect 'moved' "$(sql "SELECT 'moved' FROM (SELECT citus_move_shard_placement($shard, '$from', $from_port, '$to', $to_port, 'block_writes')) x" 2>&1 | tail -1)" moved
for node in "${NODES[@]}"; do expect "a place of the other node's, $node" "$($node; sqlstate "SELECT * FROM claims.list_changes('$before')")" 55000; done
place=$(on_worker 2; cursor)
for node in "${NODES[@]}"; do expect "a save goes on, $node" "$($node; save 1 "$(claims_of "moved-${node// /-}")")" t; done
expect_told 'from a new place' "$place" 'create moved-on_coordinator - 1, create moved-on_worker-1 - 1, create moved-on_worker-2 - 1'
expect 'numbers go on' "$(sql "SELECT min(id) > $last FROM claims.change_sets WHERE id > $last")" t
expect 'so does the history' "$(on_worker 1; save 1 "'[]'" "$(buckets_of fresh)"; sql "SELECT string_agg(op, ' ' ORDER BY since) FROM claims.bucket_history('ROUTES', 'fresh')")" $'t\ncreate destroy'
on_coordinator
expect 'and purging, of both' "$(decided; sql "SELECT claims.purge_changes('0') > 0; SELECT count(*) FROM claims.change_sets")" $'t\n0'
expect 'check() finds nothing' "$(sql "SELECT coalesce(string_agg(problem || ' ' || coalesce(detail, ''), ', '), '-') FROM claims.check()")" -
echo ok
