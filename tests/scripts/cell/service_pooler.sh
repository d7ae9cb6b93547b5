#!/usr/bin/env bash
# A pooler in transaction mode between cell and service: each transaction gets another session of the service.
. "$(dirname "$0")/../cells.bash"

start_cells
poolers=()
trap 'kill "${poolers[@]}" 2>/dev/null; for session in "${!SESSION_PID[@]}"; do close "$session"; done; cleanup' EXIT
# pool SESSIONS [disguised]: one more, whose port is in the file
pool() {
  rm -f "$CLAIMS_TMP/port"
  ( leave_sessions
    exec python3 "$(dirname "$0")/transaction_pooler.py" "$CLAIMS_TMP/port" "${CLUSTER_DIR[shared]}/.s.PGSQL.${CLUSTER_PORT[shared]}" "$@" ) &
  poolers+=($!)
  wait_until test -s "$CLAIMS_TMP/port"
}
pool 3
at cell1 "ALTER SERVER service OPTIONS (SET port '$(cat "$CLAIMS_TMP/port")');
  SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'), claims.automatic(1, 'service')" >/dev/null

open app cell1
for n in 1 2 3 4 5 6 7; do tell app "INSERT INTO routes (name) VALUES ('name$n')" >/dev/null; done
expect 'saves' "$(tell app "SELECT * FROM claims.reconcile(1, 'service')") $(claimed 1)" '0|0|0|0|0 name1 name2 name3 name4 name5 name6 name7'
expect 'went to all sessions' "$(at shared "SELECT count(*) FROM pg_stat_activity WHERE usename = 'cell1' AND query LIKE '%claims.%'")" 3
expect 'an abort' "$(tell app "BEGIN; DELETE FROM routes; SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK; SELECT count(*) FROM routes")" 7
expect 'a name that is taken' "$(tell app "INSERT INTO routes (name) VALUES ('name1')")" 'ERROR:  23505'
at shared "DELETE FROM claims.claims WHERE bucket_value IN ('name1', 'name2'); UPDATE claims.claims SET updated_at = updated_at - interval '2 hours'"
expect 'verification' "$(tell app "SELECT missing, corrected, finished FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', 2, '0', true)")" '2|2|t'
expect 'leaves no setting behind' "$(for _ in 1 2 3; do psql -XqAt "host=127.0.0.1 port=$(cat "$CLAIMS_TMP/port") user=cell1 dbname=postgres" -c 'SHOW statement_timeout'; done | sort -u)" 0
expect 'begin_pending and finish' "$(tell app "BEGIN; DELETE FROM routes WHERE name = 'name7'; SELECT claims.begin_pending(1, 'service') AS lease \\gset
COMMIT; SELECT claims.finish(1, 'service', :'lease')")" t
tell app "SELECT * FROM claims.reconcile(1, 'service')" >/dev/null
agree 'pooled'

say 'one that looks like the server itself, until another session answers'
# Of two sessions every second answers: the one begins, the other one commits, and statements are prepared in each. Until a begin
# has no commit.
pool 2 disguised
at cell1 "ALTER SERVER service OPTIONS (SET port '$(cat "$CLAIMS_TMP/port")')"
as_cell 2 "SELECT claims.commit_update(2, claims.begin_update(2, '[$(claim foreign)]'))" >/dev/null
for name in d1 d2 d3 foreign d4 d5 foreign d6 d7; do tell app "INSERT INTO routes (name) VALUES ('$name')"; echo; done >"$CLAIMS_TMP/disguised"
expect 'only what is taken fails' "$(grep . "$CLAIMS_TMP/disguised" | tr '\n' ' ')" 'ERROR:  23505 ERROR:  23505 '
tell app "SELECT * FROM claims.reconcile(1, 'service')" >/dev/null
expect 'all else is saved' "$(claimed 1)" "$(saved 1)"
expect 'and settled' "$(tracked 1) $(at shared 'SELECT count(*) FROM claims.claim_leases')" '- 0'

say 'one that keeps its clients while the server crashes'
# Until then one session answers. The next begin is that of another one, which has not flushed what the first one has lost.
pool 1 disguised
at cell1 "ALTER SERVER service OPTIONS (SET port '$(cat "$CLAIMS_TMP/port")')"
open app cell1
saves=''; for n in $(seq 1 49); do saves="$saves INSERT INTO routes (name) VALUES ('many$n');"; done
expect 'forty-nine saves' "$(tell app "$saves")$(settled) $(tracked 1 | wc -w)" 'soon 49'
alone
expect 'the fiftieth' "$(tell app "INSERT INTO routes (name) VALUES ('many50')")$(settled)" soon
expect 'its answer is read by a look-up' "$(tell app "SELECT claims.is_available('routes', 'name', 'free')")" t
crash shared; resume shared
expect 'a crash undoes it' "$(claimed 1 | tr ' ' '\n' | grep '\*')" 'many50*'
expect 'the next save forgets nothing' "$(tell app "INSERT INTO routes (name) VALUES ('many51')") $(tracked 1 | wc -w)" ' 51'
reconcile 1 >/dev/null
expect 'recovery repeats it' "$(claimed 1 | grep -c '\*')" 0
