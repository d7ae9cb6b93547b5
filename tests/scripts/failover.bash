# A short failover campaign (scripts/failover), or its control. Sourced, never run.
#   failover MODE ROUNDS   prints the exit code; the campaign's output goes to the log of the test
#   says PATTERN           prints how many lines of that output match
. "$(dirname "${BASH_SOURCE[0]}")/common.bash"

for program in patroni etcd; do
  command -v $program >/dev/null || skip "$program is not installed (scripts/setup installs it where Debian has it)"
done

failover() {
  local rc=0
  MODE=$1 ROUNDS=$2 SEED=1 "$CLAIMS_ROOT/scripts/failover" >"$CLAIMS_TMP/output" 2>&1 || rc=$?
  cat "$CLAIMS_TMP/output" >&2
  echo $rc
}
says() { grep -cE "$1" "$CLAIMS_TMP/output" || true; }
