#!/usr/bin/env bash
# The end of captures beside writers of several tables, in both orders, by the commands of docs/operations.md: no save fails.
. "$(dirname "$0")/../common.bash"

fresh_database script_removal
for table in a b c; do
  sql "CREATE TABLE $table (id bigint PRIMARY KEY, name text UNIQUE)"
  sql "SELECT claims.claim_attribute('$table', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES'), claims.capture_requests('$table', 'q', 'id')" >/dev/null
done
sql "SELECT claims.automatic_here(1)" >/dev/null
# Each session saves rows of two tables in each transaction until the file is gone.
touch "$CLAIMS_TMP/on"
writer() {
  local number=$1 n=0 first second
  while [ -e "$CLAIMS_TMP/on" ]; do
    n=$((n + 1))
    case $(((n + number) % 3)) in 0) first=a second=b ;; 1) first=b second=c ;; 2) first=c second=a ;; esac
    [ $((n % 2)) = 0 ] || { local swap=$first; first=$second second=$swap; }
    echo "BEGIN; INSERT INTO $first VALUES ($number$n, '$first$number-$n'); SELECT pg_sleep(0.01); INSERT INTO $second VALUES ($number$n, '$second$number-$n'); COMMIT;"
    sleep 0.01
  done | psql -XqAt -v VERBOSITY=sqlstate >/dev/null 2>>"$CLAIMS_TMP/errors" || true
}
: >"$CLAIMS_TMP/errors"
for number in 1 2 3 4; do writer $number & done
wait_until sql "SELECT 1 / (count(*) > 20)::int FROM a"
python3 -B "$CLAIMS_ROOT/tests/scripts/repository/documents/steps.py" "$CLAIMS_ROOT" docs/operations.md 'Removing the extension' |
  sed -n '/lock_timeout = /,/RESET lock_timeout/p' >"$CLAIMS_TMP/end.sql"
expect 'the commands' "$(grep -c gexec "$CLAIMS_TMP/end.sql")" 2
left() {
  psql -XqAt -f "$CLAIMS_TMP/end.sql" >/dev/null 2>&1 || true
  sql 'SELECT (SELECT count(*) FROM claims.claimed_columns) + (SELECT count(*) FROM claims.captured_tables)'
}
expect 'repeated until both are empty' "$(wait_for 0 left)" 0
count=$(sql 'SELECT count(*) FROM a')
wait_until sql "SELECT 1 / (count(*) > $count + 20)::int FROM a"
rm "$CLAIMS_TMP/on"
wait
expect 'no save has failed' "$(sort "$CLAIMS_TMP/errors" | uniq -c)" ''
expect 'no trigger is left' "$(sql "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'claims%' AND NOT tgisinternal AND tgrelid IN ('a'::regclass, 'b'::regclass, 'c'::regclass)")" 0
sql postgres 'DROP DATABASE script_removal WITH (FORCE)'
