#!/usr/bin/env bash
# Autovacuum runs index expressions with the cluster's first superuser as outside role, which gives no rights in claims.
. "$(dirname "$0")/../common.bash"

start_cluster vacuumed --fast -c autovacuum_naptime=1 -c autovacuum_analyze_threshold=1 -c autovacuum_analyze_scale_factor=0
fresh_database script_vacuumed
# An administrator of claims who is no superuser, with a server of his own, and a cell.
sql "CREATE ROLE script_claims_admin LOGIN IN ROLE postgres; GRANT USAGE ON FOREIGN DATA WRAPPER claims_service TO script_claims_admin, script_claims_one;
     CREATE SCHEMA app; GRANT ALL ON SCHEMA app TO script_claims_admin, script_claims_one"
have 2 theirs

# attack ROLE STATEMENT: what the statement comes to in an index expression of that role's, under autovacuum.
attack() {
  PGUSER=$1 sql "
    CREATE TABLE app.$1 (v int); CREATE TABLE app.answers_$1 (answer text);
    CREATE FUNCTION app.later_$1(v int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT v';
    CREATE INDEX ON app.$1 (app.later_$1(v));
    CREATE FUNCTION app.attack_$1() RETURNS void LANGUAGE plpgsql AS \$f\$
    DECLARE answer text := 'it worked';
    BEGIN
      -- Not where the row is written. Of a process of autovacuum only superusers are told what it is.
      IF (SELECT backend_type FROM pg_stat_activity WHERE pid = pg_backend_pid()) = 'client backend' THEN RETURN; END IF;
      BEGIN $2; EXCEPTION WHEN OTHERS THEN answer := SQLSTATE || ' ' || SQLERRM; END;
      INSERT INTO app.answers_$1 VALUES (answer);
    END \$f\$;
    CREATE OR REPLACE FUNCTION app.later_$1(v int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS \$f\$ BEGIN PERFORM app.attack_$1(); RETURN v; END \$f\$;
    INSERT INTO app.$1 SELECT generate_series(1, 100)"
  local _
  for _ in $(seq 1 600); do
    [ "$(sql "SELECT count(*) > 0 FROM app.answers_$1")" = t ] && break
    sleep 0.2
  done
  sql "SELECT DISTINCT answer FROM app.answers_$1"
}
refused='42501 permission denied within a security-restricted operation'

PGUSER=script_claims_admin sql "CREATE SERVER his_own FOREIGN DATA WRAPPER claims_service OPTIONS (host '/tmp'); CREATE USER MAPPING FOR PUBLIC SERVER his_own OPTIONS (user 'postgres')"
expect 'an option for superusers' "$(attack script_claims_admin "ALTER USER MAPPING FOR PUBLIC SERVER his_own OPTIONS (ADD password_required 'false')")" "$refused"
expect 'it is not set' "$(sql "SELECT umoptions FROM pg_user_mappings WHERE srvname = 'his_own'")" '{user=postgres}'
expect "another cell's name" "$(attack script_claims_one "PERFORM claims.commit_update(2, claims.begin_update(2, '[]', '[$(bucket theirs)]'))")" "$refused"
expect 'it is there' "$(sql "SELECT cell_id, status FROM claims.get_record('ROUTES', 'theirs')")" '2|ACTIVE'
