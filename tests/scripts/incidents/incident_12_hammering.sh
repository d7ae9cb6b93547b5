#!/usr/bin/env bash
# test: timed
# One cell begins too many leases: the test finds the cell, limits it whatever it sets, and checks that the others are served.
. "$(dirname "$0")/../cells.bash"

start_cells -c shared_preload_libraries=claims -c log_min_messages=panic
at shared "CREATE ROLE claims_admin LOGIN PASSWORD '$CELLS_PASSWORD'; GRANT postgres TO claims_admin; CREATE ROLE watch LOGIN PASSWORD '$CELLS_PASSWORD'; SELECT claims.grant_monitor('watch'); GRANT pg_read_all_stats TO watch" >/dev/null
as_admin() { ( use_cluster shared; export PGUSER=claims_admin; sql "$1" ) }
as_watch() { ( use_cluster shared; export PGUSER=watch; sql "$1" ) }

# hammer BEGINS: as cell 1, begins as fast as it can, until it has begun so many, and prints how many were refused. Or until it is ended.
hammer() {
  as_cell 1 "DO \$\$
    DECLARE n int := 0; refused int := 0;
    BEGIN
      WHILE n < $1 LOOP
        BEGIN
          PERFORM claims.begin_update(1, jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', gen_random_uuid()), 'subject', '{\"type\": \"GROUP\", \"id\": 1}'::jsonb, 'source', '{\"type\": \"RAILS_TABLE_ROUTES\", \"id\": 1}'::jsonb)));
          n := n + 1;
        EXCEPTION WHEN configuration_limit_exceeded THEN refused := refused + 1; PERFORM pg_sleep(0.002);
        END;
        COMMIT;
      END LOOP;
      RAISE EXCEPTION 'refused %', refused;
    END \$\$" 2>&1 | sed -nE 's/.*refused ([0-9]+)$/\1/p' || true
}
end_hammer() { at shared "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = 'cell1'" >/dev/null; wait; }

# Look: who, how much.
( hammer 1000000 >/dev/null ) &
expect 'who it is' "$(wait_for_any as_watch "SELECT usename FROM pg_stat_activity WHERE backend_type = 'client backend' AND state = 'active' AND usename LIKE 'cell%'")" cell1
expect 'how much it has in hand, and nothing keeps it' "$(wait_for '1|t' as_watch "SELECT cell_id, count(*) > 200 FROM claims.leases GROUP BY 1")" '1|t'

# Act: 20 a second, in effect for the session that is at it.
as_admin "SELECT claims.set_cell_limits(1, 'it hammers', begins_per_second => 20)" >/dev/null
# Its begins, and between which moments they were counted.
begun() { as_watch "SELECT count(*), extract(epoch FROM now()), extract(epoch FROM clock_timestamp()) FROM claims.leases"; }
before=$(begun)
sleep 2
expect 'a begin of the other cell goes through' "$(as_cell 2 "SELECT claims.rollback_update(2, claims.begin_update(2, '[$(claim other)]'))")" t
after=$(begun)
end_hammer
expect 'no more than 20 a second, and those of one second at once' "$(printf '%s\n' "$before" "$after" |
  awk -F'|' '{ n = $1 - before; time = $3 - since; before = $1; since = $2 } END { print (n >= 20 && n <= 20 + 20 * time + 2 ? "yes" : n " in " time " s") }')" yes
as_admin "SELECT claims.force_rollback(cell_id, lease_uuid, 'test') FROM claims.leases" >/dev/null
hammer 60 >"$CLAIMS_TMP/throttled"
expect 'it is refused' "$(grep -c '[1-9]' "$CLAIMS_TMP/throttled")" 1
expect 'by a SQLSTATE that says when to come back' "$( (use_cluster shared; PGUSER=cell1 psql -XqAt -v VERBOSITY=verbose -c "DO \$\$ BEGIN FOR i IN 1..100 LOOP PERFORM claims.rollback_update(1, gen_random_uuid()); END LOOP; END \$\$" 2>&1) | grep -oE '53400|HINT:  Repeat the call in 0\.[0-9]{3} s' | sed 's/0\.[0-9]*/N/' | tr '\n' ' ')" '53400 HINT:  Repeat the call in N s '
expect 'fences that come too fast are busy in settle_leases' "$(as_cell 1 "SELECT count(*) FILTER (WHERE outcome = 'busy') > 0 FROM claims.settle_leases(1, rollback_leases => (SELECT array_agg(gen_random_uuid()) FROM generate_series(1, 100)))")" t
expect 'what it sets does not help' "$(as_cell 1 "SET claims.wait_timeout = '1 s'; DO \$\$ BEGIN FOR i IN 1..100 LOOP PERFORM claims.rollback_update(1, gen_random_uuid()); END LOOP; EXCEPTION WHEN configuration_limit_exceeded THEN SET LOCAL claims.wait_timeout = 77; END \$\$; SELECT 1" 2>/dev/null)" 1
expect 'settling is not limited' "$(as_cell 1 "SELECT count(claims.commit_update(1, lease_uuid)) > 30 FROM claims.list_leases(1, max_results => 10000)")" t

# Check, and end.
expect 'who is limited' "$(as_watch "SELECT cell_id, begins_per_second, reason FROM claims.cell_limits")" '1|20|it hammers'
as_admin "SELECT claims.set_cell_limits(1, 'it was repaired')" >/dev/null
expect 'no limit any more' "$(hammer 500)" 0
expect 'check' "$(at shared 'SELECT count(*) FROM claims.check()')" 0
expect 'both acts have a reason' "$(at shared "SELECT string_agg(reason, ', ' ORDER BY id) FROM claims.admin_log WHERE action = 'set_cell_limits'")" 'it hammers, it was repaired'
