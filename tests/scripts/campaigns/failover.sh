#!/usr/bin/env bash
# A short failover campaign, one fault of each quick kind, loses no acknowledged call. Its control, without synchronous replication, loses some, and
# the same check finds them.
# test: long
. "$(dirname "$0")/../common.bash"

for program in patroni etcd; do
  command -v $program >/dev/null || { echo "skipped: $program is not installed (scripts/setup installs it where Debian has it)"; exit 0; }
done

# campaign MODE ROUNDS: the exit code; its output goes to the log of this test.
campaign() {
  local rc=0
  MODE=$1 ROUNDS=$2 SEED=1 "$CLAIMS_ROOT/scripts/failover" >"$CLAIMS_TMP/$1" 2>&1 || rc=$?
  cat "$CLAIMS_TMP/$1" >&2
  echo $rc
}
# How many lines of its output say so.
says() { grep -cE "$2" "$CLAIMS_TMP/$1" || true; }

expect 'synchronous: nothing is lost' "$(campaign synchronous 4)" 0
expect 'which is what it says' "$(says synchronous '^synchronous, .* 0 lost, 0 doubled, 0 problems$')" 1
expect 'asynchronous: something is' "$(campaign asynchronous 1)" 1
expect 'which is what it says' "$(says asynchronous '^asynchronous, .* [1-9][0-9]* lost, ')" 1
