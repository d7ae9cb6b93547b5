#!/usr/bin/env bash
# Several workers of one verification, between separate clusters: four at once; one killed with SIGKILL; one
# terminated; one suspended within a range that continues when everything is done.
. "$(dirname "$0")/../cells.bash"

start_cells
at cell1 "ALTER TABLE routes ADD COLUMN grp int NOT NULL DEFAULT 7;
  INSERT INTO claims.claimed_attributes VALUES ('routes', 'name', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_ROUTES', 'id', NULL);
  INSERT INTO routes (name) SELECT 'r' || i FROM generate_series(1, 8000) i;
  CREATE TABLE counts (worker text, checked bigint, missing bigint, corrected bigint);
  GRANT SELECT, INSERT ON counts TO app;
  CREATE SEQUENCE looks;
  -- Holds the victim up at its first look at row 1921, the first of a range, so that it is the first to be corrected; until the lock 78 is nobody's.
  CREATE FUNCTION slow(id bigint) RETURNS boolean LANGUAGE plpgsql AS \$\$ BEGIN
    IF id = 1921 AND current_setting('application_name') = 'victim' AND nextval('public.looks') = 1 THEN
      WHILE EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 78) LOOP PERFORM pg_sleep(0.02); END LOOP;
    END IF; RETURN true; END \$\$"
expect 'all claims are made' "$(as_app 1 "SELECT corrected FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', correct => true)")" 8000

# work NAME HOLD: a worker as in docs/cell/verification.md, from beginning to end. Its counts commit with its work.
work() {
  PGAPPNAME=$1 as_app 1 "DO \$\$
    DECLARE pass uuid; share record;
    BEGIN
      pass := claims.begin_verification(1, 'RAILS_TABLE_ROUTES', correct => true);
      COMMIT;
      LOOP
        SELECT * INTO share FROM claims.verify_share(pass, '$1', 'service', batch_size => 5, hold_for => '$2');
        INSERT INTO counts VALUES ('$1', share.checked, share.missing, share.corrected);
        COMMIT;
        EXIT WHEN share.finished;
        IF NOT share.in_hand THEN PERFORM pg_sleep(0.1); END IF;
      END LOOP;
    END \$\$" >"$CLAIMS_TMP/$1.out" 2>&1
}
start() { (leave_sessions; work "$1" "$2") & WORKER=$!; }
total() { at cell1 "SELECT sum(checked), sum(missing), sum(corrected) FROM counts"; }
anew() {
  at cell1 "TRUNCATE counts; SELECT setval('looks', 1, false); UPDATE claims.claimed_attributes SET condition = 'public.slow(id)'" >/dev/null
  lose r1921 r7000
  open gate cell1 postgres
  tell gate 'SELECT pg_advisory_lock(78)' >/dev/null
}
# lose NAME...: the claim goes at the service.
lose() { local name; for name in "$@"; do at shared "DELETE FROM claims.claims WHERE bucket_value = '$name'"; done; }
# The victim's process, once it is held up in the middle of a range.
held_up() { wait_for_any at cell1 "SELECT pid FROM pg_stat_activity WHERE application_name = 'victim' AND wait_event = 'PgSleep'"; }
# Its hold has expired: the next worker may take its range.
expire() { at cell1 "UPDATE claims.expiring_claims SET expires_at = clock_timestamp() WHERE claimant = 'victim'"; }
nothing_left() {
  expect "$1: nothing is left of the pass" "$(at cell1 "SELECT count(*) FROM claims.verification_passes WHERE finished_at IS NULL") $(at cell1 'SELECT count(*) FROM claims.verification_ranges') $(at cell1 'SELECT count(*) FROM claims.expiring_claims')" '0 0 0'
}

# four at once: every claim checked by one of them, and by one only
at cell1 "UPDATE claims.claimed_attributes SET condition = NULL"
lose r17 r1921 r7999
workers=()
for name in one two three four; do start "$name" '1 minute'; workers+=("$WORKER"); done
for worker in "${workers[@]}"; do wait "$worker"; done
expect 'four workers: everything once' "$(total)" '8000|3|3'
expect 'four workers: the work is shared' "$(at cell1 "SELECT count(*) > 1 FROM (SELECT worker FROM counts GROUP BY 1 HAVING sum(checked) > 0) w")" t
nothing_left 'four workers'

# SIGKILL in the middle of a range, which restarts the whole cluster; the next worker takes the range over
anew
start victim '1 hour'; victim=$WORKER
pid=$(held_up)
expect 'the range is in the victim'\''s hands' "$(at cell1 "SELECT worker, held, source_id_gt FROM claims.verification_workers")" 'victim|t|1920'
before=$(at cell1 "SELECT sum(checked) FROM counts")
checkpointer=$(checkpointer at cell1)
kill -9 "$pid"
wait "$victim" || true
wait_until has_restarted "$checkpointer" at cell1
expect 'what the victim had done stays done' "$(at cell1 "SELECT sum(checked) FROM counts")" "$before"
expect 'and it still has its range' "$(at cell1 "SELECT worker FROM claims.verification_workers")" victim
expire
work heir '1 minute'
expect 'killed: everything once' "$(total)" '8000|2|2'
expect 'killed: the heir did the rest' "$(at cell1 "SELECT sum(checked) FROM counts WHERE worker = 'heir'")" "$((8000 - before))"
nothing_left killed

# terminated while another one works: that one takes over
anew
start victim '1 hour'; victim=$WORKER
pid=$(held_up)
start heir '1 minute'; heir=$WORKER
sleep 0.2
at cell1 "SELECT pg_terminate_backend($pid, 60000)" >/dev/null
wait "$victim" || true
expire
wait "$heir"
expect 'terminated: everything once' "$(total)" '8000|2|2'
nothing_left terminated

# silent past its deadline: taken over; awake again it can neither correct nor record, and hears that all is done
anew
start victim '1 hour'; victim=$WORKER
pid=$(held_up)
kill -STOP "$pid"
expire
work heir '1 minute'
expect 'silent: the heir has done all that was left' "$(at cell1 "SELECT finished_at IS NOT NULL FROM claims.verification_passes ORDER BY pass DESC LIMIT 1") $(total)" 't 8000|2|2'
lose r1921
close gate
kill -CONT "$pid"
wait "$victim"
expect 'silent: the victim has corrected nothing since' "$(at shared "SELECT count(*) FROM claims.claims WHERE bucket_value = 'r1921'") $(at cell1 "SELECT coalesce(sum(corrected), 0) FROM counts WHERE worker = 'victim'")" '0 0'
expect 'silent: and knows why' "$(grep -c 'WARNING:  worker "victim" has lost the range' "$CLAIMS_TMP/victim.out")" 1
nothing_left silent
anew
at cell1 "UPDATE claims.claimed_attributes SET condition = NULL"
expect 'in the end all is in order' "$(as_app 1 "SELECT corrected, finished FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', correct => true)")" '2|t'
expect 'check' "$(at shared 'SELECT count(*) FROM claims.check()')" 0
