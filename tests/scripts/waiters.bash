# Sessions that wait for names (claims.lease_wait), in the background: sourced, never run.
. "$(dirname "${BASH_SOURCE[0]}")/common.bash"

names() { local list=; for value in "$@"; do list="$list${list:+, }$(claim "$value")"; done; printf '[%s]' "$list"; }
# waits JOB CELL PRIORITY WAIT NAME...: a session that begins in the background, and ends.
waits() {
  local job=$1 cell=$2 priority=$3 wait=$4
  shift 4
  rm -f "$CLAIMS_TMP/$job.ended"
  (PGAPPNAME="waiter $job" psql -XqAt -v VERBOSITY=verbose -c "SET claims.lease_wait = '$wait'" -c "SET claims.lease_priority = $priority" \
    -c "SELECT 'got ' || claims.begin_update($cell, '$(names "$@")')" >"$CLAIMS_TMP/$job" 2>&1 || true
  touch "$CLAIMS_TMP/$job.ended") &
}
waiting() { sql "SELECT count(*) FROM claims.lease_waiters"; }
is_there() { [ "$(waiting)" = "$1" ]; }
# queue JOB …: like waits, and returns when the session waits.
queue() {
  local before
  before=$(waiting)
  waits "$@"
  wait_until is_there $((before + 1))
}
ended() { wait_until test -e "$CLAIMS_TMP/$1.ended"; }
# answer JOB: got, or the SQLSTATE.
answer() { ended "$1"; grep -oE '^got|ERROR:  [0-9A-Z]{5}' "$CLAIMS_TMP/$1" | sed 's/ERROR:  //' | head -1; }
lease_of() { grep -oE '[0-9a-f]{8}-[0-9a-f-]{27}' "$CLAIMS_TMP/$1" | head -1; }
begin() { sql "SELECT claims.begin_update($1, '$(names "${@:2}")')"; }
roll_back() { sql "SELECT claims.rollback_update($1, '$2')" >/dev/null; }
commit() { sql "SELECT claims.commit_update($1, '$2')" >/dev/null; }
reasons() { sql "SELECT string_agg(c->>'reason' || coalesce(' ' || (c->>'waiting'), ''), ', ') FROM claims.try_begin_update($1, '$(names "${@:2}")'), jsonb_array_elements(conflicts) c"; }
clean() { sql "SELECT claims.rollback_update(creator_id, uuid) FROM claims.claim_leases" >/dev/null; }
