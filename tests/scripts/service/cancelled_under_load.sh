#!/usr/bin/env bash
# Cancels of a large begin while other sessions create one of its names and roll back: each one ends the call soon, not at its end, however many lock
# timeouts of the call come with it. So does statement_timeout.
# test: long
. "$(dirname "$0")/../common.bash"

rounds=${CANCEL_ROUNDS:-45}
fresh_database script_cancels
sql 'ALTER DATABASE script_cancels SET claims.max_batch_size = 20000'
sql "CREATE TABLE batch AS SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 1, 'value', 'n' || n),
       'subject', '{\"type\": 2, \"id\": 1}'::jsonb, 'source', '{\"type\": 3, \"id\": 1}'::jsonb)) AS records FROM generate_series(1, 20000) n"
# While it reads a long argument, whose last record is wrong: one that obeys does not come as far as that one. The time is half of what reading takes
# here and now, so that it comes neither before it nor after it, most times at least. (The argument is not compressed: that would take as long.)
sql "CREATE TABLE wrong (records jsonb); ALTER TABLE wrong ALTER records SET STORAGE EXTERNAL;
  INSERT INTO wrong SELECT (jsonb_agg(record) - 0) || '0' FROM batch, generate_series(1, 5), jsonb_array_elements(records) record"
read_wrong() {
  echo 'SET claims.max_batch_size = 100000; \set best 1000000'
  for _ in 1 2 3 4 5 6 7 8 9; do
    cat <<'SQL'
SET statement_timeout = 0;
SELECT clock_timestamp() AS began \gset
SELECT claims.begin_update(1, records) FROM wrong;
SELECT ceil(least(:best, 1000 * extract(epoch FROM clock_timestamp() - :'began'))) AS best \gset
SELECT ceil(:best / 2) AS half \gset
SET statement_timeout = :half;
SELECT claims.begin_update(1, records) FROM wrong;
SQL
  done
}
ends=$(read_wrong | psql -XqAt -v VERBOSITY=sqlstate -d script_cancels 2>&1)
expect 'a long argument is read to its end' "$([ "$(grep -c 22023 <<<"$ends")" -ge 9 ] && echo yes)" yes
expect 'a timeout while it is read' "$([ "$(grep -c 57014 <<<"$ends")" -ge 5 ] && echo yes)" yes
# A begin that has waited for a lock, in vain, and works on when the cancel comes: it is not one more lock timeout.
sql "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN
    PERFORM pg_sleep(0.05);
    BEGIN PERFORM pg_advisory_lock(1); EXCEPTION WHEN lock_not_available THEN PERFORM pg_advisory_xact_lock(2), pg_sleep(600); END;
    RETURN NEW; END \$\$;
  CREATE TRIGGER slow BEFORE INSERT ON claims.claims FOR EACH ROW WHEN (NEW.bucket_value = 'slow') EXECUTE FUNCTION slow()"
mkfifo "$CLAIMS_TMP/held"
psql -XqAt -d script_cancels <"$CLAIMS_TMP/held" >/dev/null 2>&1 &
exec 6>"$CLAIMS_TMP/held"
echo 'SELECT pg_advisory_lock(1);' >&6
# answer SETTING: prints the SQLSTATE of a begin that is cancelled after it has waited; otherwise it would run for ten minutes.
answer() {
  ( wait_for 1 sql "SELECT count(pg_cancel_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND objid = 2 AND granted" >/dev/null ) &
  PGAPPNAME=slow PGOPTIONS='-c client_min_messages=warning' psql -XqAt -v VERBOSITY=sqlstate -d script_cancels -c "SET $1" -c "SELECT claims.begin_update(1, '[$(claim slow)]')" 2>&1 || true
  wait $!
}
expect 'a cancel after a wait' "$(answer 'statement_timeout = 0')" 'ERROR:  57014'
expect 'a statement_timeout after a wait' "$(PGOPTIONS='-c statement_timeout=2s' sqlstate "SELECT claims.begin_update(1, '[$(claim slow)]')")" 57014
expect 'a cancel after a wait of a patient call' "$(answer "claims.wait_timeout = '20s'")" 'ERROR:  57014'
exec 6>&-
sql 'DROP FUNCTION slow CASCADE' 2>/dev/null
have 1 slow
sql "SELECT claims.commit_update(1, claims.begin_update(1, '[]', '[$(bucket slow)]'))" >/dev/null

