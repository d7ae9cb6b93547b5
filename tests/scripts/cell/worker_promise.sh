#!/usr/bin/env bash
# The worker settles committed leases beside long passes, keeps its intervals over restarts, and verifies only with a slot of the service.
# test: long
. "$(dirname "$0")/../cells.bash"

start_cells -c shared_preload_libraries=claims -c claims.databases=postgres -c claims.verification_slots=1
reload_with() { at "$1" "ALTER SYSTEM SET $2" && at "$1" 'SELECT pg_reload_conf()' >/dev/null; }
passes() { at "$1" "SELECT count(*) FROM claims.passes WHERE $2"; }
for n in 1 2; do
  at "cell$n" "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'); GRANT SELECT ON routes TO PUBLIC;
    SELECT claims.attend($n, 'service')" >/dev/null
  expect "cell $n: a first pass of recovery" "$(first_pass "$n")" t
done

# --- committed leases beside a long pass -----------------------------------------------------------------------------------------

# Leases that must wait, and a service that takes a second for each page of them: a pass takes eight seconds at least.
at shared "SELECT claims.begin_update(1, jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', 'waits-' || n),
    'subject', jsonb_build_object('type', 'GROUP', 'id', n), 'source', jsonb_build_object('type', 'RAILS_TABLE_ROUTES', 'id', n))))
  FROM generate_series(1, 7001) n" >/dev/null
at shared "ALTER FUNCTION claims.list_leases(bigint, text, int, timestamptz) RENAME TO list_leases_here"
at shared "CREATE FUNCTION claims.list_leases(cell_id bigint, after text DEFAULT NULL, max_results int DEFAULT 100, created_after timestamptz DEFAULT NULL)
    RETURNS TABLE (lease_uuid uuid, cell_id_ bigint, created_at timestamptz, updated_at timestamptz, payload jsonb, cursor text, cell_xid xid8) LANGUAGE plpgsql SECURITY DEFINER AS
    \$\$ BEGIN PERFORM pg_sleep(1); RETURN QUERY SELECT l.lease_uuid, l.cell_id, l.created_at, l.updated_at, l.payload, l.cursor, l.cell_xid
      FROM claims.list_leases_here(list_leases.cell_id, after, max_results, list_leases.created_after) l; END \$\$;
  GRANT EXECUTE ON FUNCTION claims.list_leases(bigint, text, int, timestamptz) TO cell1, cell2"
reload_with cell1 "claims.reconcile_interval = '1s'"
expect 'a pass is at work' "$(wait_for t at cell1 "SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'claims worker' AND query LIKE 'claims: reconcile%'")" t
before=$(passes cell1 "kind = 'reconcile'")
for number in 1 2 3; do
  save 1 "$number" "beside-$number"
  expect "committed lease $number is settled" "$(wait_for t at shared "SELECT status = 1 FROM claims.claims WHERE bucket_value = 'beside-$number'")" t
done
expect 'while the pass is still at work' "$(($(passes cell1 "kind = 'reconcile'") - before))" 0
reload_with cell1 "claims.reconcile_interval = '1d'"
at shared "DROP FUNCTION claims.list_leases(bigint, text, int, timestamptz); ALTER FUNCTION claims.list_leases_here(bigint, text, int, timestamptz) RENAME TO list_leases"
at shared "SELECT count(claims.rollback_update(1, l.lease_uuid)) FROM claims.list_leases(1, max_results => 10000) l" >/dev/null

# --- slots for verification ----------------------------------------------------------------------------------------------------------

hold() { at shared "SELECT claims.hold_verification_slot($1, $2)"; }
expect 'one cell has the slot' "$(hold 1 60) $(hold 2 60) $(hold 1 60)" 't f t'
for n in 1 2; do reload_with "cell$n" "claims.verify_interval = '3s'"; done
expect 'it verifies' "$(wait_for t at cell1 "SELECT count(*) > 0 FROM claims.passes WHERE kind = 'verify' AND sqlstate IS NULL")" t
expect 'and gives the slot back then: the other one verifies, too' "$(wait_for t at cell2 "SELECT count(*) > 0 FROM claims.passes WHERE kind = 'verify' AND sqlstate IS NULL")" t
# An open transaction that takes or gives back slots stops no other cell. The verifiers, which take slots and give them back, have ended by then.
for n in 1 2; do
  reload_with "cell$n" 'claims.verify_interval = 0'
  expect "the verifier of cell $n ends" "$(wait_for 0 at "cell$n" "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'claims verifier'")" 0
  hold "$n" 0 >/dev/null
