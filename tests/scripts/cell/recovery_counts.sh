#!/usr/bin/env bash
# The counts and warnings of a pass of recovery, with a service in another cluster; and transaction ids of unknown state.
. "$(dirname "$0")/../cells.bash"

start_cells

expect 'nothing' "$(reconcile 1)" '0|0|0|0|0'
save 1 1 tracked
expect 'tracked and outstanding' "$(reconcile 1) $(tracked 1)" '1|1|0|0|0 -'
begin 1 2 young
expect 'outstanding only: young' "$(reconcile 1) $(fences 1)" '1|0|0|1|0 0'
at shared "UPDATE claims.claim_leases SET created_at = clock_timestamp() - interval '8 minutes' WHERE uuid = '$(lease 2)'"
expect 'still young' "$(reconcile 1) $(fences 1)" '1|0|0|1|0 0'
at shared "UPDATE claims.claim_leases SET created_at = clock_timestamp() - interval '10 minutes 1 second' WHERE uuid = '$(lease 2)'"
expect 'outstanding only: stale, fenced' "$(reconcile 1) $(fences 1) $(outcome 1 2)" '1|0|0|1|0 1 outstanding'
expect 'outstanding only: stale, rolled back' "$(reconcile 1) $(outcome 1 2)" '1|0|1|0|0 rolled_back'
begin 2 3 elsewhere
expect 'another cell has leases, too' "$(reconcile 1 0)" '0|0|0|0|0'
expect 'and recovers them itself' "$(reconcile 2 0) $(reconcile 2 0)" '1|0|0|1|0 1|0|1|0|0'
agree 'counts'

for n in 11 12 13; do save 1 $n "page$n"; done
for n in 14 15; do begin 1 $n "page$n"; done
expect 'three pages' "$(reconcile 1 0 2)" '5|3|0|2|0'
for n in 16 17; do save 1 $n "page$n"; done
expect 'two pages' "$(reconcile 1 0 3)" '4|2|2|0|0'
agree 'pages'

# One that fails among many. A claim of it is damaged; another one fails the whole call.
for n in 21 22 23 24 25; do save 1 $n "fails$n"; done
at shared "CREATE TABLE damage AS SELECT * FROM claims.claims WHERE bucket_value = 'fails22'; DELETE FROM claims.claims WHERE bucket_value = 'fails22'"
at shared "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''not this one''; END';
  CREATE TRIGGER fails BEFORE DELETE ON claims.claim_leases FOR EACH ROW WHEN (OLD.uuid = '$(lease 24)') EXECUTE FUNCTION fails()"
: >"$CLAIMS_TMP/warnings"
expect 'one lease that fails among many' "$(reconcile 1) $(tracked 1)" '5|3|0|2|0 22 24'
expect 'and says why' "$(grep -c "could not be settled\|$(lease 24).*not this one" "$CLAIMS_TMP/warnings")" 2
at shared 'DROP TRIGGER fails ON claims.claim_leases; INSERT INTO claims.claims SELECT * FROM damage'
expect 'repaired' "$(reconcile 1)" '2|2|0|0|0'
agree 'one that failed'

: >"$CLAIMS_TMP/warnings"
save 1 31 committed
commit 1 31 >/dev/null
expect 'tracked only: committed' "$(reconcile 1) $(tracked 1)" '0|0|0|0|0 -'
expect 'without a word' "$(cat "$CLAIMS_TMP/warnings")" ''
save 1 32 undone
as_cell 1 "SELECT claims.rollback_update(1, '$(lease 32)')" >/dev/null
expect 'tracked only: rolled back' "$(reconcile 1) $(tracked 1)" '0|0|0|0|1 32'
as_app 1 "INSERT INTO routes (name) VALUES ('unknown'); $(track 33)" >/dev/null
expect 'tracked only: unknown' "$(reconcile 1) $(tracked 1)" '0|0|0|0|2 32 33'
expect 'kept, and reported again and again' "$(reconcile 1 0 1) $(tracked 1)" '0|0|0|0|2 32 33'
expect 'with a warning that names them' "$(grep -c "^WARNING.*2 leases of cell 1\|DETAIL.*$(lease 32), $(lease 33)" "$CLAIMS_TMP/warnings")" 4
# as docs/cell/recovery.md says: claim the saved names again, then forget the leases
for n in 34:undone 35:unknown; do
  begin 1 ${n%:*} ${n#*:}; commit 1 ${n%:*} >/dev/null
done
as_app 1 "$(forget 32) $(forget 33)" >/dev/null
agree 'orphans claimed again'

say 'transaction ids that tell nothing'
old=$(as_app 1 'SELECT pg_current_xact_id()')
halt cell1
( cd /tmp; as_server "$CLAIMS_BINDIR/pg_resetwal" -e 1 "${CLUSTER_DIR[cell1]}/data" >/dev/null )   # four billion transactions later
resume cell1
expect 'the counter has gone round once' "$(as_app 1 'SELECT pg_current_xact_id() > 4294967296::text::xid8')" t
begin 1 41 old "$old"
expect 'too old to tell: by age' "$(reconcile 1) $(fences 1)" "1|0|0|1|0 $(fences 1)"
expect 'fenced, then rolled back' "$(reconcile 1 0) $(reconcile 1 0)" '1|0|0|1|0 1|0|1|0|0'
begin 1 42 future 9000000000000000
expect 'of the future: by age' "$(reconcile 1) $(reconcile 1 0) $(reconcile 1 0)" '1|0|0|1|0 1|0|0|1|0 1|0|1|0|0'
open app cell1
begin 1 43 now "$(tell app 'BEGIN; SELECT pg_current_xact_id()')"
expect 'of a transaction after that: it is known' "$(reconcile 1 0) $(reconcile 1 0) $(tell app ROLLBACK)$(reconcile 1)" '1|0|0|1|0 1|0|0|1|0 1|0|1|0|0'
agree 'transaction ids'

say 'cancelled at any moment'
open app cell1
save 1 51 cancel
for timeout in $(seq 1 30); do
  tell app "SET statement_timeout = $timeout; SELECT * FROM claims.reconcile(1, 'service')" >/dev/null
done
# Its session keeps one for the next call, unless the last one was canceled.
expect 'no connection is left but the one that the session keeps' "$(at cell1 "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'") $(as_cell 1 "SELECT count(*) <= 1 FROM pg_stat_activity WHERE usename = 'cell1' AND pid <> pg_backend_pid()")" '1 t'
expect 'and the session goes on' "$(tell app "RESET statement_timeout; SELECT processed IN (0, 1) AND orphaned = 0 FROM claims.reconcile(1, 'service')")" t
agree 'cancelled'