# They hold a name for less than the millisecond that the begin waits for each, so the begin waits and continues.
cat >"$CLAIMS_TMP/others.sql" <<'SQL'
\set n random(1, 20000)
BEGIN;
INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status) VALUES (1, 'n' || :n, 2, '1', 3, '1', 2, 1);
ROLLBACK;
SQL
pgbench -n -c 6 -j 1 -T 600 -f "$CLAIMS_TMP/others.sql" script_cancels >"$CLAIMS_TMP/others" 2>&1 &
others=$!
trap 'kill $others 2>/dev/null || true; cleanup' EXIT

mkfifo "$CLAIMS_TMP/in"
PGAPPNAME=victim psql -XqAt -v VERBOSITY=sqlstate -d script_cancels <"$CLAIMS_TMP/in" >>"$CLAIMS_TMP/out" 2>&1 &
victim=$!
exec 7>"$CLAIMS_TMP/in"
printf '%s\n' "SET claims.wait_timeout = '30s';" >&7
now() { date +%s%3N; }

# One begin: it takes up to half a minute, since it waits for the other sessions. At its end it prints the time of the server's clock.
slowest=0 early=0 round=0
while [ $round -lt "$rounds" ]; do
  : >"$CLAIMS_TMP/out"
  printf '%s\n' 'BEGIN;' 'SELECT claims.begin_update(1, records) IS NULL, extract(epoch FROM clock_timestamp()) FROM batch;' 'ROLLBACK;' '\echo over' >&7
  sleep "0.$(printf %03d $((20 + RANDOM % 600)))"
  cancelled=$(now)
  sql "SELECT count(pg_cancel_backend(pid)), extract(epoch FROM clock_timestamp()) FROM pg_stat_activity WHERE application_name = 'victim' AND state = 'active' AND query LIKE 'SELECT%'" >"$CLAIMS_TMP/sent"
  wait_until grep -q over "$CLAIMS_TMP/out"
  took=$(($(now) - cancelled))
  # It was over before the cancel came, or as it came: this one does not count.
  if [ "$(cut -d'|' -f 1 "$CLAIMS_TMP/sent")" != 1 ] || cat "$CLAIMS_TMP/out" "$CLAIMS_TMP/sent" | awk -F'|' '/^f/ { ended = $2 } /^1/ { sent = $2 } END { exit !(ended && ended - sent < 0.25) }'; then
    early=$((early + 1)); [ $early -lt 200 ] || die 'begins end too early'; continue
  fi
  round=$((round + 1))
  [ "$(grep -c 57014 "$CLAIMS_TMP/out")" = 1 ] || expect "cancel $round is obeyed ($took ms)" "$(tr '\n' ' ' <"$CLAIMS_TMP/out")" 'ERROR:  57014 over '
  [ $took -le $slowest ] || slowest=$took
done
expect "$rounds cancels, the slowest obeyed in $slowest ms" "$([ $slowest -lt 20000 ] && echo yes)" yes

# The statement's own timeout is one, too.
for milliseconds in $(seq 200 60 800); do
  : >"$CLAIMS_TMP/out"
  printf '%s\n' 'BEGIN;' "SET LOCAL statement_timeout = $milliseconds;" 'SELECT claims.begin_update(1, records) IS NULL FROM batch;' 'ROLLBACK;' '\echo over' >&7
  started=$(now)
  wait_until grep -q over "$CLAIMS_TMP/out"
  took=$(($(now) - started))
  case $(tr '\n' ' ' <"$CLAIMS_TMP/out") in
    'ERROR:  57014 over ' | 'f over ') ;;
    *) expect "a timeout of $milliseconds ms" "$(tr '\n' ' ' <"$CLAIMS_TMP/out")" 'ERROR:  57014 over ' ;;
  esac
  [ $took -lt $((milliseconds + 20000)) ] || expect "a timeout of $milliseconds ms is obeyed in time" "$took ms" 'at most 20 s later'
done
echo 'ok: statement_timeout'
exec 7>&-
wait $victim || true
kill $others
wait $others 2>/dev/null || true
expect 'nothing is left' "$(sql "SELECT count(*) FROM claims.claims") $(sql 'SELECT count(*) FROM claims.check()')" '0 0'
sql postgres 'DROP DATABASE script_cancels WITH (FORCE)'
