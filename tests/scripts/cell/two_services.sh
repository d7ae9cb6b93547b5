#!/usr/bin/env bash
# Transactions with names of two services, killed at every step of the protocol: all names or none, after recovery at each service by itself. One
# service is dead: names of the other one are saved, and settled.
# test: long
. "$(dirname "$0")/../cells.bash"

start_cells
# The second service: names of type USERNAMES are its own.
start_cluster second --fast -c synchronous_commit=on -c log_min_messages=panic
at second "CREATE EXTENSION claims"
for n in 1 2; do
  at second "CREATE ROLE cell$n LOGIN PASSWORD '$CELLS_PASSWORD'; SELECT claims.register_cell($n, 'cell$n', 'cell $n')" >/dev/null
  at "cell$n" "
    CREATE SERVER second FOREIGN DATA WRAPPER claims_service OPTIONS (host '127.0.0.1', port '${CLUSTER_PORT[second]}', dbname 'postgres', connect_timeout '20');
    CREATE USER MAPPING FOR $([ $n = 1 ] && echo postgres || echo claims_owner) SERVER second OPTIONS (user 'cell$n', password '$CELLS_PASSWORD');
    $([ $n = 1 ] || echo 'GRANT USAGE ON FOREIGN SERVER second TO claims_owner;')
    CREATE TABLE users (id bigint GENERATED ALWAYS AS IDENTITY, name text UNIQUE); GRANT ALL ON users TO app;
    SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'),
           claims.claim_attribute('users', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id'),
           claims.automatic($n, 'service'), claims.automatic($n, 'second', '{USERNAMES}')" >/dev/null
done

# at_services QUERY: the answers of both services.
at_services() { echo "$(at shared "$1") $(at second "$1")"; }
leases() { at_services 'SELECT count(*) FROM claims.claim_leases'; }
names_of() { printf "SELECT coalesce(string_agg(bucket_value || CASE status WHEN 1 THEN '' ELSE '*' END, ' ' ORDER BY bucket_value COLLATE \"C\"), '-') FROM claims.claims WHERE creator_id = %s;" "$1"; }
rows_of() { printf "SELECT coalesce(string_agg(name, ' ' ORDER BY name COLLATE \"C\"), '-') FROM %s;" "$1"; }
# recover CELL SERVER [STALE_AFTER]: one pass. recover_all: two at each service. A crash may have erased the id of a transaction: then only age decides.
# recover_all has one session in each cell for its four passes: a session costs more than a pass.
recover() { as_app "$1" "SELECT * FROM claims.reconcile($1, '$2', '${3:-10 minutes}')" 2>>"$CLAIMS_TMP/warnings"; }
recover_all() {
  local n pass passes
  for n in 1 2; do
    passes=()
    for pass in 1 2; do passes+=(-c "SELECT claims.reconcile($n, 'service', '0')" -c "SELECT claims.reconcile($n, 'second', '0')"); done
    ( use_cluster "cell$n"; PGUSER=app psql -XqAt -v ON_ERROR_STOP=1 "${passes[@]}" ) >/dev/null 2>>"$CLAIMS_TMP/warnings"
  done
}
both() { printf "INSERT INTO routes (name) VALUES ('%s'); INSERT INTO users (name) VALUES ('%s');" "$1" "$1"; }
# whole WHAT: each service has what the rows of its types call for, and nothing is left over. One session asks everything of a cluster.
whole() {
  local n question first second own
  question="$(names_of 1) $(names_of 2)
    SELECT count(*) FROM claims.claim_leases;
    SELECT count(*) FROM claims.check() WHERE problem <> 'table is not as the extension has created it'"
  mapfile -t first < <(at shared "$question")
  mapfile -t second < <(at second "$question")
  for n in 1 2; do
    mapfile -t own < <(at "cell$n" "$(rows_of routes) $(rows_of users)
      SELECT coalesce(string_agg(uuid::text, ' ' ORDER BY uuid), '-') FROM claims.cells_outstanding_leases;
      SELECT count(*) FROM claims.seen_orphans")
    expect "$1: cell $n, first service" "${first[n - 1]}" "${own[0]}"
    expect "$1: cell $n, second service" "${second[n - 1]}" "${own[1]}"
    expect "$1: cell $n tracks nothing any more" "${own[2]}" -
    expect "$1: cell $n has no orphan" "${own[3]}" 0
  done
  expect "$1: no lease is outstanding" "${first[2]} ${second[2]}" '0 0'
  expect "$1: check" "${first[3]} ${second[3]}" '0 0'
}
# hold_up_at SERVICE EVENT: as hold_up, at either service.
hold_up_at() {
  open holder "$1" postgres
  tell holder 'SELECT pg_advisory_lock(77)' >/dev/null
  at "$1" "CREATE FUNCTION held_up() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN
      WHILE EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND granted) LOOP PERFORM pg_sleep(0.02); END LOOP; RETURN NULL; END \$\$;
    CREATE TRIGGER held_up BEFORE $2 ON claims.claim_leases FOR EACH STATEMENT EXECUTE FUNCTION held_up()"
}
# let_go_at SERVICE: if it was killed, so was the session that has held it up.
let_go_at() {
  [ "$1" = "$victim" ] || [ "$victim" = all ] || tell holder 'SELECT pg_advisory_unlock(77)' >/dev/null
  close holder
  at "$1" 'DROP FUNCTION held_up CASCADE' 2>/dev/null
}
victim=
idle_at() { wait_for 0 at "$1" "SELECT count(*) FROM pg_stat_activity WHERE usename LIKE 'cell_' AND state = 'active'" >/dev/null; }

say 'without a crash'
as_app 1 "BEGIN; $(both plain) COMMIT" >/dev/null
as_app 2 "BEGIN; $(both other) COMMIT" >/dev/null
recover_all
whole 'two cells have saved'
expect 'each service follows its own epoch' "$(at cell1 'SELECT string_agg(service, $$ $$ ORDER BY service), count(DISTINCT epoch) FROM claims.own_epochs')" 'second service|2'
expect 'what one refuses is saved nowhere' "$(state_as_app 1 "BEGIN; INSERT INTO routes (name) VALUES ('mine'); INSERT INTO users (name) VALUES ('other'); COMMIT")" 23505
expect 'nor what the other one refuses' "$(state_as_app 1 "BEGIN; INSERT INTO routes (name) VALUES ('other'); INSERT INTO users (name) VALUES ('mine'); COMMIT")" 23505
expect 'and both names are free at once' "$(wait_for '0 0' leases) $(state_as_app 1 "BEGIN; $(both mine) COMMIT")" '0 0 00000'
recover_all
whole 'refused and repeated'

# Both begins are on their way before either is answered: each service holds one up, and both have it.
say 'both begins are sent before either is awaited'
hold_up_at shared INSERT
open app cell1
send app "BEGIN; $(both together) COMMIT"
expect 'the second service has begun while the first one still works' "$(wait_for 1 at second 'SELECT count(*) FROM claims.claim_leases')" 1
expect 'which it does' "$(at shared "SELECT count(*) FROM claims.claim_leases")" 0
let_go_at shared
expect 'then it is saved' "$(wait_for 1 at cell1 "SELECT count(*) FROM routes WHERE name = 'together'")" 1
close app
recover_all
whole 'sent together'

# A cancel while the second service works: the lease of the first one, which has answered, ends with the transaction, without recovery. The cell has
# read that answer soon after the service has sent it, on a busy machine perhaps not within the pause.
say 'canceled while one service has answered'
leaves_nothing() {
  hold_up_at second INSERT
  open app cell1
  send app "BEGIN; $(both "canceled-$1") COMMIT"
  wait_for 1 at shared 'SELECT count(*) FROM claims.claim_leases' >/dev/null
  idle_at shared
  sleep "$1"
  at cell1 "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'app' AND state = 'active'" >/dev/null
  expect "$1: the save fails" "$(answer app | tr ' ' '\n' | grep -c 57014)" 1
  let_go_at second
  close app
  local left _
  for _ in $(seq 50); do
    left=$(at shared 'SELECT count(*) FROM claims.claim_leases')
    [ "$left" != 0 ] || break
    sleep 0.1
  done
  # A lease at the second service may have begun after the cancel.
  idle_at second
  recover_all
  [ "$left" = 0 ]
}
expect 'nothing is left at the service that has answered' "$( (leaves_nothing 0.5 || leaves_nothing 2 || leaves_nothing 8) >&2 && echo t)" t
whole 'canceled between two answers'

# A connection dies before its begin, during it, or after it, while the other service has one, too. A repeated begin has the same lease.
say 'a connection dies between two begins'
process_at() { at "$1" "SELECT pid FROM pg_stat_activity WHERE usename = 'cell1' AND backend_type = 'client backend'"; }
saved_both() { at cell1 "SELECT (SELECT count(*) FROM routes WHERE name = '$1') || ' ' || (SELECT count(*) FROM users WHERE name = '$1')"; }
end_at() { at "$1" "SELECT pg_terminate_backend($2, 60000)" >/dev/null; }
open app cell1
for slow in shared second; do
  other=$([ $slow = shared ] && echo second || echo shared)
  tell app "BEGIN; $(both "connects-$slow") COMMIT" >/dev/null
  wait_for '0 0' leases >/dev/null
  end_at $slow "$(process_at $slow)"
  expect "$slow: it was dead before" "$(tell app "BEGIN; $(both "dead-$slow") COMMIT")" ''
  wait_for '0 0' leases >/dev/null

  hold_up_at $slow INSERT
  send app "BEGIN; $(both "dies-$slow") COMMIT"
  expect "$slow: the other service has begun" "$(wait_for 1 at $other 'SELECT count(*) FROM claims.claim_leases')" 1
  wait_for t at $slow "SELECT count(*) > 0 FROM pg_stat_activity WHERE usename = 'cell1' AND state = 'active'" >/dev/null
  process=$(process_at $slow)
  end_at $slow "$process"
  expect "$slow: the begin is repeated over another connection" "$(wait_for t at $slow "SELECT count(*) > 0 FROM pg_stat_activity WHERE usename = 'cell1' AND state = 'active' AND pid <> $process")" t
  let_go_at $slow
  expect "$slow: and the save succeeds" "$(wait_for '1 1' saved_both "dies-$slow")" '1 1'
  wait_for '0 0' leases >/dev/null

  hold_up_at $slow INSERT
  send app "BEGIN; $(both "answers-$slow") COMMIT"
  wait_for 1 at $other 'SELECT count(*) FROM claims.claim_leases' >/dev/null
  idle_at $other
  end_at $other "$(process_at $other)"
  let_go_at $slow
  expect "$slow: the other one has answered, and is dead then" "$(wait_for '1 1' saved_both "answers-$slow")" '1 1'
  idle_at shared; idle_at second
  recover_all
  whole "a connection died, $slow is slow"
done
close app
# A first connection is not made twice: the save fails, and the lease at the other service is rolled back at once.
for slow in shared second; do
  other=$([ $slow = shared ] && echo second || echo shared)
  hold_up_at $slow INSERT
  open app cell1
  send app "BEGIN; $(both "first-$slow") COMMIT"
  wait_for 1 at $other 'SELECT count(*) FROM claims.claim_leases' >/dev/null
  wait_for t at $slow "SELECT count(*) > 0 FROM pg_stat_activity WHERE usename = 'cell1' AND state = 'active'" >/dev/null
  end_at $slow "$(process_at $slow)"
  expect "$slow: a first connection dies" "$(answer app)" 'ERROR:  08001'
  expect "$slow: the lease at the other service ends at once" "$(wait_for 0 at $other 'SELECT count(*) FROM claims.claim_leases')" 0
  let_go_at $slow
  close app
  recover_all
  whole "a first connection died, $slow is slow"
done

# --- killed at every step ------------------------------------------------------------------------------------------------------------
# A crash of the cell, of either service, or of all of them.
for victim in cell1 shared second all; do
  kill_it() { if [ $victim = all ]; then crash cell1; crash shared; crash second; resume shared; resume second; resume cell1; else crash $victim; resume $victim; fi; }
  say "killed: $victim"

  # Step 1: the begins are on their way. One service has not answered yet.
  for slow in shared second; do
    hold_up_at $slow INSERT
    open app cell1
    send app "BEGIN; $(both "begin-$victim-$slow") COMMIT"
    other=$([ $slow = shared ] && echo second || echo shared)
    expect "$victim, $slow is slow: the other one has begun" "$(wait_for 1 at $other 'SELECT count(*) FROM claims.claim_leases')" 1
    kill_it
    let_go_at $slow
    # Where the slow service was killed, or the cell, the save has failed.
    close app
    idle_at shared; idle_at second
    recover_all
    whole "$victim killed while $slow begins"
  done

  # Step 2: both have begun, and both leases are tracked in a transaction that is open.
  open app cell1
  tell app "BEGIN; $(both "open-$victim") SET CONSTRAINTS ALL IMMEDIATE" >/dev/null
  expect "$victim: leases at both" "$(leases)" '1 1'
  expect "$victim: recovery waits for the transaction" "$(recover 1 service) $(recover 1 second)" '1|0|0|1|0 1|0|0|1|0'
  kill_it
  tell app 'COMMIT' >/dev/null
  close app
  idle_at shared; idle_at second
  recover_all
  whole "$victim killed before the COMMIT"

  # Step 3: the transaction is prepared; it ends after the crash, in either way.
  for end in COMMIT ROLLBACK; do
    as_app 1 "BEGIN; $(both "prepared-$victim-$end") PREPARE TRANSACTION 'two'" >/dev/null
    kill_it
    expect "$victim: a prepared transaction is waited for" "$(recover 1 service) $(recover 1 second)" '1|0|0|1|0 1|0|0|1|0'
    as_app 1 "$end PREPARED 'two'" >/dev/null
    counts=$([ $end = COMMIT ] && echo '1|1|0|0|0' || echo '1|0|1|0|0')
    expect "$victim: each service decides by it: $end" "$(recover 1 service) $(recover 1 second)" "$counts $counts"
    whole "$victim killed, then $end PREPARED"
  done

  # Step 4: committed here; one service has committed its lease, and the other one has not.
  for slow in shared second; do
    hold_up_at $slow DELETE
    open app cell1
    tell app "BEGIN; $(both "settle-$victim-$slow") COMMIT" >/dev/null
    other=$([ $slow = shared ] && echo second || echo shared)
    expect "$victim, $slow is slow: the other one has committed" "$(wait_for 0 at $other 'SELECT count(*) FROM claims.claim_leases')" 0
    kill_it
    let_go_at $slow
    close app
    idle_at shared; idle_at second
    recover_all
    whole "$victim killed while $slow settles"
    expect "$victim: what was committed here is there" "$(at cell1 "SELECT count(*) FROM routes WHERE name = 'settle-$victim-$slow'")" 1
  done
done

# --- one service is dead ---------------------------------------------------------------------------------------------------------------
for n in 1 2; do at "cell$n" "ALTER SERVER second OPTIONS (SET connect_timeout '1')"; done
for dead in second shared; do
  alive=$([ $dead = shared ] && echo second || echo shared)
  own=$([ $alive = shared ] && echo routes || echo users) its=$([ $alive = shared ] && echo users || echo routes)
  server=$([ $alive = shared ] && echo service || echo second) dead_server=$([ $dead = shared ] && echo service || echo second)
  say "dead: $dead"
  # One lease is tracked for the dead one.
  as_app 1 "BEGIN; $(both "before-$dead") PREPARE TRANSACTION 'two'" >/dev/null
  halt $dead immediate
  expect "$dead is dead: names of the living one are saved" "$(state_as_app 1 "INSERT INTO $own (name) VALUES ('alone-$dead')")" 00000
  expect "$dead is dead: its own are not" "$(state_as_app 1 "INSERT INTO $its (name) VALUES ('nowhere-$dead')")" 08001
  expect "$dead is dead: nor are names of both" "$(state_as_app 1 "BEGIN; $(both "neither-$dead") COMMIT")" 08001
  expect "$dead is dead: and the living one was not asked" "$(at $alive "SELECT count(*) FROM claims.claims WHERE bucket_value = 'neither-$dead'")" 0
  as_app 1 "COMMIT PREPARED 'two'" >/dev/null
  recover 1 $server >/dev/null
  expect "$dead is dead: recovery at the living one does its part" "$(at $alive "SELECT status FROM claims.claims WHERE bucket_value = 'before-$dead'")" 1
  expect "$dead is dead: and takes nothing for an orphan" "$(recover 1 $server | cut -d'|' -f5) $(at cell1 'SELECT count(*) FROM claims.cells_outstanding_leases')" '0 1'
  expect "$dead is dead: a pass there fails" "$(state_as_app 1 "SELECT claims.reconcile(1, '$dead_server')")" 08001
  resume $dead
  # The breaker of a session that has not called before is closed.
  recover_all
  whole "$dead is back"
done
