#!/usr/bin/env bash
# Sessions that have loaded the last release's library continue to work during ALTER EXTENSION. That
# library is not in this repository, and building it takes minutes; so this runs only if CLAIMS_OLD_LIBRARY names a folder with
# its claims.so (from target/package of the release's sources); upgrade.sh uses rows that it has made.
. "$(dirname "$0")/upgrade.bash"

if [ ! -e "${CLAIMS_OLD_LIBRARY:-}/claims.so" ]; then
  echo "skipped: CLAIMS_OLD_LIBRARY does not name a folder with the claims.so of $OLD"
  exit 0
fi
db=script_upgrade_library
make_database $db
fresh_roles
library=$(mktemp -d /tmp/claims-library.XXXXXX)
trap 'rm -rf "$library"; cleanup' EXIT
cp "$CLAIMS_OLD_LIBRARY/claims.so" "$library/"; chmod -R go+rX "$library"
server_started=$(sql postgres 'SELECT pg_postmaster_start_time()')
# Sessions of these roles load the old one, until the settings are reset: as those that began before make install.
for role in script_claims_one script_claims_two postgres; do sql postgres "ALTER ROLE $role IN DATABASE $db SET dynamic_library_path = '$library'"; done
PGOPTIONS='-c dynamic_library_path=$libdir' sql $db "CREATE EXTENSION claims VERSION '$OLD'"
sql $db "SELECT claims.register_cell(1, 'script_claims_one', 'one'), claims.register_cell(2, 'script_claims_two', 'two'); CREATE TABLE public.plain (id bigint PRIMARY KEY, username text UNIQUE); ALTER TABLE public.plain OWNER TO script_claims_one; GRANT ALL ON public.plain TO script_claims_two" >/dev/null
PGUSER=script_claims_one sql $db "SELECT claims.claim_attribute('public.plain', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS')" >/dev/null

# Each keeps its session: begin, commit, read, track, captured rows, over and over.
session() {
  { n=0
    while [ ! -e "$CLAIMS_TMP/stop" ]; do
      n=$((n + 1))
      echo "SELECT 'begun ' || claims.commit_update($2, claims.begin_update($2, '[$(claim "$1-$n")]'));
            SELECT 'read ' || count(*) FROM claims.get_record('ROUTES', '$1-$n'); SELECT 'listed ' || count(*) FROM claims.list_leases($2);
            BEGIN; SELECT claims.track_lease(gen_random_uuid()); ROLLBACK;
            BEGIN; INSERT INTO public.plain VALUES (${2}000000 + $n, '$1-$n'); SELECT claims.pending_batch(); ROLLBACK;"
      sleep 0.02
    done
  } | PGUSER=$3 psql -XqAt -d $db -v VERBOSITY=sqlstate >"$CLAIMS_TMP/$1" 2>&1 || echo "psql ended with $?" >>"$CLAIMS_TMP/$1"
}
session a 1 script_claims_one & sessions+=($!)
session b 2 script_claims_two & sessions+=($!)
sleep 1.5
sql postgres "ALTER ROLE postgres IN DATABASE $db RESET dynamic_library_path"
for role in script_claims_one script_claims_two; do sql postgres "ALTER ROLE $role IN DATABASE $db RESET dynamic_library_path"; done
expect 'a new session is refused' "$(PGUSER=script_claims_one sqlstate $db "SELECT claims.list_leases(1)")" 55000
sleep 0.5
sql $db "ALTER EXTENSION claims UPDATE"
sleep 1.5
touch "$CLAIMS_TMP/stop"
wait "${sessions[@]}"
expect 'no crash' "$(sql postgres 'SELECT pg_postmaster_start_time()')" "$server_started"
expect 'no session was lost' "$(grep -hc 'psql ended' "$CLAIMS_TMP/a" "$CLAIMS_TMP/b" | tr '\n' ' ')" '0 0 '
expect 'they did work' "$([ "$(grep -c 'begun true' "$CLAIMS_TMP/a")" -gt 10 ] && echo yes)" yes
echo "SQLSTATEs of sessions with the library of $OLD: $(grep -ohE '(ERROR|FATAL): +[0-9A-Z]{5}' "$CLAIMS_TMP/a" "$CLAIMS_TMP/b" | sort | uniq -c | tr -s ' ' | tr '\n' ';')"
expect 'no internal error' "$(grep -ohE 'XX[0-9]{3}' "$CLAIMS_TMP/a" "$CLAIMS_TMP/b" | sort -u)" ''
expect 'what they were told is so' "$(sql $db "SELECT count(*) FROM claims.claims WHERE status = 1")" "$(grep -h 'begun true' "$CLAIMS_TMP/a" "$CLAIMS_TMP/b" | wc -l)"
expect 'a new session is served' "$(PGUSER=script_claims_one sqlstate $db "SELECT claims.list_leases(1)")" 00000
expect 'check() finds nothing' "$(sql $db 'SELECT count(*) FROM claims.check()')" 0
sql postgres "DROP DATABASE $db"
