#!/usr/bin/env bash
# Transfers of distributed claims: one that is open when the tables are distributed; every node says the
# same cell, beside begins on all of them; nodes that crash between the two phases of each act, with reads that say the right cell all
# the time.
. "$(dirname "$0")/../citus.bash"

# Recovery comes when it is called.
CITUS_SETTINGS='-c citus.recover_2pc_interval=-1'
citus_cluster 2
citus_service

# own CELL GROUP PREFIX COUNT: claims of a cell: names of a group.
own() {
  sql "SELECT claims.commit_update($1, claims.begin_update($1, (SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', '$3-' || n),
         'subject', jsonb_build_object('type', 'GROUP', 'id', $2), 'source', jsonb_build_object('type', 'RAILS_TABLE_ROUTES', 'id', n))) FROM generate_series(1, $4) n)))" >/dev/null
}
prepare() { sql "SELECT marked || ' ' || skipped || ' ' || finished FROM claims.prepare_transfer('$(lease "$1")', $3, $4, '[{\"type\": \"GROUP\", \"ids\": [$2]}]', 'a test')"; }
switch() { sql "SELECT claims.switch_transfer('$(lease "$1")', 'a test')"; }
reverse() { sql "SELECT claims.reverse_transfer('$(lease "$1")', 'a test')"; }
finish() { sql "SELECT moved || ' ' || finished FROM claims.finish_transfer('$(lease "$1")')"; }
cancel() { sql "SELECT released || ' ' || finished FROM claims.cancel_transfer('$(lease "$1")', 'a test')"; }
# cells PREFIX COUNT: the cells that get_record and get_records say, and how many of the names both lists have.
cells() {
  sql "SELECT concat_ws(' ', (SELECT string_agg(DISTINCT r.cell_id::text, '+') FROM (SELECT '$1-' || n AS name FROM generate_series(1, $2) n) x, claims.get_record('ROUTES', x.name) r),
         (SELECT string_agg(DISTINCT r.cell_id || '*' || r.cell_name, '+') || '=' || count(*) FROM claims.get_records((SELECT jsonb_agg(jsonb_build_object('type', 'ROUTES', 'value', '$1-' || n)) FROM generate_series(1, $2) n)) r),
         (SELECT string_agg(c || ':' || (SELECT count(*) FROM claims.list_records(c) l WHERE l.bucket_value LIKE '$1-%' AND l.cell_id = c), ' ') FROM unnest('{1,2}'::bigint[]) c))"
}
# everywhere NAME EXPECTED PREFIX COUNT: what cells() says on each node.
everywhere() {
  local node
  for node in "${NODES[@]}"; do expect "$1, $node" "$($node; cells "$3" "$4")" "$2"; done
}
at_one() { printf '1 1*one=%s 1:%s 2:0' "$1" "$1"; }
at_two() { printf '2 2*two=%s 1:0 2:%s' "$1" "$1"; }
nothing_is_wrong() { expect "$1: check() finds nothing" "$(sql "SELECT coalesce(string_agg(problem || ' ' || coalesce(detail, ''), ', '), '-') FROM claims.check()")" -; }

# --- open when the tables are distributed -----------------------------------------------------------------------------------
own 1 1 early 40
own 1 2 still 25
own 1 3 ended 5
prepare 3 3 1 2 >/dev/null
switch 3 >/dev/null
finish 3 >/dev/null
expect 'prepared before' "$(prepare 1 1 1 2)" '40 0 true'
expect 'another one' "$(prepare 2 2 1 2)" '25 0 true'
expect 'which is switched before' "$(switch 2)" t
citus_spread 8
everywhere 'prepared before, spread after' "$(at_one 40)" early 40
everywhere 'switched before, spread after' "$(at_two 25)" still 25
everywhere 'ended before, spread after' "$(at_two 5)" ended 5
nothing_is_wrong 'spread'
expect 'new claims are taken by the next call' "$(own 1 1 late 3; prepare 1 1 1 2)" '3 0 true'
expect 'switched after' "$(switch 1)" t
expect 'finished after' "$(finish 2)" '25 true'
everywhere 'switched after' "$(at_two 40)" early 40
everywhere 'finished after' "$(at_two 25)" still 25
expect 'finished, too' "$(finish 1)" '43 true'
everywhere 'in the end' "$(at_two 40)" early 40
nothing_is_wrong 'finished'

