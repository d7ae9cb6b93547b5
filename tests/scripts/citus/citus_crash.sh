#!/usr/bin/env bash
# Nodes of a Citus cluster that crash at chosen moments: right after an answer to a cell, with no other flush; in an open transaction; between PREPARE
# TRANSACTION and COMMIT PREPARED, the coordinator and a worker. Acknowledged calls survive, a batch is complete or absent, and undecided claims are
# in_flight.
. "$(dirname "$0")/../citus.bash"

# Commits are not flushed by default, nor by the WAL writer. Recovery runs only when it is called.
citus_cluster 2 -c synchronous_commit=off -c wal_writer_delay=10s -c citus.recover_2pc_interval=-1
citus_service
citus_spread 8

crash() { local name; for name in "$@"; do restart_cluster "$name" immediate; done; }
active() { sql "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE '$1' AND status = 1"; }
any() { sql "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE '$1'"; }
# The names of a list that are kept on a worker.
kept_on() {
  local worker=$1 port
  shift
  port=${CLUSTER_PORT[worker$worker]}
  sql "SELECT string_agg(v, ' ' ORDER BY v) FROM unnest(string_to_array('$*', ' ')) v
         JOIN pg_dist_placement p ON p.shardid = get_shard_id_for_distribution_column('claims.claims', v)
         JOIN pg_dist_node n USING (groupid) WHERE n.nodeport = $port"
}
# Sessions that stay open: what they are asked goes in, what they say is in a file.
start_session() {
  mkfifo "$CLAIMS_TMP/$1.in"
  psql -XqAt -v VERBOSITY=sqlstate <"$CLAIMS_TMP/$1.in" >"$CLAIMS_TMP/$1.said" 2>&1 &
  SESSION_PID=$!
  exec 9>"$CLAIMS_TMP/$1.in"
}
tell() { printf '%s;\n\\echo --\n' "$1" >&9; }
# heard NAME COUNT: waits until that many statements were answered, or the session has ended, and prints the last answer.
heard() {
  local _
  for _ in $(seq 1 300); do
    [ "$(grep -c '^--$' "$CLAIMS_TMP/$1.said" || true)" -lt "$2" ] && kill -0 "$SESSION_PID" 2>/dev/null || break
    sleep 0.1
  done
  grep -v '^--$' "$CLAIMS_TMP/$1.said" | tail -1 | sed 's/^ERROR:  //'
}
# Servers that were started meanwhile hold the pipe open.
end_session() { printf '\\q\n' >&9; exec 9>&-; wait "$SESSION_PID" || true; }

# --- right after the answer: one node has all rows, and commits alone --------------------------------------------------------------
for node in coordinator worker1 worker2; do
  on_node "$node"
  # Half of them in a transaction of the caller's, who would rather not wait for flushes.
  for number in 1 2 3 4 5 6 7 8; do
    save=$(printf "SELECT claims.commit_update(1, claims.begin_update(1, %s));" "$(claims_of "alone-$node-$number")")
    [ $((number % 2)) = 0 ] || save="BEGIN; $save SET LOCAL synchronous_commit = off; COMMIT;"
    printf '%s\n' "$save"
  done | psql -XqAt -v ON_ERROR_STOP=1 >"$CLAIMS_TMP/told"
  expect "told on $node" "$(grep -cx t "$CLAIMS_TMP/told")" 8
  crash worker1 worker2 coordinator
  on_coordinator
  expect "what was told on $node is there" "$(active "alone-$node-%")" 8

  # The two calls of a save, with a crash after each.
  on_node "$node"
  for number in 1 2 3 4; do expect 'begun' "$(sql "SELECT claims.begin_update(1, $(claims_of "apart-$node-$number"), lease_uuid => '$(lease $number)')")" "$(lease $number)"; done
  crash worker1 worker2 coordinator
  for number in 1 2 3 4; do expect "committed on $node after a crash" "$(sql "SELECT claims.commit_update(1, '$(lease $number)')")" t; done
  crash worker1 worker2 coordinator
  for number in 1 2 3 4; do expect "committed before, on $node" "$(sql "SELECT claims.commit_update(1, '$(lease $number)')")" f; done
  on_coordinator
  sql "DELETE FROM claims.lease_outcomes" >/dev/null
  expect "names of both calls on $node" "$(active "apart-$node-%")" 4
  # A fence is a promise, too.
  on_node "$node"
  for number in 1 2 3 4; do sql "SELECT claims.rollback_update(1, '$(lease $number)')" >/dev/null 2>&1; done
  crash worker1 worker2 coordinator
  for number in 1 2 3 4; do expect "fenced on $node" "$(sqlstate "SELECT claims.begin_update(1, $(claims_of late), lease_uuid => '$(lease $number)')")" 55000; done
  on_coordinator
  sql "DELETE FROM claims.lease_outcomes" >/dev/null
done
expect 'both workers keep such names' "$([ -n "$(kept_on 1 alone-coordinator-{1..8})" ] && [ -n "$(kept_on 2 alone-coordinator-{1..8})" ] && echo both)" both