done
reload_with shared 'claims.verification_slots = 2'
expect 'there are two slots' "$(wait_for 2 at shared 'SHOW claims.verification_slots')" 2
open idle shared postgres
tell idle "BEGIN; SELECT claims.hold_verification_slot(1, 60)" >/dev/null
expect 'the slot of an open transaction is held, the other one is free' "$(for n in 2 2; do ( use_cluster shared; PGOPTIONS='-c statement_timeout=3s' sql "SELECT claims.hold_verification_slot($n, 60)" ); done | tr '\n' ' ')$(at shared "SELECT claims.register_cell(78, 'cell1')" >/dev/null; hold 78 60)" 't t f'
tell idle 'ROLLBACK; BEGIN; SELECT claims.hold_verification_slot(2, 0)' >/dev/null
expect 'one that is being given back is held until then' "$(hold 1 60) $(hold 78 60)" 't f'
tell idle COMMIT >/dev/null
expect 'and free then' "$(hold 78 60)" t
for n in 1 2 78; do hold "$n" 0 >/dev/null; done
close idle
reload_with shared 'claims.verification_slots = 1'
at shared "INSERT INTO claims.verification_slots VALUES (77, now() + interval '1 hour')"
for n in 1 2; do reload_with "cell$n" "claims.verify_interval = '3s'"; done
expect 'while another cell has it, both say so' \
  "$(for n in 1 2; do wait_for t at "cell$n" "SELECT count(*) > 0 FROM claims.passes WHERE sqlstate = '55P03' AND kind = 'verify' AND source_type = 'RAILS_TABLE_ROUTES' AND message = 'cell $n has no slot for verification'"; done | tr '\n' ' ')" 't t '
expect 'which is no matter for the log' "$(cluster_log cell2 | grep -c 'no slot for verification' || true)" 0
done_before=$(passes cell2 "kind = 'verify' AND sqlstate IS NULL")
at shared "UPDATE claims.verification_slots SET held_until = now() WHERE cell_id = 77"
expect 'when its time is over, they go on' "$(wait_for t at cell2 "SELECT count(*) > $done_before FROM claims.passes WHERE kind = 'verify' AND sqlstate IS NULL")" t
# Fifty cells that try all the time: never more than the slots. Each records who holds one at the moment when it has got it.
reload_with shared 'claims.verification_slots = 2'
for n in 1 2; do reload_with "cell$n" 'claims.verify_interval = 0'; done
at shared "DELETE FROM claims.verification_slots; SELECT claims.register_cell(n, 'cell1') FROM generate_series(100, 149) n" >/dev/null
at shared "CREATE UNLOGGED TABLE seen (holders bigint, got boolean)"
expect 'the setting is in effect' "$(wait_for 2 at shared 'SHOW claims.verification_slots')" 2
cat >"$CLAIMS_TMP/day.sql" <<'SQL'
\set cell random(100, 149)
WITH got AS MATERIALIZED (SELECT claims.hold_verification_slot(:cell, 60) AS is_mine)
INSERT INTO seen SELECT 0, is_mine FROM got;
INSERT INTO seen SELECT count(*), NULL FROM claims.verification_slots WHERE held_until > clock_timestamp();
SELECT claims.hold_verification_slot(:cell, 0);
SQL
( use_cluster shared; cd "$CLAIMS_TMP"; pgbench -n -U postgres -c 10 -j 2 -t 100 -f day.sql postgres >/dev/null 2>"$CLAIMS_TMP/day.log" ) || { cat "$CLAIMS_TMP/day.log" >&2; exit 1; }
expect 'never more than two of fifty' "$(at shared 'SELECT max(holders), count(*) FILTER (WHERE got) > 0, count(*) FILTER (WHERE NOT got) > 0 FROM seen')" '2|t|t'

# --- intervals survive a restart ---------------------------------------------------------------------------------------------------------

