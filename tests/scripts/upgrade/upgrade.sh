#!/usr/bin/env bash
# The upgrade from the last release, with data; then sessions whose library is older, types in the place of seeds, a missing library.
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
awk '/^-- part 99-/ { print "SELECT claims.seed_types('"'bucket', '{95,97,98}', '{SEED_C,SEED_A,SEED_B}'"');" } 1' "$script" >"$seeded"
load_old $old
sql $old "INSERT INTO claims.bucket_types (id, name, profile) VALUES (97, 'MINE', 'exact'), (96, 'SEED_B', 'exact'), (95, 'MY_SHOWN', 'casefold');
  INSERT INTO claims.type_names (kind, name, id, first) VALUES ('bucket', 'MY_FIRST', 95, true), ('bucket', 'MY_SHOWN', 95, false), ('bucket', 'GONE', 98, true), ('bucket', 'SEED_A', 94, true);
  INSERT INTO claims.type_renames VALUES ('bucket', 95, 'MY_SHOWN')"
described() { sql $old "SELECT extversion FROM pg_extension WHERE extname = 'claims'; SELECT string_agg(id || name || (SELECT coalesce(string_agg('/' || n.name || CASE WHEN n.first THEN '*' ELSE '' END, '' ORDER BY n.name), '') FROM claims.type_names n WHERE n.kind = 'bucket' AND n.id = t.id), ' ' ORDER BY id) FROM claims.bucket_types t WHERE id BETWEEN 90 AND 99" | tr '\n' ' '; }
before=$(described)
expect 'a type with the name of a seed' "$(message $old "ALTER EXTENSION claims UPDATE TO '$NEW-seeds$$'")" \
  'ERROR:  extension claims cannot be updated: it brings bucket types whose names are taken DETAIL:  It brings 98 "SEED_B". There is 96 "SEED_B". HINT:  Give the types that were added other names, as the chapter "Upgrading" of docs/operations.md says. Nothing has been changed. '
expect 'nothing is changed' "$(described)" "$before"
# as docs/operations.md has it
sql $old "BEGIN; UPDATE claims.bucket_types SET name = 'SEED_B_OURS' WHERE name = 'SEED_B'; UPDATE claims.type_names SET name = 'SEED_B_OURS' WHERE kind = 'bucket' AND name = 'SEED_B';
          UPDATE claims.claimed_attributes SET bucket_type = 'SEED_B_OURS' WHERE bucket_type = 'SEED_B'; COMMIT"
expect 'types with the ids of seeds are kept' "$(sqlstate $old "ALTER EXTENSION claims UPDATE TO '$NEW-seeds$$'") $(described)" \
  "00000 $NEW-seeds$$ 95MY_SHOWN/MY_FIRST/MY_SHOWN/SEED_C* 96SEED_B_OURS 97SEED_A/MINE/SEED_A* 98SEED_B/SEED_B* "
expect 'with their profiles' "$(sql $old "SELECT profile FROM claims.bucket_types WHERE id = 95")" casefold

# --- types that were added with the ids of this version's seeds -----------------------------------------------------

# Claims and a claimed column of such types from before: upgraded, and restored from a dump of the old release.
slugs='[{"bucket": {"type": "SLUGS", "value": "late"}, "subject": {"type": "PROJECT", "id": 2}, "source": {"type": "JIRA", "id": 2}}]'
types_of() { sql "$1" "SELECT kind || id || ' ' || name || ' ' || aliases::text FROM claims.list_types() WHERE (kind, id) IN (('bucket', 14), ('source', 15))" | tr '\n' ' '; }
works() {
  local how=$1 database=$2
  expect "$how: the types" "$(types_of "$database")" 'bucket14 SERVICE_DESK_PROJECT_KEY_ADDRESS_SLUG {SLUGS} source15 RAILS_TABLE_JIRA_CONNECT_INSTALLATIONS {JIRA} '
  # A declaration that was written by hand has no triggers yet.
  expect "$how: the declaration, again" "$(sqlstate "$database" "SELECT claims.claim_attribute('public.desks', 'slug', 'SLUGS', 'PROJECT', 'id', 'JIRA')")" 00000
  expect "$how: check()" "$(sql "$database" "SELECT coalesce(string_agg(problem || ': ' || detail, '; '), 'nothing') FROM claims.check()")" nothing
  expect "$how: a claim from before, by either name" "$(sql "$database" "SELECT count(*) FROM claims.get_record('SLUGS', 'early'), claims.get_record('SERVICE_DESK_PROJECT_KEY_ADDRESS_SLUG', 'early') b")" 1
  expect "$how: a batch of old names" "$(sql "$database" "SELECT claims.commit_update(1, claims.begin_update(1, '$slugs'))")" t
  expect "$how: a save" "$(sql "$database" "BEGIN; INSERT INTO public.desks VALUES (3, 'saved'); SELECT claims.begin_update(1, create_records) IS NOT NULL FROM claims.pending_batch(); ROLLBACK")" t
  expect "$how: digests agree" "$(sql "$database" "INSERT INTO public.desks SELECT 2, 'late' FROM claims.skip_capture('a test'); SELECT (SELECT digest FROM claims.digest_records(1, 'JIRA')) = (SELECT digest FROM claims.digest_expected('JIRA')) AND (SELECT records FROM claims.digest_expected('RAILS_TABLE_JIRA_CONNECT_INSTALLATIONS')) = 2")" t
  expect "$how: the first name is that of every database" "$(sql "$database" "SELECT string_agg(name || ' ' || first || ' ' || seeded, ', ' ORDER BY kind, name) FROM claims.type_names WHERE (kind, id) IN (('bucket', 14), ('source', 15))")" \
    'SERVICE_DESK_PROJECT_KEY_ADDRESS_SLUG true true, SLUGS false false, JIRA false false, RAILS_TABLE_JIRA_CONNECT_INSTALLATIONS true true'
}
make_database $old
sql $old "CREATE EXTENSION claims VERSION '$OLD'; INSERT INTO claims.cells (cell_id, role) VALUES (1, 'script_claims_one');
  INSERT INTO claims.bucket_types (id, name) VALUES (14, 'SLUGS'); INSERT INTO claims.source_types (id, name) VALUES (15, 'JIRA');
  CREATE TABLE public.desks (id bigint PRIMARY KEY, slug text UNIQUE); INSERT INTO public.desks VALUES (1, 'early');
  INSERT INTO claims.claimed_attributes VALUES ('public.desks', 'slug', 'SLUGS', 'PROJECT', 'id', 'JIRA', 'id');
  INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status) VALUES (14, 'early', 3, '1', 15, '1', 1, 1)"
pg_dump --dbname=$old --file="$CLAIMS_TMP/added.sql"
sql $old 'ALTER EXTENSION claims UPDATE'
works upgraded $old
make_database $restored
psql -Xqb -v ON_ERROR_STOP=1 -d $restored -f "$CLAIMS_TMP/added.sql" >/dev/null
sql $restored 'SELECT claims.refresh_grants()' >/dev/null
works restored $restored
pg_dump --dbname=$restored --file="$CLAIMS_TMP/again.sql"
make_database $restored
psql -Xqb -v ON_ERROR_STOP=1 -d $restored -f "$CLAIMS_TMP/again.sql" >/dev/null
expect 'restored once more' "$(types_of $restored)" 'bucket14 SERVICE_DESK_PROJECT_KEY_ADDRESS_SLUG {SLUGS} source15 RAILS_TABLE_JIRA_CONNECT_INSTALLATIONS {JIRA} '

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
