#!/usr/bin/env bash
# Sixteen instances and 10,000 keys: none waits, not even for one that never ends its transaction, the sets are disjoint, all keys are held in
# the end; and the keys of an instance that is killed are taken over when they expire, and not before.
# test: timed
. "$(dirname "$0")/../common.bash"

fresh_database script_expiring
sql "SELECT claims.add_expiring('service', (SELECT array_agg('s' || n) FROM generate_series(1, 10010) n))" >/dev/null
sql "CREATE TABLE won (instance int, key text, token bigint, ms numeric)"

# One instance has ten keys in a transaction that stays open: a call that waited for it would wait to the end.
mkfifo "$CLAIMS_TMP/open"
psql -XqAt <"$CLAIMS_TMP/open" >"$CLAIMS_TMP/opened" 2>&1 & opened=$!
exec 8>"$CLAIMS_TMP/open"
echo "SELECT pg_advisory_lock(1); BEGIN; SELECT count(*) || ' keys' FROM claims.acquire_expiring('service', 'open', '1 h', 10);" >&8
wait_until grep -q '10 keys' "$CLAIMS_TMP/opened"

# instance N: when all others are there, too, in shares of 1000, until nothing is free; keeps what it has.
cat >"$CLAIMS_TMP/instance.sql" <<'SQL'
SET synchronous_commit = off;
SELECT pg_advisory_lock_shared(1) \g /dev/null
DO $$ BEGIN PERFORM claims.held_expiring('service', 'warm'); END $$;
SELECT set_config('my.instance', :'instance', false) \g /dev/null
DO $$
DECLARE started timestamptz; got bigint; rounds int := 0;
BEGIN
  LOOP
    started := clock_timestamp();
    INSERT INTO won SELECT current_setting('my.instance')::int, a.key, a.token FROM claims.acquire_expiring('service', 'i' || current_setting('my.instance'), '1 h', 1000) a;
    GET DIAGNOSTICS got = ROW_COUNT;
    UPDATE won SET ms = extract(epoch FROM clock_timestamp() - started) * 1000 WHERE instance = current_setting('my.instance')::int AND ms IS NULL;
    COMMIT;
    rounds := rounds + 1;
    EXIT WHEN got = 0 AND (SELECT count(*) FROM claims.expiring_claims WHERE claimant IS NOT NULL) = 10000 OR rounds > 10000;
  END LOOP;
END $$;
SQL
sql "CREATE FUNCTION waits() RETURNS bigint LANGUAGE sql AS \$\$ SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'tuple') AND waitstart < clock_timestamp() - interval '5 s' \$\$"
pids=()
for n in $(seq 1 16); do
  psql -XqAt -v ON_ERROR_STOP=1 -v instance="$n" -f "$CLAIMS_TMP/instance.sql" 2>"$CLAIMS_TMP/err.$n" & pids+=($!)
done
wait_for 16 sql "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted" >/dev/null
echo 'SELECT pg_advisory_unlock(1);' >&8
waited=0
while kill -0 "${pids[0]}" 2>/dev/null; do waited=$(sql 'SELECT waits()'); [ "$waited" = 0 ] || break; sleep 0.05; done
expect 'nobody waited for a row or a transaction' "$waited" 0
for pid in "${pids[@]}"; do wait "$pid" || { cat "$CLAIMS_TMP"/err.*; expect 'every instance ends well' no yes; }; done
echo 'ROLLBACK;' >&8; exec 8>&-; wait "$opened"
sql "SELECT claims.remove_expiring('service', (SELECT array_agg(key) FROM claims.expiring_claims WHERE claimant IS NULL))" >/dev/null
expect 'all keys are held' "$(sql "SELECT count(*) FROM claims.expiring_claims WHERE expires_at > clock_timestamp()")" 10000
expect 'every key was won once' "$(sql "SELECT count(*), count(DISTINCT key), count(DISTINCT token) FROM won")" '10000|10000|10000'
expect 'who won it has it' "$(sql "SELECT count(*) FROM won w JOIN claims.expiring_claims c ON c.key = w.key AND c.claimant = 'i' || w.instance AND c.token = w.token")" 10000
expect 'more than one instance won' "$(sql "SELECT count(DISTINCT instance) > 1 FROM won")" t

# nothing is free: asking costs next to nothing
make_cpu_ms
sql "CREATE FUNCTION ms(statement text) RETURNS numeric LANGUAGE plpgsql AS \$\$
DECLARE started numeric := cpu_ms(); n bigint;
BEGIN
  FOR i IN 1..50 LOOP EXECUTE statement INTO n; END LOOP;
  RETURN round((cpu_ms() - started) / 50, 2);
END \$\$"
idle=$(sql "VACUUM claims.expiring_claims" && sql "SELECT ms('SELECT count(*) FROM claims.acquire_expiring(''service'', ''new'', ''1 h'')')")
expect "an instance for which nothing is free asks for $idle ms of CPU" "$(sql "SELECT $idle < 20")" t
expect 'one that wants nothing pays nothing' "$(sql "SELECT ms('SELECT count(*) FROM claims.acquire_expiring(''service'', ''new'', ''1 h'', 0)') < 1")" t

# one instance dies with its keys: no other takes them over before they expire, and one does then
sql "SELECT claims.release_expiring('service', 'i' || n) FROM generate_series(1, 16) n" >/dev/null
mkfifo "$CLAIMS_TMP/in"
psql -XqAt <"$CLAIMS_TMP/in" >"$CLAIMS_TMP/dies" 2>&1 &
dies=$!
exec 7>"$CLAIMS_TMP/in"
printf "SELECT count(*) FROM claims.acquire_expiring('service', 'dies', '10 s');\n" >&7
wait_until grep -q 10000 "$CLAIMS_TMP/dies"
kill -9 "$dies"; exec 7>&-; wait "$dies" 2>/dev/null || true
expect 'killed, and still the holder' "$(sql "SELECT count(*) FROM claims.acquire_expiring('service', 'heir', '1 h')")" 0
sql "SELECT pg_sleep_until(max(expires_at)) FROM claims.expiring_claims" >/dev/null
expect 'taken over when the time is up' "$(sql "SELECT count(*) FROM claims.acquire_expiring('service', 'heir', '1 h')")" 10000
sql postgres 'DROP DATABASE script_expiring'