reload_with cell1 "claims.verify_interval = '15s'"
verified() { at cell1 "SELECT count(*) FROM claims.passes WHERE kind = 'verify' AND sqlstate IS NULL"; }
count=$(verified)
expect 'a verification' "$(wait_for $((count + 1)) verified)" $((count + 1))
expect 'it has purged' "$(wait_for t at cell1 "SELECT count(*) > 0 FROM claims.passes WHERE kind = 'purge'")" t
purged=$(passes cell1 "kind = 'purge'") reconciled=$(passes cell1 "kind = 'reconcile'")
halt cell1; resume cell1
expect 'after a restart recovery begins at once' "$(wait_for t at cell1 "SELECT count(*) > $reconciled FROM claims.passes WHERE kind = 'reconcile'")" t
expect 'the next verification' "$(wait_for $((count + 2)) verified)" $((count + 2))
expect 'comes an interval after the last one, and not at once' \
  "$(at cell1 "SELECT max(started_at) - max(ended_at) FILTER (WHERE n = 2) >= interval '14.5 s' FROM (SELECT started_at, ended_at, row_number() OVER (ORDER BY ended_at DESC) AS n FROM claims.passes WHERE kind = 'verify' AND sqlstate IS NULL) p WHERE n <= 2")" t
expect 'nothing was purged once more' "$(passes cell1 "kind = 'purge'")" "$purged"

# --- the first verification begins at a moment of each cell's own ------------------------------------------------------------------------

# Forty cells of one database begin at the same moment, and are spread over five minutes.
reload_with cell1 'claims.verify_interval = 0'
at cell1 "SELECT claims.register_cell(n, 'app') FROM generate_series(100, 139) n; SELECT count(claims.attend(n, 'service')) FROM generate_series(100, 139) n" >/dev/null
reload_with cell1 "claims.verify_interval = '10min'"
spread() { at cell1 "SELECT count(DISTINCT cell_id) FROM claims.passes WHERE kind = 'verify' AND cell_id >= 100"; }
expect 'the first one has begun' "$(for _ in $(seq 1 600); do [ "$(spread)" = 0 ] || { echo yes; break; }; sleep 0.2; done)" yes
sleep 3
expect 'others have not' "$([ "$(spread)" -lt 20 ] && echo yes || spread)" yes
reload_with cell1 'claims.verify_interval = 0'
at cell1 "SELECT count(claims.attend(n, NULL)) FROM generate_series(100, 139) n" >/dev/null

# --- settings ---------------------------------------------------------------------------------------------------------------------------------

# A claim of now that no row needs.
as_cell 1 "SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim extra-of-now)]'))" >/dev/null
expect 'verify_recent is the default of verify: a claim of now is left alone' "$(as_app 1 "SELECT extra, skipped > 0 FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES')")" '1|t'
expect 'with 0 it is not' "$(as_app 1 "SET claims.verify_recent = 0; SELECT extra, skipped > 0 FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES')")" '1|f'
begin 1 9 stale
expect 'stale_after is that of reconcile: a lease of now' "$(as_app 1 "SELECT fenced FROM (SELECT claims.reconcile(1, 'service')) r, LATERAL (SELECT count(*) AS fenced FROM claims.orphans(1)) o") $(fences 1)" '0 0'
as_app 1 "SET claims.stale_after = 0; SELECT * FROM claims.reconcile(1, 'service')" >/dev/null
expect 'with 0 it is fenced' "$(fences 1)" 1
# The worker takes them from its settings.
begin 1 10 stale-for-worker
reload_with cell1 "claims.reconcile_interval = '1s'"
fenced() { at cell1 "SELECT count(*) FROM claims.lease_fences WHERE lease_uuid = '$(lease 10)'"; }
at cell1 'SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE backend_type = $$claims worker$$' >/dev/null
reconciled=$(passes cell1 "kind = 'reconcile' AND cell_id = 1")
expect 'the worker fences no lease of now' "$(wait_for t at cell1 "SELECT count(*) >= $reconciled + 2 FROM claims.passes WHERE kind = 'reconcile' AND cell_id = 1") $(fenced) $(outcome 1 10)" 't 0 outstanding'
reload_with cell1 'claims.stale_after = 0'
expect 'with 0 it rolls it back' "$(wait_for rolled_back outcome 1 10)" rolled_back
left_alone() { at cell1 "SELECT (counts ->> 'skipped')::int > 0 FROM claims.passes WHERE kind = 'verify' AND cell_id = 1 AND sqlstate IS NULL ORDER BY started_at DESC LIMIT 1"; }
reload_with cell1 'claims.verify_recent = 0'; reload_with cell1 "claims.verify_interval = '1s'"
expect 'it leaves no claim alone with 0' "$(wait_for f left_alone)" f
reload_with cell1 "claims.verify_recent = '1h'"
expect 'and those of now with an hour' "$(wait_for t left_alone)" t
