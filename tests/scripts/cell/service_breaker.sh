#!/usr/bin/env bash
# The breaker: a service that is down is not called for a while; its errors do not count as failures.
. "$(dirname "$0")/../cells.bash"

start_cells
for n in 1 2; do
  # The pause is long enough for the calls that it is to refuse, also on a busy machine.
  at "cell$n" "ALTER DATABASE postgres SET claims.service_timeout = '10s';
    ALTER DATABASE postgres SET claims.breaker_pause = '5s';
    SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'), claims.automatic($n, 'service')" >/dev/null
done
save_name() { tell app "INSERT INTO routes (name) VALUES ('$1')"; }
state() { tell app "SELECT service, breaker, failures, last_error IS NOT NULL, extract(epoch FROM next_try - since)::numeric(4, 1) FROM claims.service_state"; }
now_ms() { date +%s%3N; }

open app cell1
tell app '\set VERBOSITY verbose' >/dev/null
expect 'the comment of the column says which sessions share a state' "$(at cell1 "SELECT count(*) FROM pg_attribute WHERE attrelid = 'claims.service_state'::regclass AND attname = 'breaker'
  AND col_description(attrelid, attnum) LIKE '%If the library is not preloaded, each session has a state of its own.%'")" 1
expect 'a session that has called nothing knows nothing' "$(tell app 'SELECT count(*) FROM claims.service_state')" 0
save_name one >/dev/null
expect 'all is well' "$(state)" 'service|closed|0|f|'
as_app 2 "INSERT INTO routes (name) VALUES ('taken')"
for _ in 1 2 3 4 5 6 7; do save_name taken >/dev/null; done
expect 'conflicts are no failures' "$(state)" 'service|closed|0|f|'
# An answer 08006 comes from a service behind which another server is down, as where its tables are distributed.
for error in ZZ001 08006 57P01; do
  at shared "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION USING ERRCODE = ''$error''; END';
    CREATE TRIGGER fails BEFORE INSERT ON claims.claim_leases FOR EACH STATEMENT EXECUTE FUNCTION fails()"
  expect "nor are errors of the service: $error" "$(for _ in 1 2 3 4 5 6; do save_name fails; done | grep -c 'ERROR:  08001') $(state)" '0 service|closed|0|f|'
  at shared 'DROP FUNCTION fails CASCADE' 2>/dev/null
done

halt shared
for n in 1 2 3 4; do save_name "down$n" >/dev/null; done
expect 'four failures' "$(state)" 'service|closed|4|t|'
save_name down5 >/dev/null
expect 'the fifth opens it' "$(state)" 'service|open|5|t|5.0'
started=$(now_ms); refused=$(save_name down6); ended=$(now_ms)
expect 'then calls fail at once' "$(grep -o 'claims service "service" is not called at the moment' <<<"$refused")" 'claims service "service" is not called at the moment'
expect 'and say when the next one tries' "$(grep -oE 'HINT: +It is tried again at 20[0-9-]+ [0-9:.]+' <<<"$refused" | wc -l)" 1
expect 'with the SQLSTATE of a dead service' "$(tell app '\set VERBOSITY sqlstate'; save_name down7)" 'ERROR:  08001'
expect 'not counted again' "$(state)" 'service|open|5|t|5.0'
# begin_pending, finish and recovery are calls like any other
expect 'recovery fails at once, too' "$(tell app "SELECT * FROM claims.reconcile(1, 'service')")" 'ERROR:  08001'
sleep 5.1
save_name down8 >/dev/null
expect 'one tries, and the pause doubles' "$(state)" 'service|open|6|t|10.0'
expect 'another session has not heard of it' "$(as_app 1 'SELECT count(*) FROM claims.service_state')" 0
resume shared
expect 'until then nothing is tried' "$(save_name up1)" 'ERROR:  08001'
sleep 10.1
expect 'then one tries, and it is closed' "$(save_name up2)$(state)" 'service|closed|0|f|'

# A service that is silent.
at shared "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1); RETURN NULL; END';
  CREATE TRIGGER slow BEFORE INSERT ON claims.claim_leases FOR EACH STATEMENT EXECUTE FUNCTION slow()"
tell app 'SET claims.service_timeout = 300' >/dev/null
expect 'silence is a failure' "$(for n in 1 2 3 4 5; do save_name "slow$n"; echo; done | sort -u) $(state)" 'ERROR:  57014 service|open|5|t|5.0'
sleep 5.1
expect 'a trial that is canceled' "$(tell app "SET claims.service_timeout = '10s'; SET statement_timeout = 200; BEGIN; INSERT INTO routes (name) VALUES ('canceled'); SET CONSTRAINTS ALL IMMEDIATE; COMMIT")" 'ERROR:  57014'
expect 'is followed by another' "$(tell app 'RESET statement_timeout')$(save_name slow6)$(state)" 'service|closed|0|f|'
at shared 'DROP FUNCTION slow CASCADE' 2>/dev/null
halt shared
at cell1 'ALTER ROLE app SET claims.breaker_failures = 0'
open never cell1
for n in $(seq 1 12); do tell never "INSERT INTO routes (name) VALUES ('never$n')" >/dev/null; done
expect '0 is never' "$(tell never 'SELECT breaker, failures FROM claims.service_state')" 'closed|12'
expect 'nobody but a superuser changes that' "$(tell never 'SET claims.breaker_failures = 1')" 'ERROR:  42501'
close never
resume shared
for n in 1 1 2; do reconcile $n >/dev/null; done
agree 'closed again'
