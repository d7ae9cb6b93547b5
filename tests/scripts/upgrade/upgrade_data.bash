# A database of release OLD with rows in every table: the new library refuses calls until ALTER EXTENSION has run. Then all rows are there,
# and the objects of a fresh installation, while clients work all the time. Sourced after upgrade.bash, never run.

old=script_upgrade_data new=script_upgrade_fresh restored=script_upgrade_restored
as_cell() { PGUSER=script_claims_one "$@"; }
server_started=$(sql postgres 'SELECT pg_postmaster_start_time()')
fresh_roles

load_old $old
tables=$(sql $old "SELECT string_agg(c.oid::regclass::text, ' ') FROM pg_class c WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind = 'r' AND c.relname <> 'automatic_queue'")
for table in $tables; do
  [ "$(sql $old "SELECT EXISTS (SELECT FROM $table)")" = t ] || { echo "FAILED: no rows in $table" >&2; exit 1; }
done
echo "ok: rows in every table: $tables"
remember_columns $old
rows_of $old "$CLAIMS_TMP/rows.before"

# --- before ALTER EXTENSION: the new library, the old tables --------------------------------------------------------

message() { psql -XqAt -d "$1" -c "$2" 2>&1 >/dev/null | head -3 | tr '\n' ' '; }
refusal="ERROR:  extension \"claims\" is version $OLD, but its library is version $NEW HINT:  Run ALTER EXTENSION claims UPDATE in this database. "
expect 'a call is refused' "$(message $old "SELECT claims.begin_update(1, '[$(claim early)]')")" "$refusal"
expect 'its SQLSTATE' "$(sqlstate $old "SELECT claims.begin_update(1, '[$(claim early)]')")" 55000
expect 'a read is refused' "$(message $old "SELECT * FROM claims.get_record('ROUTES', 'active')")" "$refusal"
expect 'a change of a claimed column is refused' "$(message $old "INSERT INTO public.plain VALUES (7, 'seven')")" "$refusal"
expect 'a change of a captured table is refused' "$(message $old "INSERT INTO public.captured VALUES (7, 'seven')")" "$refusal"
expect 'the view works' "$(sql $old "SELECT bucket_value FROM claims.records WHERE lease_uuid = '$(lease 21)'")" tracked
expect 'no cell can be registered' "$(sqlstate $old "BEGIN; SELECT claims.register_cell(4, 'script_claims_one'); ROLLBACK")" 55000
# Calls every function, with NULLs and with values: no crash, no internal error.
calls=$(sql $old "SELECT format('SELECT claims.%I(%s);', p.proname, (SELECT string_agg(format('%s::%s', v, format_type(a.type, NULL)), ', ' ORDER BY a.n)
                     FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY a (type, n),
                          coalesce(CASE WHEN given THEN CASE format_type(a.type, NULL) WHEN 'bigint' THEN '1' WHEN 'integer' THEN '1' WHEN 'jsonb' THEN '''[]''' WHEN 'uuid' THEN '''$(lease 1)'''
                               WHEN 'text' THEN '''x''' WHEN 'interval' THEN '''1 min''' WHEN 'boolean' THEN 'true' WHEN 'text[]' THEN '''{x}''' WHEN 'uuid[]' THEN '''{$(lease 1)}''' END END, 'NULL') v))
                    FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang, (VALUES (false), (true)) g (given)
                   WHERE l.lanname = 'c' AND p.pronamespace = 'claims'::regnamespace AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)")
states=$(psql -Xq -d $old -v VERBOSITY=sqlstate 2>&1 >/dev/null <<<"$calls" | sed -nE 's/.*(ERROR|FATAL|WARNING|NOTICE): +([0-9A-Z]{5}).*/\2/p' | sort | uniq -c | sort -rn | awk '{ print $2 }' | tr '\n' ' ')
case "$states" in 55000\ *) ;; *) echo "FAILED: most calls end with something else: $states" >&2; exit 1 ;; esac
expect 'no internal error' "$(grep -oE 'XX...|57P..|08...' <<<"$states" || true)" ''
expect 'no crash' "$(sql postgres 'SELECT pg_postmaster_start_time()')" "$server_started"
expect 'nothing was changed' "$(rows_of $old "$CLAIMS_TMP/rows.now"; cmp "$CLAIMS_TMP/rows.before" "$CLAIMS_TMP/rows.now")" ''
# Commands are not stopped. What the event triggers would have done, the upgrade does.
sql $old "CREATE TABLE public.unrelated (id int); ALTER TABLE public.unrelated ADD COLUMN name text; DROP TABLE public.unrelated;
          CREATE TABLE public.middle PARTITION OF public.parts FOR VALUES FROM (10) TO (20);
          CREATE TABLE public.captured_middle PARTITION OF public.captured FOR VALUES FROM (10) TO (20);
          CREATE TABLE public.doomed (id bigint PRIMARY KEY, name text UNIQUE)"
sql $old "INSERT INTO claims.claimed_attributes VALUES ('public.doomed', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id')"
sql $old "DROP TABLE public.doomed"
expect 'word of a dropped table stays' "$(sql $old "SELECT count(*) FROM claims.claimed_attributes WHERE attribute = 'name'")" 1

