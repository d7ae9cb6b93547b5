#!/usr/bin/env bash
# Two cells without the extension, contrib/cell in its place: processes that save, recovery beside them every half second, and kills of
# postmasters, backends and saving processes. First each way in which a save can end (plain_cell_endings.py). At the end every saved row has its claim, every claim its row, and no lease is left.
# CELL_BINDIR names the bin directory of another PostgreSQL (13 or newer) for the cells.
. "$(dirname "$0")/../cells.bash"

python=$(for python in python3 /usr/bin/python3; do ! "$python" -c 'import psycopg' 2>/dev/null || { echo "$python"; break; }; done)
[ -n "$python" ] || skip 'psycopg 3 is missing'
seconds=${CAMPAIGN_SECONDS:-20}
files=$CLAIMS_ROOT/contrib/cell

start_cluster shared --fast -c synchronous_commit=on -c log_min_messages=panic
at shared 'CREATE EXTENSION claims'
for number in 1 2; do
  at shared "CREATE ROLE cell$number LOGIN; SELECT claims.register_cell($number, 'cell$number')" >/dev/null
  start_cluster "cell$number" --fast --bindir "${CELL_BINDIR:-}" -c synchronous_commit=on -c log_min_messages=panic
  # The cell's role owns its schemas, and has no other right.
  at "cell$number" "CREATE ROLE app LOGIN"
  at "cell$number" "CREATE DATABASE app"
  ( use_cluster "cell$number"; sql app "REVOKE ALL ON SCHEMA public FROM PUBLIC; GRANT CREATE ON DATABASE app TO app"
    export PGDATABASE=app PGUSER=app
    sql 'CREATE SCHEMA app; CREATE TABLE routes (id bigserial PRIMARY KEY, path text NOT NULL UNIQUE)'
    psql -Xq -v ON_ERROR_STOP=1 -f "$files/cell.sql" )
done
service_dsn() { echo "host=${CLUSTER_DIR[shared]} port=${CLUSTER_PORT[shared]} dbname=postgres user=cell$1"; }
cell_dsn() { echo "host=${CLUSTER_DIR[cell$1]} port=${CLUSTER_PORT[cell$1]} dbname=app user=app"; }

saver() { "$python" -B "$CLAIMS_ROOT/tests/scripts/campaigns/plain_cell_campaign.py" "$(service_dsn "$1")" "$(cell_dsn "$1")" "$1" "$2" "$files" 2>>"$CLAIMS_TMP/saver.errors"; }
recovery() { "$python" -B "$files/claims_cell.py" "$(service_dsn "$1")" "$(cell_dsn "$1")" "$1" "${@:2}"; }

"$python" -B "$CLAIMS_ROOT/tests/scripts/campaigns/plain_cell_endings.py" "$(service_dsn 1)" "$(cell_dsn 1)" "$files"

until=$((SECONDS + seconds))
for number in 1 2; do
  for _ in 1 2; do
    # A saver that was killed is followed by another one.
    while [ $SECONDS -lt $until ]; do saver $number $((until - SECONDS)) || true; done >>"$CLAIMS_TMP/saved.$number" &
  done
  timeout $((seconds + 1)) "$python" -B "$files/claims_cell.py" "$(service_dsn $number)" "$(cell_dsn $number)" $number --every 0.5 --stale-after '1 second' \
    >>"$CLAIMS_TMP/recovery.log" 2>&1 &
done
kills=0
while [ $((SECONDS + 2)) -lt $until ]; do
  sleep "0.$((RANDOM % 10))"
  case $((RANDOM % 6)) in
    0) crash "cell$((RANDOM % 2 + 1))" ;;
    1) crash shared ;;
    2) pkill -9 -f "plain_cell_campaign.py host=${CLUSTER_DIR[shared]}" -n || true ;;
    *) at "$([ $((RANDOM % 2)) = 0 ] && echo shared || echo cell$((RANDOM % 2 + 1)))" "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1" >/dev/null 2>&1 || true ;;
  esac
  kills=$((kills + 1))
  for name in shared cell1 cell2; do [ -e "${CLUSTER_DIR[$name]}/data/postmaster.pid" ] || resume "$name"; done
done
wait

for number in 1 2; do
  # The first pass fences what is left over, the second one rolls it back.
  for _ in 1 2 3; do recovery $number --once --stale-after 0 2>>"$CLAIMS_TMP/recovery.log"; done
done
say "$(cat "$CLAIMS_TMP"/saved.* | awk '{ n += $1 } END { print n + 0 }') changes saved, $kills kills, $(grep -c 'recovery failed' "$CLAIMS_TMP/recovery.log" || true) passes failed"
saved=$(cat "$CLAIMS_TMP"/saved.* | awk '{ n += $1 } END { print (n >= 20) ? "many" : n + 0 }')
expect 'changes are saved meanwhile' "$saved" many
for number in 1 2; do
  rows=$(at_cell() { ( use_cluster "cell$1"; sql app "$2" ); }; at_cell $number "SELECT path || ' ' || id FROM app.routes ORDER BY 1")
  expect "cell $number: rows and claims" "$rows" \
    "$(at shared "SELECT bucket_value || ' ' || source_id FROM claims.claims WHERE creator_id = $number ORDER BY 1")"
  expect "cell $number: tracked leases left" "$( (use_cluster "cell$number"; sql app 'SELECT count(*) FROM claims_cell.cells_outstanding_leases') )" 0
done
expect 'leases left at the service' "$(at shared 'SELECT count(*) FROM claims.claim_leases')" 0
expect 'check()' "$(at shared 'SELECT count(*) FROM claims.check()')" 0
expect 'recovery reported no lost name' "$(grep -c 'are not committed at the service' "$CLAIMS_TMP/recovery.log" || true)" 0
