#!/usr/bin/env bash
# Cells whose service is forged and answers wrongly, in every known way. By default each lie answers a save; with CAMPAIGN_SECONDS every call of a
# cell for that time, in an order that FORGE_SEED decides. With FORGE_LIES=two or all each lie answers a save and one other call, or every call;
# FORGE_ONLY runs only the cases that contain a text, such as 'COPY' or 'verify: Nth'. Times are compared with the delays of the machine.
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
