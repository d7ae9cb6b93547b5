#!/usr/bin/env bash
# The shared breaker and a session that tries to open it: short timeouts, cancels and large requests do not count as failures, and one session alone
# cannot stop the others.
# test: long
. "$(dirname "$0")/../cells.bash"

start_cells -c shared_preload_libraries=claims
for n in 1 2; do
  at "cell$n" "ALTER DATABASE postgres SET claims.service_timeout = '20s'; ALTER DATABASE postgres SET claims.breaker_pause = '5s';
    SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'), claims.automatic($n, 'service')" >/dev/null
done
stopped=
trap 'kill -CONT $stopped 2>/dev/null || true; for session in "${!SESSION_PID[@]}"; do close "$session"; done; cleanup' EXIT
STATE="SELECT breaker, failures, extract(epoch FROM next_try - since)::numeric(4, 1) FROM claims.service_state"
# As a session sees it that has not called the service.
state() { at cell1 "$STATE"; }
save_name() { tell "$1" "INSERT INTO routes (name) VALUES ('$2')"; }
# slow SECONDS: what begins at the service takes that long; quick: no more.
slow() {
  at shared "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep($1); RETURN NULL; END';
    CREATE TRIGGER slow BEFORE INSERT ON claims.claim_leases FOR EACH STATEMENT EXECUTE FUNCTION slow()"
}
quick() { at shared 'DROP FUNCTION slow CASCADE' 2>/dev/null; }
until_next_try() { at cell1 "SELECT pg_sleep(greatest(0.05, extract(epoch FROM next_try - clock_timestamp()) + 0.05)) FROM claims.service_state" >/dev/null; }
for session in hasty other third; do open "$session" cell1; done

say 'a session that gives the service a millisecond'
slow 0.1
tell hasty 'SET claims.service_timeout = 1' >/dev/null
hurried() { for n in $(seq 1 "$1"); do save_name "$2" "hasty$n"; echo; done | sort | uniq -c | tr -s ' '; }
expect 'it fails each time' "$(hurried 12 hasty)" ' 12 ERROR: 57014'
expect 'which says nothing about the service' "$(state)" 'closed|0|'
expect 'others go on saving' "$(save_name other other1)$(save_name third third1)" ''
tell third 'SET claims.service_timeout = 1' >/dev/null
expect 'nor do several of them' "$(hurried 6 hasty)$(hurried 6 third)" ' 6 ERROR: 57014 6 ERROR: 57014'
expect 'say more' "$(state) $(save_name other other2)" 'closed|0| '
tell third 'RESET claims.service_timeout' >/dev/null
expect 'nobody but a superuser says how long is enough' "$(tell hasty 'SET claims.breaker_timeout = 1')" 'ERROR:  42501'
expect 'a quarter of a second as it comes' "$(tell hasty 'SHOW claims.breaker_timeout')" 250ms

say 'a large batch may take longer'
quick; slow 1
tell hasty 'SET claims.service_timeout = 300' >/dev/null
expect 'it fails' "$(for n in 1 2 3 4 5 6; do tell hasty "INSERT INTO routes (name) SELECT 'many' || n FROM generate_series(1, 1000) n"; echo; done | sort -u)" 'ERROR:  57014'
expect 'and proves nothing' "$(state)" 'closed|0|'

say 'a session that is the only one to fail'
expect 'the service was silent for as long as is enough' "$(for n in 1 2 3 4 5; do save_name hasty "alone$n"; echo; done | sort -u)" 'ERROR:  57014'
expect 'that session calls no more' "$(tell hasty "$STATE") $(save_name hasty alone6)" 'open|5|5.0 ERROR:  08001'
expect 'others do' "$(state)" 'closed|5|'
expect 'which is said where one looks' "$(at cell1 "SELECT count(*) FROM pg_attribute WHERE attrelid = 'claims.service_state'::regclass AND attname = 'breaker'
  AND col_description(attrelid, attnum) LIKE '%the breaker is open for that session and closed for all others.%'")" 1
expect 'and one that succeeds' "$(save_name other other3)" ''
expect 'closes it' "$(state) $(tell hasty "$STATE")" 'closed|0| closed|0|'
expect 'again' "$(for n in 1 2 3 4 5; do save_name hasty "alone$n"; echo; done | sort -u) $(tell hasty "$STATE")" 'ERROR:  57014 open|5|5.0'
tell other 'SET claims.service_timeout = 300' >/dev/null
expect 'one that fails, too, opens it for all' "$(save_name other alone7) $(state) $(save_name third alone8)" 'ERROR:  57014 open|6|5.0 ERROR:  08001'

say 'who tries'
expect 'tries with a millisecond prove nothing' "$(tell hasty 'SET claims.service_timeout = 1'; until_next_try; for n in 1 2 3; do save_name hasty "hasty$n"; echo; done | sort | uniq -c | tr -s ' ' | tr -d '\n')" ' 2 ERROR: 08001 1 ERROR: 57014'
expect 'the pause does not grow, and another one tries at once' "$(state) $(save_name third third2)" 'open|6|0.0 '
expect 'it is closed' "$(state)" 'closed|0|'
quick

say 'what is cancelled here'
stopped=$(head -1 "${CLUSTER_DIR[shared]}/data/postmaster.pid")
kill -STOP "$stopped"
tell hasty "SET claims.service_timeout = '20s'; SET claims.keep_service_connection = off; BEGIN; COMMIT; SET statement_timeout = 100" >/dev/null
connecting() { tell hasty "BEGIN; INSERT INTO routes (name) VALUES ('cancelled'); SET CONSTRAINTS ALL IMMEDIATE; COMMIT"; }
expect 'while it connects' "$(for n in 1 2 3 4 5 6; do connecting; echo; done | sort -u) $(state)" 'ERROR:  57014 closed|0|'
kill -CONT "$stopped"
tell hasty 'RESET statement_timeout' >/dev/null

say 'a service that has no place left'
at shared 'ALTER ROLE cell1 CONNECTION LIMIT 1'
for session in hasty other third; do close "$session"; done
for _ in $(seq 1 300); do [ "$(at shared "SELECT count(*) FROM pg_stat_activity WHERE usename = 'cell1'")" = 0 ] && break; sleep 0.05; done
# A session of the cell's role that is no session of the cell: nobody can ask it for its place.
open outsider shared cell1
tell outsider 'SELECT 1' >/dev/null
expect 'is not down' "$(for n in 1 2 3 4 5 6; do state_as_app 1 "INSERT INTO routes (name) VALUES ('full$n')"; done | sort | uniq -c | tr -s ' ') $(state)" ' 6 53300 closed|0|'
close outsider
at shared 'ALTER ROLE cell1 CONNECTION LIMIT -1'
open holder cell1
expect 'it is called again' "$(save_name holder held2)" ''
for n in 1 1 2; do reconcile $n >/dev/null; done
agree 'at the end'
