#!/usr/bin/env bash
# Ends of transactions, of connections and of owners: with a full send buffer, with parallel queries, and when the server, the mapping or the owner of
# the connection is dropped.
. "$(dirname "$0")/../cells.bash"

start_cells -c max_worker_processes=12 -c max_parallel_workers=8
postmaster=$(head -1 "${CLUSTER_DIR[shared]}/data/postmaster.pid")
stopped=
stop() { stopped=$1; kill -STOP "$1"; }
continue_it() { kill -CONT "$stopped" 2>/dev/null || true; }
trap 'continue_it; for session in "${!SESSION_PID[@]}"; do close "$session"; done; cleanup' EXIT
for n in 1 2; do
  at "cell$n" "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'), claims.automatic($n, 'service')" >/dev/null
done
as_cell_sessions() { at shared "SELECT count(*) FROM pg_stat_activity WHERE usename = 'cell$1'"; }
until_sessions() { wait_for "$2" as_cell_sessions "$1" >/dev/null; }
outstanding() { at shared 'SELECT count(*) FROM claims.claim_leases'; }
now_ms() { date +%s%3N; }
took() { local ms=$(($(now_ms) - $1)); [ $ms -lt "$2" ] && echo yes || echo "no, $ms ms"; }
save_name() { tell "${2:-app}" "INSERT INTO routes (name) VALUES ('$1')"; }
all_agree() { reconcile 1 >/dev/null; reconcile 2 >/dev/null; reconcile 1 >/dev/null; agree "$1"; }

say 'no room left on the way to the service'
# leases PREFIX: a transaction with one lease of its own, and 98 times 20 leases in savepoints. To roll them back takes 98 messages of a size of which
# a unix socket holds some ninety.
leases() {
  tell app "BEGIN; SET CONSTRAINTS ALL IMMEDIATE; INSERT INTO routes (name) VALUES ('$1');
    $(for n in $(seq 98); do printf "SAVEPOINT s%s; DO 'BEGIN FOR i IN 1..20 LOOP INSERT INTO routes (name) VALUES (''%s %s-'' || i); END LOOP; END'; " "$n" "$1" "$n"; done)" >/dev/null
  wait_for 1961 outstanding >/dev/null
}
roll_back=$(for n in $(seq 98 -1 1); do printf 'ROLLBACK TO s%s; ' "$n"; done)
service_pid() { at shared "SELECT pid FROM pg_stat_activity WHERE usename = 'cell1'"; }
at cell1 "ALTER SERVER service OPTIONS (SET host '${CLUSTER_DIR[shared]}')"
open app cell1
leases full
expect 'leases are there' "$(outstanding)" 1961
stop "$(service_pid)"
started=$(now_ms)
expect 'ROLLBACK TO and COMMIT neither fail nor wait' "$(tell app "$roll_back COMMIT; SELECT count(*) FROM routes") $(took "$started" 15000)" '1 yes'
expect 'and nothing has arrived' "$(outstanding)" 1961
continue_it
expect 'the next call takes the rest along' "$(save_name next)$(settled)" soon
leases lost
stop "$(service_pid)"
started=$(now_ms)
expect 'an abort does not wait either' "$(tell app "$roll_back ROLLBACK; SELECT count(*) FROM routes") $(took "$started" 15000)" '2 yes'
started=$(now_ms)
close app
expect 'nor the end of the session' "$(took "$started" 15000)" yes
continue_it
at cell1 "ALTER SERVER service OPTIONS (SET host '127.0.0.1')"
until_sessions 1 0
all_agree 'what was lost on the way recovery has found'

say 'a server that accepts, and says nothing'
at cell1 "ALTER SERVER service OPTIONS (SET connect_timeout '1')"
stop "$postmaster"
open app cell1
started=$(now_ms)
expect 'connect_timeout' "$(save_name silent) $([ "$(took "$started" 900)" = yes ] && echo 'too soon') $(took "$started" 15000)" 'ERROR:  08001  yes'
continue_it
at cell1 "ALTER SERVER service OPTIONS (SET connect_timeout '5')"
expect 'the next call connects' "$(save_name audible)$(settled)" soon

say 'parallel queries in between'
at cell1 "CREATE TABLE many AS SELECT n FROM generate_series(1, 20000) n; ALTER TABLE many SET (parallel_workers = 2); ANALYZE many; GRANT SELECT ON many TO app"
tell app "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
  SET max_parallel_workers_per_gather = 2; SET parallel_leader_participation = off" >/dev/null
