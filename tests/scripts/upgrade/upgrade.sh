#!/usr/bin/env bash
# The upgrade from the last release, with data; then sessions whose library is older, types in the place of seeds, a missing library.
. "$(dirname "$0")/../common.bash"
. "$(dirname "$0")/upgrade.bash"

trap 'rm -f "$EXTENSIONS"/claims--*"$$".sql; cleanup' EXIT
. "$UPGRADE/upgrade_data.bash"
script=$EXTENSIONS/claims--$OLD--$NEW.sql

# --- a later version, and sessions that have this library loaded ----------------------------------------------------

mkfifo "$CLAIMS_TMP/in2"
psql -XqAt -d $old -v VERBOSITY=verbose <"$CLAIMS_TMP/in2" >"$CLAIMS_TMP/kept2" 2>&1 & kept=$!
exec {session}>"$CLAIMS_TMP/in2"
look="SELECT cell_name FROM claims.get_record('ROUTES', 'active');"
echo "$look" >&"$session"
later=$EXTENSIONS/claims--$NEW--99.0-m$$.sql
echo "ALTER FUNCTION claims.require_admin() COST 2;" >"$later"
until grep -q one "$CLAIMS_TMP/kept2"; do sleep 0.05; done
sql $old "ALTER EXTENSION claims UPDATE TO '99.0-m$$'"
echo "$look BEGIN; $look ROLLBACK; CREATE TABLE public.any (id int); DROP TABLE public.any;" >&"$session"
exec {session}>&-
wait $kept
expect 'a session with an older library is refused' "$(grep -cE "ERROR:  55000: extension \"claims\" is version 99.0-m$$, but its library is version $NEW" "$CLAIMS_TMP/kept2")" 2
expect 'and told to reconnect' "$(grep -c 'HINT:  Reconnect' "$CLAIMS_TMP/kept2")" 2
expect 'other commands go on' "$(grep -c ERROR "$CLAIMS_TMP/kept2")" 2
expect 'no crash at all' "$(sql postgres 'SELECT pg_postmaster_start_time()')" "$server_started"

# --- types that users added where a later version has seeds ---------------------------------------------------------

seeded=$EXTENSIONS/claims--$OLD--$NEW-seeds$$.sql
awk '/^-- part 99-/ { print "SELECT claims.seed_types('"'bucket', '{97,98}', '{SEED_A,SEED_B}'"');" } 1' "$script" >"$seeded"
load_old $old
sql $old "INSERT INTO claims.bucket_types VALUES (97, 'MINE'), (96, 'SEED_B')"
describe_bare() { sql $old "SELECT extversion FROM pg_extension WHERE extname = 'claims'; SELECT string_agg(id || name, ' ' ORDER BY id) FROM claims.bucket_types WHERE id > 90" | tr '\n' ' '; }
before=$(describe_bare)
expect 'a type in the place of a seed' "$(message $old "ALTER EXTENSION claims UPDATE TO '$NEW-seeds$$'")" \
  'ERROR:  extension claims cannot be updated: it brings bucket types whose ids or names are taken DETAIL:  It brings 98 "SEED_B", 97 "SEED_A". There is 96 "SEED_B", 97 "MINE". HINT:  Give the types that were added other names, or ids from 100 on, as the chapter "Upgrading" of docs/operations.md says. Nothing has been changed. '
expect 'nothing is changed' "$(describe_bare)" "$before"
# as docs/operations.md has it
sql $old "BEGIN; LOCK TABLE claims.claim_leases, claims.claims IN SHARE ROW EXCLUSIVE MODE;
          UPDATE claims.bucket_types SET id = 197 WHERE id = 97; UPDATE claims.claims SET bucket_type = 197 WHERE bucket_type = 97;
          UPDATE claims.bucket_types SET name = 'SEED_B_OURS' WHERE name = 'SEED_B'; UPDATE claims.claimed_attributes SET bucket_type = 'SEED_B_OURS' WHERE bucket_type = 'SEED_B'; COMMIT"
sql $old "INSERT INTO claims.bucket_types VALUES (98, 'SEED_B')"
expect 'a type that is the seed already is kept' "$(sqlstate $old "ALTER EXTENSION claims UPDATE TO '$NEW-seeds$$'") $(describe_bare)" "00000 $NEW-seeds$$ 96SEED_B_OURS 97SEED_A 98SEED_B 100HOSTS 101LOOKS 197MINE "

# --- a library that is missing --------------------------------------------------------------------------------------

make_database $restored
sql $restored "CREATE EXTENSION claims"
without_library() { PGOPTIONS='-c dynamic_library_path=/nowhere' sqlstate "$@"; }
expect 'the library is missing' "$(without_library $restored "SELECT claims.lease_outcome(1, '$(lease 1)')")" 58P01
expect 'a database that captures nothing does not miss it' "$(without_library $restored 'CREATE TABLE public.t (id int) PARTITION BY RANGE (id); CREATE TABLE public.t1 PARTITION OF public.t FOR VALUES FROM (1) TO (2); ALTER TABLE public.t ADD COLUMN x int; DROP TABLE public.t')" 00000
sql $restored "CREATE TABLE public.t (id bigint PRIMARY KEY, e text); SELECT claims.capture_requests('public.t', 'q', 'e')" >/dev/null
event_triggers() { sql $restored "SELECT count(*) FROM pg_event_trigger v JOIN pg_roles r ON r.oid = v.evtowner WHERE r.rolsuper AND v.evtname LIKE 'claims%'"; }
expect 'event triggers come with the first captured table' "$(event_triggers)" 2
sql $restored "SELECT claims.uncapture_requests('public.t', 'q')" >/dev/null
expect 'and go with the last' "$(event_triggers)" 0
sql $restored "SELECT claims.capture_requests('public.t', 'q', 'e'); DROP TABLE public.t" >/dev/null
expect 'also when it is dropped' "$(event_triggers)" 0
expect 'the extension can be dropped then' "$(sqlstate $restored 'DROP EXTENSION claims')" 00000

for database in $old $new $restored; do sql postgres "DROP DATABASE $database"; done