# --- ALTER EXTENSION while clients work ---------------------------------------------------------------------------

# A client makes one call after another, each in a session of its own, until it is stopped, and records how each ended.
client() {
  local n=0
  while [ ! -e "$CLAIMS_TMP/stop" ]; do
    n=$((n + 1))
    as_cell sqlstate $old "SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim "client-$1-$n")]'))"
  done >"$CLAIMS_TMP/client.$1"
}
for n in 1 2 3; do client $n & clients+=($!); done
# One that keeps its session, and one that has a transaction open in which it has read.
mkfifo "$CLAIMS_TMP/in"
(PGUSER=script_claims_one exec psql -XqAt -d $old -v VERBOSITY=sqlstate <"$CLAIMS_TMP/in" >"$CLAIMS_TMP/kept" 2>&1) & kept=$!
exec {session}>"$CLAIMS_TMP/in"
echo "SELECT claims.lease_outcome(1, '$(lease 2)');" >&"$session"
PGAPPNAME=reader sql $old "BEGIN; SELECT count(*) FROM claims.records; SELECT pg_sleep(1.5); COMMIT" >/dev/null & reader=$!
wait_for 1 sql $old "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'reader' AND wait_event = 'PgSleep'" >/dev/null
for file in client.1 client.2 client.3 kept; do wait_until grep -q 55000 "$CLAIMS_TMP/$file"; done
sql $old "ALTER EXTENSION claims UPDATE"
expect "it is version $NEW" "$(sql $old "SELECT extversion FROM pg_extension WHERE extname = 'claims'")" "$NEW"
wait $reader
for n in 1 2 3; do wait_until grep -q 00000 "$CLAIMS_TMP/client.$n"; done
touch "$CLAIMS_TMP/stop"
wait "${clients[@]}"
echo "SELECT claims.lease_outcome(1, '$(lease 2)');" >&"$session"
exec {session}>&-
wait $kept
expect 'a session that was refused before goes on' "$(tr '\n' ' ' <"$CLAIMS_TMP/kept" | sed 's/psql:[^ ]* //g; s/:[0-9]*: //g')" 'ERROR:  55000 committed '
for n in 1 2 3; do
  expect "client $n: first refused, then served" "$(uniq <"$CLAIMS_TMP/client.$n" | tr '\n' ' ')" '55000 00000 '
done
expect 'what clients were told is so' "$(sql $old "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'client-%' AND status = 1")" "$(cat "$CLAIMS_TMP"/client.* | grep -c 00000)"

# --- afterwards -----------------------------------------------------------------------------------------------------

sql $old "SELECT claims.commit_update(1, claims.begin_update(1, destroy_records => (SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', bucket_value))) FROM claims.claims WHERE bucket_value LIKE 'client-%')))" >/dev/null
sql $old "DELETE FROM claims.lease_outcomes WHERE settled_at > (SELECT max(created_at) + interval '1 second' FROM claims.claims) AND lease_uuid::text NOT LIKE '00000000-%'"
rows_of $old "$CLAIMS_TMP/rows.after"
# Types and audiences may have got more rows, and refresh_grants() is logged; everything else is as it was.
expect 'the rows are the same' "$(diff <(LC_ALL=C sort "$CLAIMS_TMP/rows.before") <(LC_ALL=C sort "$CLAIMS_TMP/rows.after") | grep '^[<>]' | grep -vE '^> claims\.(audiences|(bucket|subject|source)_types|type_names)	|^> claims\.admin_log	.*	refresh_grants	' || true)" ''
expect 'check() finds nothing' "$(sql $old "SELECT coalesce(string_agg(problem || ': ' || detail, '; '), 'nothing') FROM claims.check()")" nothing

# Equal declarations in a fresh database give an equal catalog.
make_database $new
sql $new "CREATE EXTENSION claims"
sql $new "SELECT claims.register_cell(1, 'script_claims_one', 'one'), claims.register_cell(2, 'script_claims_two', 'two'), claims.grant_read('script_claims_router'), claims.grant_worker('script_claims_two')" >/dev/null
sql $new "CREATE TABLE public.plain (id bigint PRIMARY KEY, username text UNIQUE); CREATE TABLE public.captured (id bigint PRIMARY KEY, entity text); ALTER TABLE public.plain OWNER TO script_claims_one"
sql $new "SELECT claims.claim_attribute('public.plain', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS'), claims.capture_requests('public.captured', 'captured', 'entity')" >/dev/null
describe $new "$CLAIMS_TMP/wanted"
describe $old "$CLAIMS_TMP/got"
expect_same 'what a fresh installation has, grants of roles and event triggers too' "$CLAIMS_TMP/got" "$CLAIMS_TMP/wanted"
expect 'PUBLIC may call nothing but what indexes call' "$(sql $old "SELECT string_agg(p.proname, ' ') FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a WHERE p.pronamespace = 'claims'::regnamespace AND a.grantee = 0")" canonical_form
may() { sql $old "SELECT count(*) FROM claims.audiences a WHERE a.audience = ANY ('$2') AND NOT EXISTS (SELECT FROM pg_proc p WHERE p.proname = a.function_name AND p.pronamespace = 'claims'::regnamespace AND has_function_privilege('$1', p.oid, 'EXECUTE'))"; }
expect 'roles may call what is for them' "$(may script_claims_one '{reader,cell}') $(may script_claims_two '{reader,cell,worker}') $(may script_claims_router '{reader}')" '0 0 0'

