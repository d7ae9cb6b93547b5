#!/usr/bin/env bash
# A call that is cancelled at the service, by its statement_timeout or pg_cancel_backend, is an error like any other: recovery
# continues with the other leases. A cancel of the cell's own statement ends it, also where both come at once.
# test: timed
. "$(dirname "$0")/../cells.bash"

start_cells
# limit TIME: the service's statement_timeout for cell 1.
limit() { at shared "ALTER ROLE cell1 SET statement_timeout = '$1'"; }
# slow LEASE SECONDS: settling it takes that long; quick: no more. DROP TRIGGER waits for who is at it.
slow() {
  at shared "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep($2); RETURN OLD; END';
    CREATE TRIGGER slow BEFORE DELETE ON claims.claim_leases FOR EACH ROW WHEN (OLD.uuid = '$(lease "$1")') EXECUTE FUNCTION slow()"
}
quick() { at shared 'DROP FUNCTION slow CASCADE' 2>/dev/null; }
# over: calls whose callers have gone do not go on at the service.
over() { at shared "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity WHERE usename = 'cell1'" >/dev/null; }

# One lease of many runs into the service's limit.
for n in 1 2 3 4; do save 1 $n "timeout$n"; done
slow 3 60; limit 3s
: >"$CLAIMS_TMP/warnings"
expect 'a timeout at the service: the others are settled' "$(reconcile 1) $(tracked 1)" '4|3|0|1|0 3'
expect 'and a warning says why' "$(grep -c "$(lease 3).*canceling statement due to statement timeout" "$CLAIMS_TMP/warnings")" 1

# A cancel at the service of the call with all leases: then each lease is settled alone.
limit 0; quick
slow 3 5
save 1 5 cancel5
( wait_for 1 at shared "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE usename = 'cell1' AND wait_event = 'PgSleep'" >/dev/null ) &
expect 'a cancel at the service: settled one by one' "$(reconcile 1) $(tracked 1)" '2|2|0|0|0 -'
wait $!
quick
agree 'cancelled at the service'

# The cell's own limit ends the pass, in time, and nothing has changed here.
for n in 11 12; do save 1 $n "own$n"; done
slow 12 60; limit 30s
started=$(date +%s%3N)
expect 'a timeout here' "$(state_as_app 1 "SET statement_timeout = '400ms'; SELECT * FROM claims.reconcile(1, 'service')") $(tracked 1)" '57014 11 12'
took=$(($(date +%s%3N) - started))
expect "a timeout here: given up in time ($took ms)" "$([ $took -lt 20000 ] && echo yes)" yes
# Both limits at about the same time. A pass that went on would take another 200 ms, for the slow lease alone.
over; limit 200ms
ended=
for milliseconds in $(seq 200 4 240); do
  ended="$ended $(state_as_app 1 "SET statement_timeout = $milliseconds; SELECT * FROM claims.reconcile(1, 'service')")"
  over
done
expect 'both at once: never taken for an answer' "$(tr ' ' '\n' <<<"$ended" | sed /^$/d | sort -u) $(tracked 1)" '57014 11 12'
limit 0; quick
# Leases that were settled before the pass ended stay settled.
expect 'without limits' "$(reconcile 1 | cut -d'|' -f 4-) $(tracked 1)" '0|0 -'
agree 'cancelled here'

# begin_pending and finish pass on what the service says.
for n in 1 2; do at "cell$n" "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id')" >/dev/null; done
answer() { ( use_cluster cell1; export PGUSER=app; psql -XqAt -v VERBOSITY=verbose -c "$1" 2>&1 | sed -n 's/^ERROR: *//p' ); }
as_they_are='57014: canceling statement due to statement timeout'
at shared "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(60); RETURN NULL; END';
  CREATE TRIGGER slow BEFORE INSERT OR DELETE ON claims.claim_leases FOR EACH STATEMENT EXECUTE FUNCTION slow()"
limit 3s
expect 'begin_pending' "$(answer "BEGIN; INSERT INTO routes (name) VALUES ('pending'); SELECT claims.begin_pending(1, 'service'); COMMIT")" "$as_they_are"
at shared 'ALTER TABLE claims.claim_leases DISABLE TRIGGER slow'
lease=$(as_app 1 "BEGIN; INSERT INTO routes (name) VALUES ('pending'); SELECT claims.begin_pending(1, 'service'); COMMIT")
at shared 'ALTER TABLE claims.claim_leases ENABLE TRIGGER slow'
expect 'finish' "$(answer "SELECT claims.finish(1, 'service', '$lease')")" "$as_they_are"
limit 0; quick
expect 'finish, later' "$(as_app 1 "SELECT claims.finish(1, 'service', '$lease')")" t
agree 'passed on'
