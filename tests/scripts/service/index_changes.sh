#!/usr/bin/env bash
# get_record, and the search for rows in flight, while their index is dropped, created, renamed, reindexed and rewritten:
# the right answer, or an error that says what is missing, and never "no such name".
. "$(dirname "$0")/../common.bash"
export PGOPTIONS='-c client_min_messages=warning'

fresh_database script_index
have 1 a b c
# Every save leaves HOT chains, by which a new index is not fit for old snapshots.
for n in 1 2 3; do sql "SELECT claims.rollback_update(1, claims.begin_update(1, '[]', '[$(bucket a)]'))" >/dev/null; done

# The columns of the unique index, and one made anew under any name.
unique() { sql "SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'claims.claims'::regclass AND indisunique ORDER BY indexrelid DESC LIMIT 1"; }
columns=$(sql "SELECT regexp_replace(pg_get_indexdef('$(unique)'::regclass), '^.*btree ', '')")
drop() { echo "ALTER TABLE claims.claims DROP CONSTRAINT IF EXISTS claims_bucket; DROP INDEX IF EXISTS claims.other, claims.third;"; }
create() { echo "CREATE UNIQUE INDEX ${1:-other} ON claims.claims $columns;"; }
read_a() { sql "SELECT count(*) FROM claims.get_record('ROUTES', 'a')"; }
none="SELECT claims.begin_update(2, '[$(claim a)]')"

sql "$(drop) $(create)"
expect 'an index of another name' "$(read_a)" 1
sql 'ALTER INDEX claims.other RENAME TO third'
expect 'renamed' "$(read_a)" 1
expect 'and asked for what is in flight' "$(sqlstate "$none")" 23505
sql "$(drop)"
expect 'dropped: no answer' "$(sqlstate "SELECT * FROM claims.get_record('ROUTES', 'a')")" 55000
expect 'nor to who is in the way' "$(sqlstate "SELECT claims.begin_update(1, '[]', '[$(bucket nobody)]')")" 55000
expect 'get_records needs none' "$(sql "SELECT count(*) FROM claims.get_records('[{\"type\": 1, \"value\": \"a\"}]')")" 1
# The indexes that exist instead do not guarantee uniqueness, or cannot be used for the search.
while read -r what; do
  sql "$what"
  expect "not by this one: $what" "$(sqlstate "SELECT * FROM claims.get_record('ROUTES', 'a')")" 55000
  sql 'DROP INDEX claims.other'
done <<SQL
CREATE INDEX other ON claims.claims $columns
CREATE UNIQUE INDEX other ON claims.claims $columns WHERE bucket_type < 100
CREATE UNIQUE INDEX other ON claims.claims ${columns%)}, uuid)
CREATE UNIQUE INDEX other ON claims.claims (bucket_value COLLATE ucs_basic, bucket_type)
SQL
sql "$(create) CREATE UNIQUE INDEX third ON claims.claims (uuid)"
expect 'made again, beside others' "$(read_a)" 1

# Dropped and made in one transaction, for which a call waits.
mkfifo "$CLAIMS_TMP/in"
psql -XqAt -d script_index <"$CLAIMS_TMP/in" >>"$CLAIMS_TMP/holder" 2>&1 &
holder=$!
exec 7>"$CLAIMS_TMP/in"
# holder STATEMENTS: runs them in a session of its own
holder() {
  printf '%s\n\\echo ready\n' "$1" >&7
  wait_until grep -q ready "$CLAIMS_TMP/holder"
  : >"$CLAIMS_TMP/holder"
}
# waiting STATEMENT: prints the answer of a call that began while the holder held its lock
waiting() {
  PGAPPNAME=waiting psql -XqAt -v VERBOSITY=sqlstate -d script_index -c "$1" >"$CLAIMS_TMP/waiting" 2>&1 &
  local pid=$!
  wait_for 1 sql "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waiting' AND wait_event_type = 'Lock'" >/dev/null
  holder 'COMMIT;'
  wait $pid
  cat "$CLAIMS_TMP/waiting"
}
for turn in 1 2 3; do
  holder "BEGIN; $(drop) $(create)"
  expect "dropped and made beside a call that waits ($turn)" "$(waiting "SELECT count(*) FROM claims.get_record('ROUTES', 'a')")" 1
done
holder "BEGIN; $(drop)"
expect 'dropped beside a call that waits' "$(waiting "SELECT count(*) FROM claims.get_record('ROUTES', 'a')" | grep -o 55000)" 55000
sql "$(create)"

# A snapshot from before the index was made shows the rows of that time.
holder 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM claims.cells;'
sql "SELECT claims.rollback_update(1, claims.begin_update(1, '[]', '[$(bucket a)]'))" >/dev/null
sql "BEGIN; $(drop) $(create) COMMIT"
printf '%s\n' "SELECT 'old ' || count(*) FROM claims.get_record('ROUTES', 'a');" '\echo ready' >&7
wait_until grep -q ready "$CLAIMS_TMP/holder"
expect 'an old snapshot on a new index' "$(grep old "$CLAIMS_TMP/holder")" 'old 1'
exec 7>&-
wait $holder || true

# Under load. A call that finds nothing divides by zero; pgbench ends with the first error.
cat >"$CLAIMS_TMP/read.sql" <<'SQL'
SELECT 1 / count(*) FROM claims.get_record('ROUTES', 'b');
SQL
# beside WHAT STATEMENTS: repeats them for some seconds beside readers
beside() {
  local what=$1 started=$SECONDS turns=0 errors
  shift
  pgbench -n -M prepared -c 6 -j 2 -T 5 -f "$CLAIMS_TMP/read.sql" script_index >"$CLAIMS_TMP/load" 2>&1 &
  local load=$!
  while [ $((SECONDS - started)) -lt 4 ]; do
    for statement in "$@"; do sql "$statement"; done
    turns=$((turns + 1))
  done
  wait $load || true
  errors=$(grep -iE 'error|abort' "$CLAIMS_TMP/load" | head -3 || true)
  expect "beside $what, $turns times" "$errors" ''
}
beside 'VACUUM FULL' 'VACUUM FULL claims.claims'
beside 'REINDEX' 'REINDEX TABLE claims.claims'
beside 'REINDEX CONCURRENTLY' "REINDEX TABLE CONCURRENTLY claims.claims"
beside 'DROP and CREATE in one transaction' "BEGIN; $(drop) $(create) COMMIT"
# The repair online: the new one is made beside the old, which then goes.
sql 'DROP INDEX IF EXISTS claims.third'
beside 'CREATE UNIQUE INDEX CONCURRENTLY' "CREATE UNIQUE INDEX CONCURRENTLY third ON claims.claims $columns" 'DROP INDEX CONCURRENTLY claims.other' \
  'ALTER INDEX claims.third RENAME TO other'
# It looks for the index under the name that the extension gave it.
expect 'check' "$(sql "SELECT count(*) FROM claims.check() c WHERE c::text !~ 'unique index'")" 0
sql postgres 'DROP DATABASE script_index'
