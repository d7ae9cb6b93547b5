#!/usr/bin/env bash
# The control of the failover campaign: without synchronous replication a failover loses acknowledged calls, and the same check finds them. A test of its
# own, so that it runs beside failover: both mostly wait for Patroni.
# test: long
. "$(dirname "$0")/../common.bash"

for program in patroni etcd; do
  command -v $program >/dev/null || { echo "skipped: $program is not installed (scripts/setup installs it where Debian has it)"; exit 77; }
done

rc=0
MODE=asynchronous ROUNDS=1 SEED=1 "$CLAIMS_ROOT/scripts/failover" >"$CLAIMS_TMP/output" 2>&1 || rc=$?
cat "$CLAIMS_TMP/output" >&2
expect 'asynchronous: something is lost' "$rc" 1
expect 'which is what it says' "$(grep -cE '^asynchronous, .* [1-9][0-9]* lost, ' "$CLAIMS_TMP/output")" 1
