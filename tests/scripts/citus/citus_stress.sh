#!/usr/bin/env bash
# The stress run on distributed tables: sixteen sessions on three nodes begin, settle, repeat, trespass
# and read, by single calls and in longer transactions, while statements are cancelled, backends killed and nodes crashed. By what the clients
# were told every bucket has had one owner at a time, and the tables end as that history does. Then a shorter run in which somebody
# takes one claim away by hand: the same check has to find it. STRESS_SECONDS is how long the first one takes.
. "$(dirname "$0")/../citus.bash"

seconds=${STRESS_SECONDS:-30}
"$CLAIMS_ROOT/scripts/clients"

# stress SECONDS [OPTION...]: on a cluster of its own. No commit is flushed but those that the functions have flushed.
stress() {
  local name nodes=()
  citus_cluster 2 -c synchronous_commit=off -c citus.recover_2pc_interval=2s -c log_min_messages=panic
  for name in worker1 worker2; do nodes+=(--node "${CLUSTER_DIR[$name]}:${CLUSTER_PORT[$name]}"); done
  "$CLAIMS_CLIENTS/stress" "${nodes[@]}" --seconds "$@" 2>&1 | tee "$CLAIMS_TMP/stress"
}
stress "$seconds"
for name in coordinator worker1 worker2; do stop_cluster "$name"; done

if stress 10 --theft; then
  echo 'FAILED: a claim was taken away by hand, and the check has not found it' >&2
  exit 1
fi
stolen=$(sed -n 's/^stolen: //p' "$CLAIMS_TMP/stress")
expect 'a claim was stolen, and the check has found which' "$([ -n "$stolen" ] && grep -cF "bucket $stolen:" "$CLAIMS_TMP/stress" | sed 's/[1-9].*/yes/')" yes