launched="$(tell app "BEGIN; INSERT INTO routes (name) VALUES ('before'); EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT count(*) FROM many LEFT JOIN routes ON id = n" | grep -oE 'Workers Launched: [0-9]+' | sort -u)"
expect 'two processes help' "$launched" 'Workers Launched: 2'
ended=$(at shared 'SELECT count(*) FROM claims.lease_outcomes')
expect 'a COMMIT' "$(tell app "INSERT INTO routes (name) VALUES ('after'); SELECT count(name) > 2 FROM many LEFT JOIN routes ON id = n; COMMIT")$(settled)" tsoon
expect 'one lease of both changes' $(($(at shared 'SELECT count(*) FROM claims.lease_outcomes') - ended)) 1
expect 'both are claimed' "$(claimed 1 | tr ' ' '\n' | grep -cE '^(before|after)$')" 2
expect 'an error in one that helps' "$(tell app "BEGIN; INSERT INTO routes (name) VALUES ('helpless'); SET CONSTRAINTS ALL IMMEDIATE; SELECT count(1 / (n - n)) FROM many; COMMIT")" 'ERROR:  22012'
expect 'rolls the lease back' "$(settled) $(claimed 1 | tr ' ' '\n' | grep -c helpless)" 'soon 0'
expect 'and the connection is as it was' "$(save_name helped)$(settled) $(as_cell_sessions 1)" 'soon 1'
all_agree 'parallel'

say 'another owner of the extension'
open second cell2
expect 'a save' "$(save_name owned second)$(settled) $(as_cell_sessions 2)" 'soon 1'
at cell2 "CREATE ROLE other_owner NOLOGIN; GRANT USAGE ON FOREIGN SERVER service TO other_owner;
  CREATE USER MAPPING FOR other_owner SERVER service OPTIONS (user 'cell2', password 'not this one')"
expect 'a mapping of a role that is not concerned' "$(save_name owned2 second)$(settled)" soon
at cell2 "REASSIGN OWNED BY claims_owner TO other_owner"
expect 'its own mapping counts' "$(save_name owned3 second)" 'ERROR:  08001'
expect 'and the connection of the other one is closed' "$(until_sessions 2 0; as_cell_sessions 2)" 0
at cell2 "ALTER USER MAPPING FOR other_owner SERVER service OPTIONS (SET password '$CELLS_PASSWORD')"
expect 'with its password' "$(save_name owned4 second)$(settled) $(as_cell_sessions 2)" 'soon 1'
at cell2 "REASSIGN OWNED BY other_owner TO claims_owner"
first=$(at shared "SELECT pid FROM pg_stat_activity WHERE usename = 'cell2'")
expect 'and back' "$(save_name owned5 second)$(settled) $(as_cell_sessions 2)" 'soon 1'
expect 'over another connection' "$([ "$(at shared "SELECT pid FROM pg_stat_activity WHERE usename = 'cell2'")" != "$first" ] && echo yes)" yes

say 'types that the service has renamed'
as_cell 2 "SELECT claims.commit_update(2, claims.begin_update(2, '[$(claim rowless)]'))" >/dev/null
at shared "SELECT claims.rename_type('bucket', 1, 'PATHS')" >/dev/null
expect 'a claim that no row calls for is adopted all the same' "$(save_name rowless second)$(settled)" soon
expect 'and what was never claimed is given up' "$(at cell2 "ALTER TABLE routes DISABLE TRIGGER claims_capture; INSERT INTO routes (name) VALUES ('unclaimed'); ALTER TABLE routes ENABLE TRIGGER claims_capture")$(tell second "DELETE FROM routes WHERE name = 'unclaimed'")$(settled)" soon
at shared "SELECT claims.rename_type('bucket', 1, 'ROUTES')" >/dev/null
all_agree 'renamed'

say 'DROP EXTENSION'
expect 'there is a connection' "$(save_name last)$(settled) $(as_cell_sessions 1)" 'soon 1'
at cell1 'DROP EXTENSION claims CASCADE' 2>/dev/null
expect 'the session goes on' "$(save_name past) $(tell app "SELECT count(*) FROM routes WHERE name = 'past'")" ' 1'
until_sessions 1 0
expect 'without it' "$(as_cell_sessions 1)" 0
