#!/usr/bin/env bash
# contrib/prometheus: both exporters, the rules and the dashboard against a real Prometheus. Each alert is quiet at first, and fires when
# its cause is made; each query of the dashboard has an answer. The rules' `for:` is left out here, and promtool checks the files as they are.
. "$(dirname "$0")/common.bash"
. "$(dirname "$0")/cells.bash"

for program in prometheus promtool prometheus-sql-exporter prometheus-postgres-exporter; do
  command -v $program >/dev/null || { echo "ok: skipped, there is no $program (scripts/setup release installs it)"; exit 0; }
done
here=$(cd "$(dirname "$0")/../../contrib/prometheus" && pwd)
work=$CLAIMS_TMP/prometheus
mkdir -p "$work"
expect 'the rules are sound' "$(promtool check rules "$here/alerts.yml" >"$work/check" 2>&1 && echo yes || cat "$work/check")" yes
expect 'so is the configuration' "$(promtool check config "$here/prometheus.yml" >"$work/check" 2>&1 && echo yes || cat "$work/check")" yes

start_cells -c shared_preload_libraries=claims -c log_min_messages=panic
for cluster in shared cell1; do at $cluster "CREATE ROLE monitor LOGIN PASSWORD '$CELLS_PASSWORD'; SELECT claims.grant_monitor('monitor')" >/dev/null; done
at cell1 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'); GRANT SELECT ON routes TO PUBLIC" >/dev/null

# --- exporters and Prometheus ------------------------------------------------------------------------------------------

