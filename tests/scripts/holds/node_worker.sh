#!/usr/bin/env bash
# The worker of examples/node: without a front end, without a back end, with both, and with broken connections; nothing is
# lost, and nothing is done twice.
. "$(dirname "$0")/../common.bash"

command -v npm >/dev/null || die "needs nodejs and npm: run scripts/setup"
cp -r "$CLAIMS_ROOT/examples/node" "$CLAIMS_TMP/node"
# One that looks for itself every ten minutes only.
sed 's/^const LOOK_AT_LEAST_EVERY = .*/const LOOK_AT_LEAST_EVERY = 600000/' "$CLAIMS_TMP/node/worker.js" >"$CLAIMS_TMP/node/patient.js"
(cd "$CLAIMS_TMP/node" && npm ci --no-audit --no-fund --loglevel=error) || die "npm ci failed in examples/node"

fresh_database script_node
sql "CREATE TABLE example_effects (request bigint, entity text, type text, payload jsonb)"
sql "DO \$\$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'script_claims_worker') THEN CREATE ROLE script_claims_worker LOGIN; END IF; END \$\$"
sql "SELECT claims.grant_worker('script_claims_worker')" >/dev/null
sql "GRANT INSERT ON example_effects TO script_claims_worker"

workers=()
# start_workers COUNT [PROGRAM]
start_workers() {
  local n
  for n in $(seq 1 "$1"); do
    PGUSER=script_claims_worker PGAPPNAME=worker node "$CLAIMS_TMP/node/${2:-worker}.js" example 2>>"$CLAIMS_TMP/workers" & workers+=($!)
  done
}
# stop_workers SIGNAL
stop_workers() {
  local pid
  for pid in "${workers[@]}"; do kill -"$1" "$pid"; done
  for pid in "${workers[@]}"; do wait "$pid" 2>/dev/null || true; done
  workers=()
}
trap 'stop_workers KILL 2>/dev/null; cleanup' EXIT
enqueue() { sql "SELECT count(claims.enqueue_request('example', 'e' || n, '$3', jsonb_build_object('n', n))) FROM generate_series($1, $2) n"; }
left() { sql "SELECT count(*) FROM claims.requests WHERE status IN ('new', 'in-progress')"; }
wait_until_done() { [ "$(wait_for 0 left)" = 0 ] || cat "$CLAIMS_TMP/workers"; }
# Every complete request has its effect, once; every failed one none.
judge() {
  wait_until_done
  expect "$1: all settled" "$(left)" 0
  expect "$1: each effect once" "$(sql "SELECT count(*) FILTER (WHERE n <> 1) FROM (SELECT count(e.request) AS n FROM claims.requests r LEFT JOIN example_effects e ON e.request = r.id WHERE r.status = 'complete' GROUP BY r.id) s")" 0
  expect "$1: no other effects" "$(sql "SELECT count(*) FROM example_effects e JOIN claims.requests r ON r.id = e.request WHERE r.status <> 'complete'")" 0
}

# the back end is down: the front end continues
expect 'back end away: recorded' "$(enqueue 1 200 create)" 200
expect 'back end away: waits' "$(left)" 200
# the front end is down: the back end finishes the recorded requests
start_workers 3
judge 'front end away'
expect 'front end away: all of it' "$(sql "SELECT count(*) FROM example_effects")" 200
# both at work; nothing polls in between that fast
for round in 1 2 3 4 5; do enqueue 1 200 update >/dev/null; done
judge 'both'
expect 'both: all of it' "$(sql "SELECT count(*) FROM example_effects")" 1200
stop_workers TERM
start_workers 1 patient
wait_for 1 sql "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'worker' AND state = 'idle' AND query = 'COMMIT'" >/dev/null
expect 'a notification wakes a worker' "$(sql "SELECT claims.enqueue_request('example', 'wake', 'create')" >/dev/null; wait_until_done; sql "SELECT status FROM claims.requests WHERE entity = 'wake'")" complete
stop_workers KILL
start_workers 3
# a request that fails: recorded, its entity blocked until it is retried, the others not
sql "SELECT claims.enqueue_request('example', 'bad', 'create', '{\"fail\": \"no such article\"}'), claims.enqueue_request('example', 'good', 'create')" >/dev/null
wait_until_done
expect 'a failure is recorded' "$(sql "SELECT status, error FROM claims.requests WHERE entity = 'bad'")" 'error|no such article'
judge 'a failure'
# workers are killed in the middle of it, connections are cut, others come
for round in 1 2 3; do
  enqueue 1 200 update >/dev/null
  sql "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'worker'" >/dev/null
  sleep 0.2
  stop_workers KILL
  start_workers 3
done
judge 'killed and cut'
expect 'killed and cut: all of it' "$(sql "SELECT count(*) FROM example_effects WHERE type = 'update'")" 1600
stop_workers TERM
sql postgres 'DROP DATABASE script_node WITH (FORCE)'