# --- in an open transaction ---------------------------------------------------------------------------------------------------------------
names=(open-{1..6})
one=$(kept_on 1 "${names[@]}")
expect 'some of them on each worker' "$([ -n "$one" ] && [ "$(wc -w <<<"$one")" -lt 6 ] && echo yes)" yes
for batch in "${one%% *}" "${names[*]}"; do
  # shellcheck disable=SC2086
  for then in COMMIT "SELECT claims.begin_update(1, $(claims_of another)); COMMIT" "SAVEPOINT s; SELECT claims.begin_update(1, $(claims_of ${batch%% *})); ROLLBACK TO s; COMMIT"; do
    rm -f "$CLAIMS_TMP/open.in"
    start_session open
    # shellcheck disable=SC2086
    tell "BEGIN; SELECT 'begun' FROM claims.begin_update(1, $(claims_of $batch))"
    expect 'begun' "$(heard open 1)" begun
    crash worker1
    tell "$then"
    heard open 2 >/dev/null
    tell "SELECT 'left: ' || count(*) FROM claims.claims WHERE bucket_value LIKE 'open-%' OR bucket_value = 'another'"
    expect "nothing was told, and nothing is left of $batch, after $then" "$(heard open 3)" 'left: 0'
    expect 'an error said so' "$(grep -c ERROR "$CLAIMS_TMP/open.said" | sed 's/[1-9].*/yes/')" yes
    end_session
  done
done
expect 'nothing is left prepared' "$(prepared_on 1) $(prepared_on 2)" '0 0'

# --- between the two phases --------------------------------------------------------------------------------------------------------------------
# The coordinator waits for a standby that is not there, with its own commit written, and the workers' parts prepared.
hold_commits() { sql "ALTER SYSTEM SET synchronous_standby_names = 'nobody'" >/dev/null; sql 'SELECT pg_reload_conf()' >/dev/null; sleep 0.5; }
until_prepared() { local _; for _ in $(seq 1 100); do [ "$(prepared_on 1) $(prepared_on 2)" = '1 1' ] && return 0; sleep 0.1; done; echo 'FAILED: nothing gets prepared' >&2; exit 1; }
reason() { sql "SELECT string_agg(DISTINCT c ->> 'reason', ' ') FROM (SELECT conflicts FROM claims.try_begin_update(2, $(claims_of "$1"))) x, jsonb_array_elements(conflicts) c"; }
# between NAME...: all of them in one save on the coordinator, held between the phases.
between() {
  hold_commits
  PGOPTIONS='-c synchronous_commit=on' psql -XqAt -v VERBOSITY=sqlstate -c "SELECT claims.commit_update(1, claims.begin_update(1, $(claims_of "$@"), lease_uuid => '$(lease "$lease")'))" \
    >"$CLAIMS_TMP/between.said" 2>&1 &
  between=$!
  until_prepared
}
for crashes in coordinator worker1 'worker1 coordinator'; do
  lease=$((${lease:-10} + 1))
  key=${crashes// /-}
  names=(between-"$key"-{1..6})
  one=$(kept_on 1 "${names[@]}") two=$(kept_on 2 "${names[@]}")
  expect 'some of them on each worker' "$([ -n "$one" ] && [ -n "$two" ] && echo yes)" yes
  between "${names[@]}"
  for node in 'on_worker 1' 'on_worker 2'; do
    expect "a name between the phases, asked on $node" "$($node; reason "${one%% *}") $($node; reason "${two%% *}")" 'in_flight in_flight'
    expect 'its lease' "$($node; sqlstate "SELECT claims.rollback_update(1, '$(lease "$lease")')")" 55P03
  done
  sql "ALTER SYSTEM RESET synchronous_standby_names" >/dev/null
  # shellcheck disable=SC2086
  crash $crashes
  sql 'SELECT pg_reload_conf()' >/dev/null
  wait "$between" || true
  case $crashes in
    worker1)
      # The commit stands. What the node that crashed keeps waits for recovery.
      expect 'told' "$(grep -cx t "$CLAIMS_TMP/between.said")" 1
      expect 'on the other node it is there' "$(sql "SELECT count(*) FROM claims.claims WHERE status = 1 AND bucket_value = ANY (string_to_array('$two', ' '))")" "$(wc -w <<<"$two")"
      expect 'on this one it is in flight' "$(on_worker 2; reason "${one%% *}")" in_flight
      ;;
    *)
      expect 'told nothing' "$(grep -cx t "$CLAIMS_TMP/between.said" || true)" 0
      expect 'still in flight' "$(on_worker 2; reason "${two%% *}")" in_flight
      ;;
  esac
  sql 'SELECT recover_prepared_transactions()' >/dev/null
  expect 'nothing is left prepared' "$(prepared_on 1) $(prepared_on 2)" '0 0'
  expect "the batch is whole after a crash of $crashes" "$(active "between-$key-%")" 6
  expect 'its lease has ended' "$(on_worker 1; sql "SELECT claims.commit_update(1, '$(lease "$lease")')")" f
  expect 'the other way' "$(on_worker 2; sqlstate "SELECT claims.rollback_update(1, '$(lease "$lease")')")" 55000
done

# --- in the end -----------------------------------------------------------------------------------------------------------------------------------
settle_all
expect_clean 'in the end'
expect 'and no name was left' "$(any 'open-%') $(any late)" '0 0'
echo ok