free_port() { local port; port=$((32000 + RANDOM % 8000)); while ! port_is_free $port; do port=$((port + 1)); done; echo $port; }
programs=()
run() { local log=$1; shift; ( leave_sessions; exec "$@" ) >"$work/$log.log" 2>&1 </dev/null & programs+=($!); }
stop_programs() { [ ${#programs[@]} = 0 ] || kill "${programs[@]}" 2>/dev/null || true; }
trap 'stop_programs; for session in "${!SESSION_PID[@]}"; do close "$session"; done; cleanup' EXIT
url() { printf '%s://monitor:%s@127.0.0.1:%s/postgres?sslmode=disable' "$1" "$CELLS_PASSWORD" "${CLUSTER_PORT[$2]}"; }

# The shared database by the one exporter, cell 1 by the other; and the shared one by that too, to compare.
sql_port=$(free_port)
sed -e "s|interval: .*|interval: '1s'|" -e "s|postgres://[^']*|$(url postgres shared)|" "$here/sql-exporter.yml" >"$work/sql-exporter.yml"
expect 'the exporter of SQL asks what the file says' "$(grep -c "127.0.0.1:${CLUSTER_PORT[shared]}" "$work/sql-exporter.yml")" 1
run sql-exporter prometheus-sql-exporter -config.file "$work/sql-exporter.yml" -web.listen-address "127.0.0.1:$sql_port"
pg_exporter() {
  DATA_SOURCE_NAME=$(url postgresql "$1") run "postgres-exporter-$1" prometheus-postgres-exporter --web.listen-address="127.0.0.1:$2" --extend.query-path="$here/postgres-exporter.yml" \
    --disable-default-metrics --disable-settings-metrics --no-collector.database --no-collector.bgwriter
}
cell_port=$(free_port); pg_exporter cell1 "$cell_port"
shared_port=$(free_port); pg_exporter shared "$shared_port"

sed '/^ *for: /d' "$here/alerts.yml" >"$work/alerts.yml"
sed -e 's/15s/1s/' -e "s|'127.0.0.1:9237'|'127.0.0.1:$sql_port', '127.0.0.1:$cell_port'|" "$here/prometheus.yml" >"$work/prometheus.yml"
port=$(free_port)
run prometheus prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" --web.listen-address="127.0.0.1:$port"

get() { python3 -c 'import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())' "$1" 2>/dev/null; }
# answer QUERY: how many samples it has now; -1: not even an answer
samples() {
  python3 -c '
import json, sys, urllib.parse, urllib.request
try:
    answer = json.load(urllib.request.urlopen(sys.argv[1] + "/api/v1/query?" + urllib.parse.urlencode({"query": sys.argv[2]}), timeout=10))
    print(len(answer["data"]["result"]))
except Exception:
    print(-1)' "http://127.0.0.1:$port" "$1"
}
# until WHAT COMMAND...: it prints yes within a minute
until_yes() {
  local what=$1 _; shift
  for _ in $(seq 1 120); do [ "$("$@")" != yes ] || { echo "ok: $what"; return; }; sleep 0.5; done
  expect "$what" "not within a minute: $* $(tail -n 3 "$work"/*.log 2>/dev/null | cut -c1-300)" yes
}
fires() { [ "$(samples "ALERTS{alertname=\"$1\", alertstate=\"firing\"}")" -gt 0 ] && echo yes || echo no; }
is_quiet() { [ "$(samples "ALERTS{alertname=\"$1\", alertstate=\"firing\"}")" = 0 ] && echo yes || echo no; }
has() { [ "$(samples "$1")" -gt 0 ] && echo yes || echo no; }

until_yes 'the shared database is heard' has "claims_info{instance=\"127.0.0.1:$sql_port\"}"
until_yes 'and the cell' has "claims_info{instance=\"127.0.0.1:$cell_port\"}"

# --- something to see --------------------------------------------------------------------------------------------------

cycle() { as_cell 1 "SELECT claims.$2(1, claims.begin_update(1, '[$(claim "$1")]'))" >/dev/null; }
as_app 1 "SELECT count(*) FROM claims.reconcile(1, 'service')" >/dev/null
as_app 1 "SELECT count(*) FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES')" >/dev/null
at shared 'SELECT count(*) FROM claims.check()' >/dev/null
at cell1 "SELECT claims.add_expiring('shard', '{a}'), claims.enqueue_request('mail', 'e', 'update')" >/dev/null
at cell1 "BEGIN; SELECT count(*) FROM claims.take_requests('mail', gen_random_uuid()); SELECT 1; COMMIT" >/dev/null
for number in 1 2 3; do
  cycle "kept $number" commit_update
  cycle "not kept $number" rollback_update
  as_cell 2 "SELECT lease_uuid IS NULL FROM claims.try_begin_update(2, '[$(claim 'kept 1')]'); SELECT claims.rollback_update(2, gen_random_uuid())" >/dev/null 2>&1
  sleep 1.2
done
at shared 'ANALYZE claims.claims'

# Both exporters tell the same; but who holds a snapshot comes and goes.
names() { get "http://127.0.0.1:$1/metrics" | grep -E "$2" | grep -oE '[ {,]name="claims_[a-z_]+"' | grep -oE 'claims_[a-z_]+' | grep -v '^claims_oldest_snapshot_' | LC_ALL=C sort -u; }
sleep 1.5
expect 'both exporters have the same metrics' "$(names "$sql_port" '^sql_claims\{')" "$(names "$shared_port" '^claims_value\{')"
expect 'they have all of them' "$(names "$sql_port" '^sql_claims\{')" "$(at shared "SELECT DISTINCT name COLLATE \"C\" FROM claims.metrics() WHERE name !~ '^claims_oldest_snapshot_' ORDER BY 1")"
expect 'no sample of another name' "$(samples '{__name__!~"claims_.*|up|scrape_.*|ALERTS.*", job="claims"}')" 0

# --- no alert without a cause -----------------------------------------------------------------------------------------

mapfile -t alerts < <(sed -nE 's/^ *- alert: *//p' "$here/alerts.yml")
for alert in "${alerts[@]}"; do until_yes "$alert is quiet" is_quiet "$alert"; done

# --- each alert, by its cause --------------------------------------------------------------------------------------------

declare -A tried=()
# fire ALERT: after its cause was made
fire() { until_yes "$1 fires" fires "$1"; tried[$1]=yes; }

# A snapshot, a prepared transaction, a lease, a tracked lease, requests: old ones, by written times where there are any.
begin 1 1 old
at shared "UPDATE claims.claim_leases SET created_at = created_at - interval '1 hour'"
fire ClaimsLeaseTooOld
at shared "UPDATE claims.claim_leases SET created_at = clock_timestamp() + interval '7 days'"
fire ClaimsLeaseInTheFuture
until_yes 'the age has gone down' is_quiet ClaimsLeaseTooOld
as_cell 1 "SELECT claims.rollback_update(1, '$(lease 1)')" >/dev/null
at cell1 "INSERT INTO claims.cells_outstanding_leases (uuid, cell_id, created_at) VALUES ('$(lease 2)', 1, clock_timestamp() - interval '1 hour')"
fire ClaimsTrackedLeaseTooOld
at cell1 "INSERT INTO claims.seen_orphans VALUES ('$(lease 2)', 1, 'rolled_back', clock_timestamp())"
fire ClaimsOrphans
at shared "SELECT claims.prepare_transfer('$(lease 9970)', 1, 2, '[{\"type\": \"GROUP\", \"ids\": [9970]}]', 'to see the alert')" >/dev/null
at shared "UPDATE claims.cell_transfers SET created_at = created_at - interval '2 days'"
fire ClaimsTransferTooOld
until_yes 'it says where it stands' has 'ALERTS{alertname="ClaimsTransferTooOld", state="prepared"}'
at shared "SELECT claims.cancel_transfer('$(lease 9970)', 'seen')" >/dev/null
until_yes 'cancelled, it is no more' is_quiet ClaimsTransferTooOld
at shared "SELECT claims.set_mode('settle_only', 'to see the alert', 2)" >/dev/null
fire ClaimsModeNotOpen
at shared "SELECT claims.set_mode('open', 'seen', 2)" >/dev/null
at shared "INSERT INTO claims.claim_leases (uuid, creator_id, payload) VALUES ('$(lease 3)', 1, '{\"x\": 1}')"
at shared 'SELECT count(*) FROM claims.check()' >/dev/null
fire ClaimsCheckFinds
at shared "DELETE FROM claims.claim_leases WHERE uuid = '$(lease 3)'"; at shared 'SELECT count(*) FROM claims.check()' >/dev/null
until_yes 'repaired and checked again' is_quiet ClaimsCheckFinds

# Times that nobody can write, and that a test cannot wait for: the same rules with a threshold of seconds.
open holder shared postgres
tell holder "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; SET application_name = 'a long report'" >/dev/null
sed -i -e 's/> 3600$/> 2/' -e 's/> 2 \* 86400$/> 2/' "$work/alerts.yml"
kill -HUP "${programs[-1]}"
fire ClaimsSnapshotHeld
until_yes 'it says who' has 'ALERTS{alertname="ClaimsSnapshotHeld", holder="session", usename="postgres", holder_name="a long report"}'
tell holder 'ROLLBACK' >/dev/null; close holder
fire ClaimsNotChecked

at cell1 "INSERT INTO claims.pass_log SELECT gen_random_uuid(), 'purge', NULL, NULL, clock_timestamp(), clock_timestamp(), NULL, 'XX001', 'x'"
fire ClaimsPassFails
at cell1 "UPDATE claims.pass_log SET started_at = started_at - interval '1 hour', ended_at = ended_at - interval '1 hour' WHERE kind = 'reconcile'"
fire ClaimsRecoveryNotRunning
have_other() { as_cell 2 "SELECT claims.commit_update(2, claims.begin_update(2, '[$(claim "$1")]'))" >/dev/null; }
have_other stolen
as_app 1 "INSERT INTO routes (name) VALUES ('stolen')"
as_app 1 "SELECT count(*) FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES')" >/dev/null
fire ClaimsHeldByOther
at cell1 "UPDATE claims.requests SET created_at = created_at - interval '1 hour', status = 'new', settled_at = NULL, process_id = NULL, hold_until = NULL"
fire ClaimsRequestsWait
at cell1 "UPDATE claims.requests SET status = 'error', error = 'x', settled_at = clock_timestamp()"
fire ClaimsRequestsFail

# One that waits for another transaction is slow, and in conflict.
open holder shared postgres
tell holder "BEGIN; SELECT 1 FROM claims.claims WHERE bucket_value = 'kept 1' FOR UPDATE" >/dev/null
for number in 1 2 3; do as_cell 1 "SET claims.wait_timeout = '600 ms'; SELECT claims.try_begin_update(1, '[]', '[$(bucket 'kept 1')]')" >/dev/null; done
fire ClaimsBeginsSlow
fire ClaimsConflicts
tell holder ROLLBACK >/dev/null; close holder

halt shared
for number in $(seq 1 8); do state_as_app 1 "SELECT claims.explain_lease(1, 'service', '$(lease 1)')" >/dev/null; done
at cell1 "ALTER SYSTEM SET claims.breaker_pause = '30 s'"; at cell1 'SELECT pg_reload_conf()' >/dev/null
fire ClaimsServiceUnreachable

# --- the dashboard --------------------------------------------------------------------------------------------------------

resume shared
for number in 4 5 6; do
  cycle "kept $number" commit_update; cycle "not kept $number" rollback_update
  as_cell 2 "SELECT lease_uuid IS NULL FROM claims.try_begin_update(2, '[$(claim 'kept 1')]')" >/dev/null
  sleep 1.2
done
at shared 'SELECT count(*) FROM claims.check()' >/dev/null
begin 1 9 held
open holder shared postgres
tell holder "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1" >/dev/null
sleep 2.5
empty=0 queries=0
while IFS= read -r query; do
  queries=$((queries + 1))
  for _ in 1 2 3 4 5 6 7 8; do [ "$(has "$query")" != yes ] || continue 2; sleep 0.5; done
  echo "no answer: $query" >&2; empty=$((empty + 1))
done < <(python3 -c 'import json, sys; [print(t["expr"]) for p in json.load(open(sys.argv[1]))["panels"] for t in p.get("targets", [])]' "$here/dashboard.json")
expect 'every panel has a query' "$(python3 -c 'import json, sys; print(all(p.get("targets") for p in json.load(open(sys.argv[1]))["panels"] if p["type"] != "row"))' "$here/dashboard.json")" True
expect 'and every query an answer' "$empty of $((queries > 30 ? 30 : queries))" '0 of 30'
close holder

# --- nothing to be heard ---------------------------------------------------------------------------------------------------

kill "${programs[0]}" "${programs[1]}"
fire ClaimsMetricsMissing
expect 'every alert was tried' "$(printf '%s\n' "${!tried[@]}" | LC_ALL=C sort)" "$(printf '%s\n' "${alerts[@]}" | LC_ALL=C sort)"
expect 'each is in the runbook' "$(for alert in "${alerts[@]}"; do grep -q "$alert" "$here/../../docs/runbook.md" || echo "$alert"; done)" ''
stop_programs