# --- rights, and answers on every node ------------------------------------------------------------------------
for call in "prepare_transfer('$(lease 9)', 1, 2, '[{\"type\": \"GROUP\", \"ids\": [1]}]', 'a test')" "switch_transfer('$(lease 1)', 'a test')" "reverse_transfer('$(lease 1)', 'a test')" \
  "finish_transfer('$(lease 1)')" "cancel_transfer('$(lease 1)', 'a test')"; do
  expect "on a worker: $call" "$(on_worker 1; message "SELECT claims.$call")" 'distributed claims are administered on the coordinator'
done
own 1 4 held 12
prepare 4 4 1 2 >/dev/null
told() { sql "SELECT c ->> 'reason' || ' ' || (c ->> 'holder_cell_id') || ' ' || ((c ->> 'lease_age_seconds')::float BETWEEN 0 AND 600) FROM (SELECT conflicts FROM claims.try_begin_update($1, $2, $3)) x, jsonb_array_elements(conflicts) c"; }
for cell in 1 2; do
  [ $cell = 1 ] || switch 4 >/dev/null
  for node in "${NODES[@]}"; do
    expect "a create by 1, $node" "$($node; told 1 "'[$(claim held-3)]'" "'[]'")" "leased $cell true"
    expect "a create by 2, $node" "$($node; told 2 "'[$(claim held-3)]'" "'[]'")" "leased $cell true"
    expect "a destroy by 1, $node" "$($node; told 1 "'[]'" "'[$(bucket held-3)]'")" "leased $cell true"
    expect "a destroy by 2, $node" "$($node; told 2 "'[]'" "'[$(bucket held-3)]'")" "leased $cell true"
    expect "no lease, $node" "$($node; sqlstate "SELECT claims.rollback_update(1, '$(lease 4)')")" P0002
    expect "its details, $node" "$($node; sql "SELECT cell_id || ' ' || creates || ' ' || destroys FROM claims.lease_details(bucket_type => 'ROUTES', bucket_value => 'held-3')")" '1 [] []'
    expect "digests, $node" "$($node; sql "SELECT string_agg((SELECT records FROM claims.digest_records(c, 'RAILS_TABLE_ROUTES', NULL, NULL))::text, ' ') FROM unnest('{1,2}'::bigint[]) c")" \
      "$(on_coordinator; sql "SELECT string_agg((SELECT count(*) FROM claims.list_records(c))::text, ' ') FROM unnest('{1,2}'::bigint[]) c")"
    expect "verification of 1, $node" "$($node; sql "SELECT string_agg(DISTINCT discrepancy || ' ' || coalesce(outcome, 'open'), ', ') FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, '[]', '0', true)")" "$([ $cell = 1 ] && echo 'extra leased')"
    expect "verification of 2, $node" "$($node; sql "SELECT string_agg(DISTINCT discrepancy || ' ' || coalesce(outcome, 'open'), ', ') FROM claims.verify_records(2, 'RAILS_TABLE_ROUTES', '0', '1', '[$(claim held-1)]', '0') WHERE bucket_value LIKE 'held-%'")" "$([ $cell = 1 ] && echo 'missing leased' || echo 'different leased')"
  done
done
expect 'a cell in a transfer stays' "$(sqlstate "SELECT claims.remove_cell(2, 'a test')")" 55000
finish 4 >/dev/null

