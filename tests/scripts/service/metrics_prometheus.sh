#!/usr/bin/env bash
# contrib/prometheus: both exporters, the rules and the dashboard against a real Prometheus. Each alert is quiet at first, and fires when
# its cause is made; each query of the dashboard has an answer, with a legend of its own for each series. The rules' `for:` is left out here;
# metrics_alerts.sh has the rules as they are.
# test: long
. "$(dirname "$0")/../cells.bash"

here=$(cd "$(dirname "$0")/../../../contrib/prometheus" && pwd)
# Every label that docs/metrics.md has is one that the exporters pass on; the label `name` of a snapshot's holder is holder_name.
labels_of_document() { sed -nE 's/^\| `claims_[^|]*\| ([a-z_, ]+) \|.*/\1/p' "$here/../../docs/metrics.md" | tr -d ' ' | tr ',' '\n' | sed 's/^name$/holder_name/' | LC_ALL=C sort -u | grep .; }
labels_of_sql_exporter() { sed -nE 's/^ *labels: \[(.*)\]$/\1/p' "$here/sql-exporter.yml" | tr -d ' ' | tr ',' '\n' | grep -v '^name$' | LC_ALL=C sort -u; }
labels_of_postgres_exporter() { sed -nE 's/^ *- ([a-z_]+): \{usage: LABEL.*/\1/p' "$here/postgres-exporter.yml" | grep -vE '^(name|database)$' | LC_ALL=C sort -u; }
expect 'labels of the one exporter' "$(labels_of_sql_exporter)" "$(labels_of_document)"
expect 'of the other' "$(labels_of_postgres_exporter)" "$(labels_of_document)"

for program in prometheus promtool prometheus-sql-exporter prometheus-postgres-exporter; do
  command -v $program >/dev/null || { echo "ok: skipped, there is no $program (scripts/setup release installs it)"; exit 0; }
done
work=$CLAIMS_TMP/prometheus
mkdir -p "$work"

start_cells -c shared_preload_libraries=claims -c log_min_messages=panic
for cluster in shared cell1 cell2; do at $cluster "CREATE ROLE monitor LOGIN PASSWORD '$CELLS_PASSWORD'; SELECT claims.grant_monitor('monitor')" >/dev/null; done
at cell1 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'); GRANT SELECT ON routes TO PUBLIC" >/dev/null

# --- exporters and Prometheus ------------------------------------------------------------------------------------------