# The upgrade caught up with the calls that were refused meanwhile.
expect 'word of a dropped table has gone' "$(sql $old "SELECT count(*) FROM claims.claimed_attributes WHERE attribute = 'name'")" 0
expect 'partitions that came in between refuse TRUNCATE' "$(sqlstate $old 'TRUNCATE public.middle') $(sqlstate $old 'TRUNCATE public.captured_middle')" '55000 55000'
sql $old "CREATE TABLE public.high PARTITION OF public.parts FOR VALUES FROM (20) TO (30)"
expect 'so do later ones' "$(sqlstate $old 'TRUNCATE public.high')" 55000

# Names of before are kept back from now on, also those that a lease of before gives up.
sql $old "SELECT claims.set_quarantine('ROUTES', '30 days', 'a test')" >/dev/null
# Leases go on where they were.
expect 'what is leased' "$(as_cell sqlstate $old "SELECT claims.begin_update(1, '[$(claim coming)]')")" 55P03
expect 'the outstanding lease commits' "$(as_cell sql $old "SELECT claims.commit_update(1, '$(lease 1)')")" t
expect 'the tracked lease is to be committed' "$(as_cell sql $old "SELECT verdict FROM claims.judge_leases('[{\"lease_uuid\": \"$(lease 21)\", \"created_at\": \"2026-01-01\"}]')")" commit
expect 'it is, and is forgotten' "$(as_cell sql $old "SELECT claims.commit_update(1, '$(lease 21)'), claims.forget_leases('{$(lease 21)}')")" 't|1'
expect 'a name is given up' "$(as_cell sql $old "SELECT claims.commit_update(1, claims.begin_update(1, '[]', '[$(bucket 'a b')]'))")" t
expect 'names that are kept back' "$(sql $old "SELECT string_agg(concat_ws(' ', bucket_value, cell_id, subject_id, available_at - given_up_at), ', ' ORDER BY bucket_value) FROM claims.quarantined_names")" 'a b 1 1 30 days, going 1 1 30 days'
expect 'a stranger' "$(PGUSER=script_claims_two sqlstate $old "SELECT claims.begin_update(2, '[$(claim going)]')")" 23505
expect 'who gave it up has it back' "$(as_cell sql $old "SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim going)]')); SELECT cell_id, status FROM claims.get_record('ROUTES', 'going')" | tr '\n' ' ')" 't 1|ACTIVE '
sql $old "SELECT claims.set_quarantine('ROUTES', '0', 'over')" >/dev/null
expect 'a lease that recovery gave up' "$(as_cell sqlstate $old "SELECT claims.track_lease('$(lease 22)')")" 55000
expect 'a fenced lease' "$(PGUSER=script_claims_two sqlstate $old "SELECT claims.begin_update(2, '[$(claim x)]', '[]', '$(lease 4)')")" 55000
expect 'a repeat of what was committed' "$(as_cell sql $old "SELECT claims.commit_update(1, '$(lease 2)')")" f
expect 'the service of automatic mode is named' "$(sql $old 'SELECT server_name, reason IS NULL FROM claims.named_services')" 'service|t'
sql $old "SELECT claims.automatic(NULL, NULL)" >/dev/null
expect 'columns are captured' "$(sql $old "BEGIN; INSERT INTO public.plain VALUES (8, 'eight'); SELECT jsonb_array_length(create_records) FROM claims.pending_batch(); ROLLBACK")" 1
expect 'declarations have names, and are enforced' "$(sql $old "SELECT string_agg(concat_ws(' ', table_name, attribute, declaration, constraint_name, enforcement, share), ', ' ORDER BY table_name::text) FROM claims.claimed_columns")" \
  'parts username username parts_username_claim enforce 100, plain username username plain_username_claim enforce 100'
expect 'a router reads' "$(PGUSER=script_claims_router sql $old "SELECT cell_name FROM claims.get_record('ROUTES', 'active')")" one
expect 'a worker works' "$(PGUSER=script_claims_two sql $old "SELECT entity FROM claims.take_requests('captured', gen_random_uuid())")" c
expect 'check() still finds nothing' "$(sql $old 'SELECT count(*) FROM claims.check()')" 0

# A dump carries the grants that the upgrade made: they are not part of the extension.
describe $old "$CLAIMS_TMP/wanted"
make_database $restored
pg_dump --dbname=$old | psql -XqAt -v ON_ERROR_STOP=1 -d $restored >/dev/null
describe $restored "$CLAIMS_TMP/got"
expect_same 'its dump restores it' "$CLAIMS_TMP/got" "$CLAIMS_TMP/wanted"
