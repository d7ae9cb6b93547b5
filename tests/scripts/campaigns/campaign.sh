#!/usr/bin/env bash
# The crash campaign: two cells save the same names at random while postmasters and backends of all three clusters are killed,
# the network between them breaks and the service stops for seconds. Some writers follow the protocol, the others write to a claimed
# table; in cell 2 it is claimed by itself. Then recovery runs, and everything is compared. The campaign takes CAMPAIGN_SECONDS, and on
# a busy machine as much longer as it needs for enough to happen. With CAMPAIGN_WORKERS=yes the library is preloaded, and the cells'
# background workers do the recovery. They are killed, too; and a table of the service has a trigger, so the calls write with statements.
# test: long
. "$(dirname "$0")/../disturb.bash"

seconds=${CAMPAIGN_SECONDS:-30}
"$CLAIMS_ROOT/scripts/clients"
export CAMPAIGN_WORKERS=${CAMPAIGN_WORKERS:-no}
with_workers=()
[ "$CAMPAIGN_WORKERS" = no ] || with_workers=(-c shared_preload_libraries=claims -c claims.databases=postgres -c claims.reconcile_interval=1s)
start_cells -c deadlock_timeout=20ms "${with_workers[@]}"
prepare_cells 2s
[ "$CAMPAIGN_WORKERS" = no ] || at shared "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
  CREATE TRIGGER nothing AFTER INSERT ON claims.claim_leases FOR EACH STATEMENT EXECUTE FUNCTION nothing()"

CAMPAIGN_SHARED=${CLUSTER_DIR[shared]}:${CLUSTER_PORT[shared]} \
CAMPAIGN_CELL1=${CLUSTER_DIR[cell1]}:${CLUSTER_PORT[cell1]} CAMPAIGN_CELL2=${CLUSTER_DIR[cell2]}:${CLUSTER_PORT[cell2]} \
CAMPAIGN_PASSWORD=$CELLS_PASSWORD CAMPAIGN_PROXY=$proxy CAMPAIGN_CUT=$CLAIMS_TMP/cut CAMPAIGN_OVER=$CLAIMS_TMP/over CAMPAIGN_ENOUGH=$CLAIMS_TMP/enough \
  "$CLAIMS_CLIENTS/campaign" &
campaign=$!

clusters=(shared cell1 cell2)
disturbed=0
end=$((SECONDS + seconds)) limit=$((SECONDS + seconds + 300))
while { [ $SECONDS -lt $end ] || [ $disturbed -lt 7 ] || { [ ! -e "$CLAIMS_TMP/enough" ] && [ $SECONDS -lt $limit ]; }; } &&
  kill -0 $campaign 2>/dev/null; do
  sleep "$((RANDOM % 2)).$((RANDOM % 10))"
  cluster=${clusters[RANDOM % 3]}
  # each kind once, then at random
  case $((disturbed < 7 ? disturbed : RANDOM % 7)) in
    0 | 1) crash "$cluster"; sleep "0.$((RANDOM % 10))"; resume "$cluster" ;;
    2) kill_backend "$cluster" ;;
    3) kill_backend "$cluster"; kill_backend "${clusters[RANDOM % 3]}" ;;
    # The first time for so long that every kind of writer meets it.
    4) echo close >"$CLAIMS_TMP/cut"; sleep "$((disturbed < 7 ? 3 : 1)).$((RANDOM % 10))"; rm "$CLAIMS_TMP/cut" ;;
    5) echo hold >"$CLAIMS_TMP/cut"; sleep "$((RANDOM % 3)).$((RANDOM % 10))"; rm "$CLAIMS_TMP/cut" ;;
    6) stop_service shared "4.$((RANDOM % 10))" ;;
  esac
  disturbed=$((disturbed + 1))
done
echo "disturbed $disturbed times"
for cluster in "${clusters[@]}"; do
  wait_until at "$cluster" 'SELECT 1'
done
touch "$CLAIMS_TMP/over"
wait $campaign