# --- beside begins on all nodes: no name has two owners, none is free for a moment, and no read says an old cell ----------------
own 1 5 busy 30
# Names of the group come and go, and both cells ask for names that are there. What they must never have is written down.
churn() {
  local round=0 name
  while [ ! -e "$CLAIMS_TMP/stop" ]; do
    round=$((round + 1))
    for number in 1 2 3 4 5; do
      name=busy-$(((RANDOM % 30) + 1))
      printf "SELECT 'TAKEN %s' FROM claims.try_begin_update(%s, '[%s]') WHERE lease_uuid IS NOT NULL;\n" "$name" $((RANDOM % 2 + 1)) "$(claim "$name")"
      printf "SELECT claims.rollback_update(%s, lease_uuid) FROM claims.try_begin_update(%s, '[]', '[%s]') WHERE lease_uuid IS NOT NULL;\n" "$2" "$2" "$(bucket "$name")"
      printf "SELECT claims.commit_update(1, claims.begin_update(1, jsonb_set('[%s]', '{0,subject,id}', '5')));\n" "$(claim "come-$1-$round-$number")"
    done | psql -XqAt -v VERBOSITY=sqlstate >>"$CLAIMS_TMP/churn.$1" 2>&1 || true
  done
}
# The answer of each read, and the time at which it began.
watch() {
  while [ ! -e "$CLAIMS_TMP/stop" ]; do
    for number in 1 2 3 4 5 6 7 8; do
      printf "SELECT clock_timestamp() AS asked \\\\gset\nSELECT extract(epoch FROM :'asked'::timestamptz), coalesce((SELECT cell_id FROM claims.get_record('ROUTES', 'busy-%s')), 0);\n" $(((RANDOM % 30) + 1))
    done | psql -XqAt -F ' ' >>"$CLAIMS_TMP/watch.$1" 2>>"$CLAIMS_TMP/watch.errors"
  done
}
rm -f "$CLAIMS_TMP/stop"
pids=()
(on_worker 1; churn 1 1) & pids+=($!)
(on_worker 2; churn 2 2) & pids+=($!)
(on_worker 1; watch 1) & pids+=($!)
(on_worker 2; watch 2) & pids+=($!)
at=1
for round in 1 2 3 4 5 6; do
  transfer=$((10 + round))
  to=$((3 - at))
  sql "SELECT extract(epoch FROM clock_timestamp())" >"$CLAIMS_TMP/begun.$round"
  for _ in $(seq 1 60); do [ "$(prepare $transfer 5 $at $to 2>/dev/null | cut -d' ' -f3)" != true ] || [ "$(switch $transfer 2>/dev/null)" != t ] || break; done
  printf '%s %s %s\n' "$(cat "$CLAIMS_TMP/begun.$round")" "$(sql "SELECT extract(epoch FROM clock_timestamp())")" "$to" >>"$CLAIMS_TMP/switches"
  for _ in $(seq 1 60); do [ "$(finish $transfer 2>/dev/null | cut -d' ' -f2)" != true ] || break; done
  at=$to
done
touch "$CLAIMS_TMP/stop"
wait "${pids[@]}" || true
expect 'all were finished' "$(sql "SELECT count(*) FROM claims.transfers WHERE state = 'finished' AND subjects = 1 AND transfer_uuid >= '$(lease 11)' AND transfer_uuid <= '$(lease 16)'")" 6
expect 'nobody had a name that was there' "$(cat "$CLAIMS_TMP"/churn.* | grep -c TAKEN || true)" 0
expect 'and nothing went wrong' "$(grep -h ERROR "$CLAIMS_TMP"/churn.* "$CLAIMS_TMP/watch.errors" | grep -vE '55P03|23505' | sort | uniq -c | head -5)" ''
expect 'something was read' "$([ "$(cat "$CLAIMS_TMP"/watch.[12] | wc -l)" -gt 100 ] && echo yes)" yes
# A read that began after the answer of a switch returns the new cell, until the next switch begins.
expect 'no read was wrong' "$(python3 - "$CLAIMS_TMP" <<'PYTHON'
import sys
where = sys.argv[1]
switches = [line.split() for line in open(f"{where}/switches")]
switches = [(float(begun), float(told), int(to)) for begun, told, to in switches]
wrong = 0
for number in "12":
    for line in open(f"{where}/watch.{number}"):
        asked, cell = line.split()
        asked, cell = float(asked), int(cell)
        before = [to for _, told, to in switches if told < asked]
        # Until the next call of prepare nothing moves; the read may have taken as long.
        moving = any(begun - 1 < asked <= told for begun, told, _ in switches)
        expected = {before[-1] if before else 1} | ({1, 2} if moving else set())
        wrong += cell not in expected
