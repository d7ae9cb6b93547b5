#!/usr/bin/env bash
# A forged service: cells whose service answers wrongly, in every way that is known. Each lie is told at a save; with CAMPAIGN_SECONDS for so
# long at every call of a cell, in an order that FORGE_SEED decides. FORGE_LIES=two or all tells each at a save and one other call, or at
# every call; FORGE_ONLY has only the cases that contain a text, such as 'COPY' or 'verify: Nth'.
# Times are judged against how late the machine is otherwise.
. "$(dirname "$0")/../common.bash"

"$CLAIMS_ROOT/scripts/clients"
FORGE_PASSWORD=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
start_cluster service --fast -c max_connections=200
# The worker of a database verifies every second, and small buffers keep shared memory out of what a process uses.
start_cluster cell --fast -c shared_preload_libraries=claims -c log_min_messages=log -c log_checkpoints=off -c max_connections=200 \
  -c max_worker_processes=100 -c shared_buffers=16MB -c claims.reconcile_interval=1s -c claims.verify_interval=1s -c claims.verify_correct=on
export FORGE_PASSWORD FORGE_SERVICE=${CLUSTER_DIR[service]}:${CLUSTER_PORT[service]} FORGE_CELL=${CLUSTER_DIR[cell]}:${CLUSTER_PORT[cell]}
if [ -n "${CAMPAIGN_SECONDS:-}" ]; then export FORGE_SECONDS=$CAMPAIGN_SECONDS FORGE_LIES=${FORGE_LIES:-all}; fi
"$CLAIMS_CLIENTS/forge"
