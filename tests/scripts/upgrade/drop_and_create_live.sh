#!/usr/bin/env bash
# DROP EXTENSION and CREATE EXTENSION while a session that has called the functions stays connected: its plans and cached
# types are those of the old tables.
. "$(dirname "$0")/../common.bash"

fresh_database script_live
mkfifo "$CLAIMS_TMP/in"
psql -XqAt -v VERBOSITY=sqlstate -d script_live <"$CLAIMS_TMP/in" >"$CLAIMS_TMP/out" 2>&1 &
live=$!
exec 7>"$CLAIMS_TMP/in"
# live STATEMENT: what the session answers, in one line.
live() {
  local before after end=$((SECONDS + WAIT_LIMIT_SECONDS))
  before=$(wc -l <"$CLAIMS_TMP/out")
  printf '%s\n\\echo done\n' "$1" >&7
  while [ $SECONDS -lt $end ]; do
    after=$(tail -n +$((before + 1)) "$CLAIMS_TMP/out")
    case $after in *done) printf '%s' "${after%done}" | tr '\n' ' ' | sed 's/ *$//'; return ;; esac
    sleep 0.05
  done
  echo 'no answer'
}

every_call() {
  local n=$1
  cat <<SQL
SELECT 'begin ' || (claims.begin_update(1, '[$(claim "v$n"), $(claim "w$n")]', '[]', '$(lease "${n}1")') IS NOT NULL);
SELECT 'commit ' || claims.commit_update(1, '$(lease "${n}1")');
SELECT 'destroy ' || (claims.begin_update(1, '[]', '[$(bucket "v$n")]', '$(lease "${n}2")') IS NOT NULL);
SELECT 'rollback ' || claims.rollback_update(1, '$(lease "${n}2")');
SELECT 'outcome ' || claims.lease_outcome(1, '$(lease "${n}2")');
SELECT 'try ' || (conflicts->0->>'reason') FROM claims.try_begin_update(2, '[$(claim "v$n")]');
SELECT 'settle ' || outcome FROM claims.settle_leases(1, '{}', ARRAY['$(lease "${n}3")'::uuid]);
SELECT 'read ' || cell_id FROM claims.get_record('ROUTES', 'v$n');
SELECT 'reads ' || count(*) FROM claims.get_records('[{"type": "ROUTES", "value": "v$n"}, {"type": 1, "value": "w$n"}]');
SELECT 'leases ' || count(*) FROM claims.list_leases(1);
SELECT 'records ' || count(*) FROM claims.list_records(1);
SELECT 'check ' || count(*) FROM claims.check();
SELECT 'purge ' || (claims.purge_outcomes() IS NOT NULL);
SQL
}
good='begin true commit true destroy true rollback true outcome rolled_back try taken settle fenced read 1 reads 2 leases 0 records 2 check 0 purge true'

expect 'before' "$(live "$(every_call 1)")" "$good"
for _ in 1 2 3 4 5 6 7; do live "SELECT cell_id FROM claims.get_record('ROUTES', 'v1');" >/dev/null; done

sql 'DROP EXTENSION claims'
expect 'the schema went with it' "$(sql "SELECT count(*) FROM pg_namespace WHERE nspname = 'claims'")" 0
expect 'without the extension: undefined schema or function, no crash' "$(live "SELECT claims.lease_outcome(1, '$(lease 11)');" | grep -cE '3F000|42883')" 1
sql 'CREATE EXTENSION claims'
sql "SELECT claims.register_cell(1, 'script_claims_one'); SELECT claims.register_cell(2, 'script_claims_two')" >/dev/null
expect 'the same session on the new tables' "$(live "$(every_call 1)")" "$good"
expect 'other sessions see what it did' "$(sql "SELECT count(*) FROM claims.claims")" 2

# the types are of the new tables too: 6 was one thing, and is another now
sql "SELECT claims.add_bucket_type(200, 'OLD_NAME')" >/dev/null
expect 'a type that another session added' "$(live "SELECT claims.rollback_update(1, claims.begin_update(1, '[{\"bucket\": {\"type\": \"OLD_NAME\", \"value\": \"t\"}, \"subject\": {\"type\": 2, \"id\": 1}, \"source\": {\"type\": 3, \"id\": 1}}]'));")" t
sql 'DROP EXTENSION claims CASCADE; CREATE EXTENSION claims'
sql "SELECT claims.register_cell(1, 'script_claims_one'); SELECT claims.register_cell(2, 'script_claims_two'); SELECT claims.add_bucket_type(200, 'NEW_NAME')" >/dev/null
expect 'a type of the tables that are gone' "$(live "SELECT claims.begin_update(1, '[{\"bucket\": {\"type\": \"OLD_NAME\", \"value\": \"t\"}, \"subject\": {\"type\": 2, \"id\": 1}, \"source\": {\"type\": 3, \"id\": 1}}]');" | grep -c 22023)" 1
expect 'the type that has its number now' "$(live "SELECT claims.rollback_update(1, claims.begin_update(1, '[{\"bucket\": {\"type\": \"NEW_NAME\", \"value\": \"t\"}, \"subject\": {\"type\": 2, \"id\": 1}, \"source\": {\"type\": 3, \"id\": 1}}]'));")" t
expect 'and all the rest' "$(live "$(every_call 3)")" "$good"

# all of it in one transaction of the live session itself
expect 'drop and create inside one transaction' "$(live "BEGIN; DROP EXTENSION claims; CREATE EXTENSION claims; SELECT claims.register_cell(1, 'script_claims_one') IS NULL AS x \\g /dev/null
SELECT claims.register_cell(2, 'script_claims_two') IS NULL AS x \\g /dev/null
$(every_call 4) COMMIT;")" "$good"
expect 'and a rolled-back drop' "$(live "BEGIN; DROP EXTENSION claims; ROLLBACK; SELECT cell_id FROM claims.get_record('ROUTES', 'v4');")" 1
# DISCARD as poolers do it
expect 'DISCARD ALL' "$(live "DISCARD ALL;")" ''
expect 'after DISCARD ALL' "$(live "SELECT cell_id FROM claims.get_record('ROUTES', 'w4');")" 1
exec 7>&-
wait "$live" || true
sql postgres 'DROP DATABASE script_live'
