#!/usr/bin/env bash
# A short failover campaign, one fault of each quick kind, loses no acknowledged call. failover_control is its control.
# test: long
. "$(dirname "$0")/../common.bash"

for program in patroni etcd; do
  command -v $program >/dev/null || { echo "skipped: $program is not installed (scripts/setup installs it where Debian has it)"; exit 77; }
done

rc=0
MODE=synchronous ROUNDS=4 SEED=1 "$CLAIMS_ROOT/scripts/failover" >"$CLAIMS_TMP/output" 2>&1 || rc=$?
cat "$CLAIMS_TMP/output" >&2
expect 'synchronous: nothing is lost' "$rc" 0
expect 'which is what it says' "$(grep -cE '^synchronous, .* 0 lost, 0 doubled, 0 problems$' "$CLAIMS_TMP/output")" 1