print(wrong)
PYTHON
)" 0
nothing_is_wrong 'beside begins'
# The names that came meanwhile, and those that are where they were.
everywhere 'afterwards' "$( [ $at = 1 ] && at_one 30 || at_two 30)" busy 30

# --- between the two phases ----------------------------------------------------------------------------------------------------------
crash() { local name; for name in "$@"; do restart_cluster "$name" immediate; done; }
prepared_on() { (on_worker "$1"; sql "SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'citus_%'"); }
# The coordinator waits for a standby that is not there, with its own commit written, and the workers' parts prepared.
# between STATEMENT: runs it on the coordinator, held between the phases; its answer is in a file.
between() {
  local _
  sql "ALTER SYSTEM SET synchronous_standby_names = 'nobody'" >/dev/null
  sql 'SELECT pg_reload_conf()' >/dev/null
  sleep 0.5
  PGOPTIONS='-c synchronous_commit=on' psql -XqAt -v VERBOSITY=sqlstate -c "$1" >"$CLAIMS_TMP/between.said" 2>&1 &
  between=$!
  for _ in $(seq 1 100); do [ "$(prepared_on 1) $(prepared_on 2)" != '1 1' ] || return 0; sleep 0.1; done
  echo 'FAILED: nothing gets prepared' >&2
  exit 1
}
# ended NODE...: these nodes crash, and the coordinator continues.
ended() {
  sql "ALTER SYSTEM RESET synchronous_standby_names" >/dev/null
  crash "$@"
  on_coordinator
  sql 'SELECT pg_reload_conf()' >/dev/null
  wait "$between" || true
}
recover() {
  on_coordinator
  sql 'SELECT recover_prepared_transactions()' >/dev/null
  expect 'nothing is left prepared' "$(prepared_on 1) $(prepared_on 2)" '0 0'
}
number=20
for crashes in worker1 'worker1 worker2' coordinator 'worker1 coordinator'; do
  number=$((number + 1))
  name=between-${crashes// /-}
  own 1 $number "$name" 16
  request="claims.prepare_transfer('$(lease $number)', 1, 2, '[{\"type\": \"GROUP\", \"ids\": [$number]}]', 'a test')"

  # The transfer itself is between the phases: no step of it continues before all nodes have committed.
  between "SELECT marked FROM $request"
  everywhere "not prepared yet ($crashes)" "$(at_one 16)" "$name" 16
  # shellcheck disable=SC2086
  ended $crashes
  everywhere "prepared, but not on all nodes ($crashes)" "$(at_one 16)" "$name" 16
  expect 'nobody goes on with it' "$(sqlstate "SELECT claims.switch_transfer('$(lease $number)', 'a test')")" 55P03
  expect 'nor by another call' "$(sqlstate "SELECT $request")" 55P03
  recover
  expect 'afterwards it has all' "$(prepare $number $number 1 2)" '0 0 true'
  nothing_is_wrong "prepared ($crashes)"

  between "SELECT claims.switch_transfer('$(lease $number)', 'a test')"
  everywhere "not switched yet ($crashes)" "$(at_one 16)" "$name" 16
  # shellcheck disable=SC2086
  ended $crashes
  # The commit is decided: its answer, if it got one, and the answers of all nodes agree, recovered or not.
  everywhere "switched, but not on all nodes ($crashes)" "$(at_two 16)" "$name" 16
  expect 'a conflict says so' "$(on_worker 1; told 1 "'[$(claim "$name-1")]'" "'[]'")" 'leased 2 true'
  expect 'nobody goes on with it' "$(sqlstate "SELECT * FROM claims.finish_transfer('$(lease $number)')")" 55P03
  expect 'nor back' "$(sqlstate "SELECT claims.reverse_transfer('$(lease $number)', 'a test')")" 55P03
  recover
  everywhere "switched ($crashes)" "$(at_two 16)" "$name" 16
  expect 'a repeat' "$(switch $number)" f
  expect 'back' "$(reverse $number)" t
  everywhere "reversed ($crashes)" "$(at_one 16)" "$name" 16
  expect 'and forth' "$(switch $number)" t

  between "SELECT moved FROM claims.finish_transfer('$(lease $number)')"
  # shellcheck disable=SC2086
  ended $crashes
  for node in "${NODES[@]}"; do
    expect "finished, but not on all nodes ($crashes), $node" "$($node; cells "$name" 16 | cut -d' ' -f1,2)" '2 2*two=16'
  done
  recover
  everywhere "finished ($crashes)" "$(at_two 16)" "$name" 16
  expect 'a repeat' "$(finish $number)" '0 true'
  nothing_is_wrong "finished ($crashes)"
done

# If the coordinator does not answer, reads of these names fail instead of returning a wrong cell; all other names are found.
own 1 30 alone 8
prepare 30 30 1 2 >/dev/null
between "SELECT claims.switch_transfer('$(lease 30)', 'a test')"
control coordinator stop -m immediate
wait "$between" || true
on_worker 1
expect 'a name of the transfer, without the coordinator' "$(sqlstate "SELECT * FROM claims.get_record('ROUTES', 'alone-3')")" 55P03
expect 'another name' "$(sql "SELECT cell_id FROM claims.get_record('ROUTES', 'still-3')")" 2
restart_cluster coordinator immediate
on_coordinator
sql "ALTER SYSTEM RESET synchronous_standby_names" >/dev/null
sql 'SELECT pg_reload_conf()' >/dev/null
everywhere 'with it again' "$(at_two 8)" alone 8
recover
expect 'finished' "$(finish 30)" '8 true'

# --- what another act of the same transfer meets ------------------------------------------------------------------------------------------
own 1 31 two 6
own 1 32 other 6
mkfifo "$CLAIMS_TMP/open.in"
psql -XqAt <"$CLAIMS_TMP/open.in" >"$CLAIMS_TMP/open.said" 2>&1 &
exec 9>"$CLAIMS_TMP/open.in"
printf 'BEGIN;\nSELECT marked FROM claims.prepare_transfer(%s);\n' "'$(lease 31)', 1, 2, '[{\"type\": \"GROUP\", \"ids\": [31]}]', 'a test'" >&9
for _ in $(seq 1 50); do [ ! -s "$CLAIMS_TMP/open.said" ] || break; sleep 0.1; done
expect 'it has marked' "$(cat "$CLAIMS_TMP/open.said")" 6
expect 'the same transfer' "$(sqlstate "SELECT claims.prepare_transfer('$(lease 31)', 1, 2, '[{\"type\": \"GROUP\", \"ids\": [31]}]', 'a test')")" 55P03
expect 'its names, elsewhere' "$(on_worker 1; sql "SELECT c ->> 'reason' FROM (SELECT conflicts FROM claims.try_begin_update(2, '[$(claim two-1)]')) x, jsonb_array_elements(conflicts) c")" in_flight
expect 'another transfer goes on' "$(prepare 32 32 1 2) $(switch 32) $(finish 32)" '6 0 true t 6 true'
printf 'ROLLBACK;\n\\q\n' >&9
exec 9>&-
wait
expect 'rolled back' "$(prepare 31 31 1 2) $(cancel 31)" '6 0 true 6 true'
nothing_is_wrong 'the end'

# --- all claims of a cell --------------------------------------------------------------------------------------------------------------------
# Cell 2 gets all claims that cell 1 has and makes meanwhile; the transfer sees transactions that are open on other nodes.
whole() { sql "SET client_min_messages = warning; SELECT marked > 0 OR skipped > 0, finished FROM claims.prepare_transfer('$(lease 50)', 1, 2, NULL, 'a test')"; }
whole_finishes() { [ "$(whole 2>/dev/null)" = 'f|t' ]; }
own 1 50 whole 25
expect 'the first call' "$(whole)" 't|f'
expect 'an open cell' "$(sqlstate "SELECT * FROM claims.prepare_transfer('$(lease 50)', 1, 2, NULL, 'a test')")" 55000
mkfifo "$CLAIMS_TMP/begins.in"
(on_worker 1; exec psql -XqAt <"$CLAIMS_TMP/begins.in") >"$CLAIMS_TMP/begins.said" 2>&1 &
exec 9>"$CLAIMS_TMP/begins.in"
printf "BEGIN;\nSELECT claims.begin_update(1, '[%s]', lease_uuid => '%s');\n" "$(claim whole-late)" "$(lease 51)" >&9
for _ in $(seq 1 50); do [ ! -s "$CLAIMS_TMP/begins.said" ] || break; sleep 0.1; done
on_coordinator
sql "SELECT claims.set_mode('settle_only', 'a test', 1)" >/dev/null
expect 'a begin is open on another node' "$(whole)" 'f|f'
printf 'COMMIT;\n\\q\n' >&9
exec 9>&-
wait
expect 'its lease is outstanding' "$(whole)" 't|f'
expect 'and settled' "$(sql "SELECT claims.commit_update(1, '$(lease 51)')")" t
expect 'no node begins another one' "$(on_worker 2; sqlstate "SELECT claims.begin_update(1, '[$(claim too-late)]')")" 55000
for _ in $(seq 1 50); do ! whole_finishes || break; sleep 0.1; done
expect 'it has all' "$(sql "SELECT state FROM claims.transfers WHERE transfer_uuid = '$(lease 50)'") $(sql "SELECT count(*) FROM claims.records WHERE cell_id = 1 AND status <> 'TRANSFERRING'")" 'prepared 0'
expect 'switched and finished' "$(switch 50) $(finish 50 | cut -d' ' -f2)" 't true'
expect 'nothing is left' "$(sql "SELECT count(*) FROM claims.list_records(1)") $(sql "SELECT cell_id FROM claims.get_record('ROUTES', 'whole-late')")" '0 2'
sql "SELECT claims.set_mode('open', 'a test', 1)" >/dev/null
nothing_is_wrong 'a whole cell'

# --- rows of the change feed ---------------------------------------------------------------------------------------------------------------
sql "ALTER DATABASE spread SET claims.change_feed = on"
own 1 40 told 5
place() { sql 'SELECT claims.change_cursor()'; }
told_after() { sql "SELECT string_agg(concat_ws(' ', op, old_cell_id, new_cell_id, n), ', ') FROM (SELECT op, old_cell_id, new_cell_id, count(*) AS n FROM claims.list_changes('$1') WHERE bucket_value LIKE 'told-%' GROUP BY 1, 2, 3) x"; }
expect_told() {
  local node _
  for node in "${NODES[@]}"; do
    for _ in $(seq 1 100); do [ "$($node; told_after "$2")" != "$3" ] || break; sleep 0.1; done
    expect "$1, $node" "$($node; told_after "$2")" "$3"
  done
}
from=$(place)
prepare 40 40 1 2 >/dev/null
switch 40 >/dev/null
expect_told 'a switch' "$from" 'transfer 1 2 5'
from=$(place)
reverse 40 >/dev/null
expect_told 'the way back' "$from" 'transfer 2 1 5'
from=$(place)
switch 40 >/dev/null
finish 40 >/dev/null
expect_told 'finishing tells nothing more' "$from" 'transfer 1 2 5'
everywhere 'and all is there' "$(at_two 5)" told 5
echo ok