programs=()
run() { local log=$1; shift; ( leave_sessions; exec "$@" ) >"$work/$log.log" 2>&1 </dev/null & programs+=($!); }
stop_programs() { [ ${#programs[@]} = 0 ] || kill "${programs[@]}" 2>/dev/null || true; }
trap 'stop_programs; for session in "${!SESSION_PID[@]}"; do close "$session"; done; cleanup' EXIT
url() { printf '%s://monitor:%s@127.0.0.1:%s/postgres?sslmode=disable' "$1" "$CELLS_PASSWORD" "${CLUSTER_PORT[$2]}"; }

# The shared database and cell 2 by the one exporter, cell 1 by the other; and the shared one by that too, to compare.
sql_port=$(take_port)
sed -E -e "s|interval: .*|interval: '1s'|" -e "s|^( *- ')postgres://[^']*'|\1$(url postgres shared)'\n\1$(url postgres cell2)'|" "$here/sql-exporter.yml" >"$work/sql-exporter.yml"
expect 'the exporter of SQL asks two databases' "$(grep -c "postgres://monitor:.*@127.0.0.1:" "$work/sql-exporter.yml")" 2
start_sql_exporter() { run sql-exporter prometheus-sql-exporter -config.file "$work/sql-exporter.yml" -web.listen-address "127.0.0.1:$sql_port"; sql_exporter=${programs[-1]}; }
start_sql_exporter
pg_exporter() {
  DATA_SOURCE_NAME=$(url postgresql "$1") run "postgres-exporter-$1" prometheus-postgres-exporter --web.listen-address="127.0.0.1:$2" --extend.query-path="$here/postgres-exporter.yml" \
    --disable-default-metrics --disable-settings-metrics --no-collector.database --no-collector.bgwriter
}
cell_port=$(take_port); pg_exporter cell1 "$cell_port"
shared_port=$(take_port); pg_exporter shared "$shared_port"

# Without pauses, and with a look at seconds where the rule looks at minutes.
sed -e '/^ *for: /d' -e 's/\[3m\]/[20s]/' -e 's/failed_total\[5m\]/failed_total[20s]/' "$here/alerts.yml" >"$work/alerts.yml"
sed -e 's/15s/1s/' -e "s|'127.0.0.1:9237'|'127.0.0.1:$sql_port', '127.0.0.1:$cell_port'|" "$here/prometheus.yml" >"$work/prometheus.yml"
port=$(take_port)
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

server() { printf 'server="127.0.0.1:%s", database="postgres"' "${CLUSTER_PORT[$1]}"; }
until_yes 'the shared database is heard' has "claims_info{instance=\"127.0.0.1:$sql_port\", $(server shared)}"
until_yes 'and a cell by way of the same exporter' has "claims_info{instance=\"127.0.0.1:$sql_port\", $(server cell2)}"
until_yes 'and the other cell by way of the other one, with the same labels' has "claims_info{instance=\"127.0.0.1:$cell_port\", $(server cell1)}"

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
# Observations that differ in one label only; and more ids than are called low.
at cell1 "INSERT INTO claims.observed (table_name, attribute, outcome, count, first_at, last_at) SELECT 'routes', attribute, outcome, 1, now(), now() FROM unnest('{name,path}'::text[]) attribute, unnest('{taken,failed}'::text[]) outcome" >/dev/null
at shared "SELECT claims.add_id_space('rows', 'to see it'), claims.add_id_space('small', 'to see it', last_id => 10000000, block_size => 5000000, max_range => 3000000)" >/dev/null
at cell1 "CREATE SEQUENCE drawn; ALTER SEQUENCE drawn OWNER TO app"
as_app 1 "BEGIN; SELECT claims.use_id_space('drawn', 'rows'); SELECT claims.refill_ids(1, 'service'); COMMIT" >/dev/null

until_yes 'a sample for each column and outcome that was observed' has "count(claims_observations_total{$(server cell1)}) == 4"
# Both exporters tell the same; but who holds a snapshot comes and goes.
names() { get "http://127.0.0.1:$1/metrics" | grep -E "$2" | grep -oE '[ {,]name="claims_[a-z_]+"' | grep -oE 'claims_[a-z_]+' | grep -v '^claims_oldest_snapshot_' | LC_ALL=C sort -u; }
sleep 1.5
of_shared="^sql_claims\{.*host=\"127.0.0.1:${CLUSTER_PORT[shared]}\""
expect 'both exporters have the same metrics' "$(names "$sql_port" "$of_shared")" "$(names "$shared_port" '^claims_value\{')"
expect 'they have all of them' "$(names "$sql_port" "$of_shared")" "$(at shared "SELECT DISTINCT name COLLATE \"C\" FROM claims.metrics() WHERE name !~ '^claims_oldest_snapshot_' ORDER BY 1")"
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
until_yes 'it says of which cell' has 'ALERTS{alertname="ClaimsModeNotOpen", mode="settle_only", cell="2"}'
at shared "SELECT claims.set_mode('open', 'seen', 2), claims.set_mode('open', 'nobody is restricted')" >/dev/null
until_yes 'open again, it is no more' is_quiet ClaimsModeNotOpen
expect 'what is open is no sample' "$(at shared "SELECT count(*) FROM claims.metrics() WHERE name = 'claims_mode'")" 0
at shared "INSERT INTO claims.claim_leases (uuid, creator_id, payload) VALUES ('$(lease 3)', 1, '{\"x\": 1}')"
at shared 'SELECT count(*) FROM claims.check()' >/dev/null
fire ClaimsCheckFinds
at shared "DELETE FROM claims.claim_leases WHERE uuid = '$(lease 3)'"; at shared 'SELECT count(*) FROM claims.check()' >/dev/null
until_yes 'repaired and checked again' is_quiet ClaimsCheckFinds
at shared "UPDATE claims.claims SET updated_at = clock_timestamp() + interval '7 days' WHERE bucket_value = 'kept 1'"; at shared 'SELECT count(*) FROM claims.check()' >/dev/null
fire ClaimsDatedInTheFuture
expect 'that pages nobody' "$(is_quiet ClaimsCheckFinds)" yes
at shared "UPDATE claims.claims SET updated_at = clock_timestamp() WHERE bucket_value = 'kept 1'"; at shared 'SELECT count(*) FROM claims.check()' >/dev/null
until_yes 'dated right and checked again' is_quiet ClaimsDatedInTheFuture

# A test cannot set or wait for these times: it uses the rules with a threshold of seconds.
open holder shared postgres
tell holder "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; SET application_name = 'a long report'" >/dev/null
sed -i -e 's/> 3600$/> 2/' -e 's/\(feed_held_seconds\) > 600/\1 > 2/' -e 's/> 2 \* 86400 or/> 2 or/' -e 's/> 120 and/> 0 and/' "$work/alerts.yml"
kill -HUP "${programs[-1]}"
fire ClaimsSnapshotHeld
until_yes 'it says who' has 'ALERTS{alertname="ClaimsSnapshotHeld", holder="session", usename="postgres", holder_name="a long report"}'
tell holder 'ROLLBACK' >/dev/null
at shared "SET claims.change_feed = on; SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim fed)]'))" >/dev/null
tell holder 'BEGIN; CREATE TEMP TABLE scratch (id int)' >/dev/null
fire ClaimsChangeFeedHeld
tell holder 'ROLLBACK' >/dev/null; close holder
fire ClaimsNotChecked
fire ClaimsClockWrong

at cell1 "INSERT INTO claims.pass_log SELECT gen_random_uuid(), 'purge', NULL, NULL, clock_timestamp(), clock_timestamp(), NULL, 'XX001', 'x'"
fire ClaimsPassFails
# The last pass of recovery was refused; without this row the one before it is the last again.
at cell1 "INSERT INTO claims.pass_log (id, kind, cell_id, started_at, ended_at, sqlstate, message) VALUES ('ffffffff-ffff-7fff-bfff-ffffffffffff', 'reconcile', 1, clock_timestamp(), clock_timestamp(), '55000', 'another database acts as cell 1')"
fire ClaimsAnotherDatabaseActs
at cell1 "DELETE FROM claims.pass_log WHERE message = 'another database acts as cell 1'"
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

at cell1 "SELECT setval('drawn', max_value - 100) FROM pg_sequences WHERE sequencename = 'drawn'" >/dev/null
fire ClaimsIdsLow
until_yes 'it says which sequence' has 'ALERTS{alertname="ClaimsIdsLow", sequence="public.drawn", id_space="rows"}'
as_cell 1 "SELECT count(claims.lease_id_range(1, 'small', 3000000)) FROM generate_series(1, 2)" >/dev/null
fire ClaimsIdSpaceLow
until_yes 'it says which space' has 'ALERTS{alertname="ClaimsIdSpaceLow", id_space="small"}'
at shared 'ALTER ROLE cell1 CONNECTION LIMIT 0'
for number in $(seq 1 20); do ( use_cluster cell1; PGUSER=app PGOPTIONS='-c claims.service_timeout=100ms' sqlstate "SELECT count(*) FROM claims.look_up(1, 'service', '[$(bucket 'kept 1')]')" >/dev/null ); sleep 0.3; done
fire ClaimsServiceFull
until_yes 'it says which service' has "ALERTS{alertname=\"ClaimsServiceFull\", service=\"service\", $(server cell1)}"
at shared 'ALTER ROLE cell1 CONNECTION LIMIT -1'

# One that waits for another transaction is slow, and in conflict.
open holder shared postgres
tell holder "BEGIN; SELECT 1 FROM claims.claims WHERE bucket_value = 'kept 1' FOR UPDATE" >/dev/null
for number in 1 2 3; do as_cell 1 "SET claims.wait_timeout = '600 ms'; SELECT claims.try_begin_update(1, '[]', '[$(bucket 'kept 1')]')" >/dev/null; done
fire ClaimsBeginsSlow
fire ClaimsConflicts
tell holder ROLLBACK >/dev/null; close holder

# No worker writes them down here, so they fill the room that there is. A rate needs a sample of before.
at shared "ALTER DATABASE postgres SET claims.audit = 'all'"
echo "SELECT count(*) FROM claims.try_begin_update(2, '[$(claim 'kept 1')]');" >"$work/refused.sql"
refuse() { ( use_cluster shared; PGUSER=cell2 pgbench -n -t "$1" -f "$work/refused.sql" postgres >/dev/null 2>&1 ); }
refuse 5000
until_yes 'refusals are counted' has "claims_audit_lost_total{$(server shared)} > 0"
sleep 2; refuse 1000
fire ClaimsAuditLosesRefusals
at shared 'ALTER DATABASE postgres RESET claims.audit'

halt shared
for number in $(seq 1 8); do state_as_app 1 "SELECT claims.explain_lease(1, 'service', '$(lease 1)')" >/dev/null; done
at cell1 "ALTER SYSTEM SET claims.breaker_pause = '30 s'"; at cell1 'SELECT pg_reload_conf()' >/dev/null
fire ClaimsServiceUnreachable
until_yes 'it says to which cell' has "ALERTS{alertname=\"ClaimsServiceUnreachable\", cell=\"1\", service=\"service\", $(server cell1)}"
# The exporter of SQL still answers for the shared database, with what that said last.
until_yes 'a dead database is noticed' has "ALERTS{alertname=\"ClaimsMetricsStale\", alertstate=\"firing\", $(server shared)}"
tried[ClaimsMetricsStale]=yes
expect 'although its exporter answers' "$(has "up{instance=\"127.0.0.1:$sql_port\"} == 1")" yes
expect 'the databases that live are none' "$(samples "ALERTS{alertname=\"ClaimsMetricsStale\", alertstate=\"firing\", server!=\"127.0.0.1:${CLUSTER_PORT[shared]}\"}")" 0

# --- the dashboard --------------------------------------------------------------------------------------------------------

resume shared
until_yes 'it lives again' is_quiet ClaimsMetricsStale
for number in 4 5 6; do
  cycle "kept $number" commit_update; cycle "not kept $number" rollback_update
  as_cell 2 "SELECT lease_uuid IS NULL FROM claims.try_begin_update(2, '[$(claim 'kept 1')]')" >/dev/null
  sleep 1.2
done
at shared 'SELECT count(*) FROM claims.check()' >/dev/null
begin 1 9 held
at shared "SELECT claims.set_mode('settle_only', 'to see it on the dashboard', 2)" >/dev/null
open holder shared postgres
tell holder "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1" >/dev/null
sleep 2.5
# look DASHBOARD SECONDS: the panels of a dashboard that show no data, or series without distinct names, after that time.
cat >"$work/look.py" <<'PYTHON'
import json, re, sys, time, urllib.parse, urllib.request
dashboard, server, seconds = sys.argv[1:]
def result(query):
    return json.load(urllib.request.urlopen(server + "/api/v1/query?" + urllib.parse.urlencode({"query": query}), timeout=10))["data"]["result"]
def faults(target):
    series = [s["metric"] for s in result(target["expr"])]
    legends = [re.sub(r"{{(\w+)}}", lambda label: metric.get(label[1], ""), target["legendFormat"]).strip() for metric in series]
    if not series:
        yield "no answer"
    yield from (f"no series has the label {label}" for label in re.findall(r"{{(\w+)}}", target["legendFormat"]) if not any(label in metric for metric in series))
    yield from sorted({f"two series are called {legend!r}" for legend in legends if legends.count(legend) > 1})
targets = [(panel["title"], target) for panel in json.load(open(dashboard, encoding="utf-8"))["panels"] if panel["type"] != "row" for target in panel["targets"] or [None]]
deadline = time.monotonic() + int(seconds)
while True:
    found = [f"{title}: {fault}" for title, target in targets for fault in (faults(target) if target else ["no query"])]
    if not found or time.monotonic() > deadline:
        break
    time.sleep(0.5)
print("\n".join(found) or f"{len(targets) > 40} {len({title for title, _ in targets}) > 30}")
PYTHON
look() { python3 "$work/look.py" "$1" "http://127.0.0.1:$port" "$2"; }
expect 'every panel of the dashboard shows something, each series by a name of its own' "$(look "$here/dashboard.json" 60)" 'True True'
sed -e 's/{{server}} {{database}}/{{colour}}/' -e 's/claims_lease_fences/claims_no_such_thing/' "$here/dashboard.json" >"$work/dashboard.json"
expect 'faults are noticed' "$(look "$work/dashboard.json" 0 | grep -oE 'no series has the label colour|no answer|two series are called' | LC_ALL=C sort -u | tr '\n' ' ')" 'no answer no series has the label colour two series are called '
close holder

# --- no metrics ---------------------------------------------------------------------------------------------------

missing() { [ "$(samples "ALERTS{alertname=\"ClaimsMetricsMissing\", alertstate=\"firing\", $1}")" -gt 0 ] && echo yes || echo no; }
expect 'nothing is missing' "$(is_quiet ClaimsMetricsMissing)" yes
# One database of several; one whose exporter says so itself; an exporter.
halt cell2; kill "$sql_exporter"
until_yes 'an exporter that is gone' missing "instance=\"127.0.0.1:$sql_port\", database=\"\""
start_sql_exporter
until_yes 'one database of several' missing "$(server cell2)"
until_yes 'but not the other one' has "claims_info{$(server shared)}"
halt cell1
until_yes 'an exporter without its database' missing "instance=\"127.0.0.1:$cell_port\""
tried[ClaimsMetricsMissing]=yes
# There is no Citus here: citus_operating.sh has its metric, and metrics_alerts.sh the rule.
tried[ClaimsNodeDown]=elsewhere
expect 'every alert was tried' "$(printf '%s\n' "${!tried[@]}" | LC_ALL=C sort)" "$(printf '%s\n' "${alerts[@]}" | LC_ALL=C sort)"
stop_programs
