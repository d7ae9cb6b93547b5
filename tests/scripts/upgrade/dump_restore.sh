#!/usr/bin/env bash
# pg_dump and restore: same rows, same behaviour afterwards.
. "$(dirname "$0")/../common.bash"

fresh_database script_dump
source_db=$PGDATABASE target_db=script_restored
sql "SELECT claims.add_bucket_type(100, 'DOMAINS')" >/dev/null
sql "SELECT claims.add_subject_type(100, 'FLEET')" >/dev/null
sql "SELECT claims.add_source_type(100, 'RAILS_TABLE_DOMAINS')" >/dev/null
# types with ids that a later release may seed, one of them renamed, and a seeded one with another profile
sql "SELECT claims.add_bucket_type(20, 'KEYS', 'casefold'), claims.add_bucket_type(21, 'FIRST_21'), claims.add_subject_type(5, 'TEAM'), claims.add_source_type(16, 'TEAMS')" >/dev/null
sql "SELECT claims.rename_type('bucket', 21, 'SHOWN_21')" >/dev/null
sql "SELECT claims.set_profile('DOMAINS', 'domain', 'a test', dry_run => false), claims.set_profile('PAGES_DOMAINS', 'domain', 'a test', dry_run => false)" >/dev/null
sql "SELECT claims.rename_type('bucket', 5, 'MAIL')" >/dev/null
# a seeded type that keeps names back, one of them, and one of an added type whose rule has ended
sql "SELECT claims.set_quarantine('USERNAMES', '30 days', 'a test', 'cell'), claims.set_quarantine('KEYS', '1 hour', 'a test')" >/dev/null
for type in USERNAMES KEYS; do
  sql "SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim given-up 7 | sed "s/ROUTES\"/$type\"/")]'));
       SELECT claims.commit_update(1, claims.begin_update(1, '[]', '[$(bucket given-up | sed "s/ROUTES/$type/")]'))" >/dev/null
done
sql "SELECT claims.set_quarantine('KEYS', '0', 'over')" >/dev/null
kept() { sql "$1" 'SELECT bucket_type, bucket_value, cell_id, subject_id, given_up_at, available_at FROM claims.quarantined_names ORDER BY 1' | tr '\n' ' '; }
sql "SELECT claims.rename_type('subject', 2, 'NAMESPACE')" >/dev/null
sql "SELECT claims.rename_type('source', 100, 'DOMAINS_TABLE')" >/dev/null
sql "SELECT claims.register_cell(3, 'script_claims_two', 'three', 'https://three.example')" >/dev/null
sql "SELECT claims.grant_read('script_claims_router')" >/dev/null
sql "ALTER DATABASE $source_db SET claims.max_batch_size = 7"
have 1 active going 😀 'a b'
have 2 theirs
sql "SELECT claims.begin_update(1, '[$(claim coming), {\"bucket\": {\"type\": \"DOMAINS\", \"value\": \"a.example\"}, \"subject\": {\"type\": \"FLEET\", \"id\": 1}, \"source\": {\"type\": 100, \"id\": \"x\"}}]', '[$(bucket going)]', '$(lease 1)')" >/dev/null
sql "SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim committed)]', '[]', '$(lease 2)'))" >/dev/null
sql "SELECT claims.rollback_update(1, claims.begin_update(1, '[$(claim 'rolled back')]', '[]', '$(lease 3)'))" >/dev/null
sql "SELECT claims.rollback_update(2, '$(lease 4)')" >/dev/null
# the cell's half: a lease that is tracked here, and one that recovery has given up
judged() { sql "SELECT string_agg(verdict, ' ') FROM claims.judge_leases('[{\"lease_uuid\": \"$(lease 21)\", \"created_at\": \"2026-01-01\"}, {\"lease_uuid\": \"$(lease 22)\", \"created_at\": \"2026-01-01\"}]')"; }
sql "SELECT claims.track_lease('$(lease 21)')" >/dev/null
judged >/dev/null
# the longest value: 650 characters of four bytes
sql "SELECT claims.commit_update(1, claims.begin_update(1, jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 1, 'value', (SELECT string_agg(chr(65536 + ('x' || substr(md5(n::text), 1, 7))::bit(28)::int % 900000), '' ORDER BY n) FROM generate_series(1, 650) n)), 'subject', '{\"type\": 2, \"id\": 1}'::jsonb, 'source', '{\"type\": 3, \"id\": 1}'::jsonb))))" >/dev/null

# claimed tables and captured ones, plain and partitioned
sql "CREATE TABLE public.plain (id bigint PRIMARY KEY, username text UNIQUE);
     CREATE TABLE public.parts (id bigint PRIMARY KEY, username text) PARTITION BY RANGE (id);
     CREATE TABLE public.low PARTITION OF public.parts FOR VALUES FROM (0) TO (10);
     CREATE TABLE public.captured (id bigint PRIMARY KEY, entity text) PARTITION BY RANGE (id);
     CREATE TABLE public.captured_low PARTITION OF public.captured FOR VALUES FROM (0) TO (10);
     ALTER TABLE public.plain OWNER TO script_claims_one; ALTER TABLE public.parts OWNER TO script_claims_one"
sql "SELECT claims.claim_attribute('public.plain', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS')" >/dev/null
sql "SELECT claims.claim_attribute('public.parts', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS')" >/dev/null 2>&1
sql "SELECT claims.capture_requests('public.captured', 'dumped', 'entity')" >/dev/null
sql "INSERT INTO public.plain VALUES (1, 'a'); INSERT INTO public.parts VALUES (1, 'b'); INSERT INTO public.captured VALUES (1, 'c')"
# a column with two declarations, each with a constraint and an enforcement of its own, and what was observed
sql "CREATE TABLE public.poly (id bigint PRIMARY KEY, path text UNIQUE, kind text);
     SELECT claims.claim_attribute('public.poly', 'path', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', condition => \$\$kind = 'group'\$\$, declaration => 'groups'),
            claims.claim_attribute('public.poly', 'path', 'ROUTES', 'USER', 'id', 'RAILS_TABLE_ROUTES', condition => \$\$kind = 'user'\$\$, declaration => 'users', constraint_name => 'poly_users'),
            claims.set_enforcement('public.poly', 'path', 'enforce', 'test', 12.5, 'groups'), claims.set_enforcement('public.poly', 'path', 'observe', 'test', declaration => 'users');
     INSERT INTO claims.observed (table_name, attribute, outcome, bucket_type, bucket_value, holder_cell_id, count, first_at, last_at)
       VALUES ('public.poly', 'path', 'taken', 'ROUTES', 'seen', 2, 3, now(), now())" >/dev/null
declarations() { sql "SELECT string_agg(concat_ws(' ', declaration, subject_type, constraint_name, enforcement, share), ', ' ORDER BY declaration) FROM claims.claimed_columns WHERE attribute = 'path'"; }
# names that are kept apart by an index on their canonical forms, in tables of a cell's role and of one that was granted nothing
sql "CREATE ROLE script_claims_nobody LOGIN"
for owner in one nobody; do
  sql "CREATE TABLE public.handles_$owner (id bigint PRIMARY KEY, handle varchar(100)); INSERT INTO public.handles_$owner VALUES (1, 'Ada');
       ALTER TABLE public.handles_$owner OWNER TO script_claims_$owner;
       CREATE UNIQUE INDEX handles_${owner}_form ON public.handles_$owner (claims.canonical_form('username', handle))"
done
# where the service is, and who calls it
sql "CREATE SERVER script_service FOREIGN DATA WRAPPER claims_service OPTIONS (host '$PGHOST', port '$PGPORT', dbname '$source_db');
     CREATE USER MAPPING FOR postgres SERVER script_service OPTIONS (user 'postgres')"
triggers() { sql "$1" "SELECT string_agg(tgrelid::regclass || ' ' || tgname, ', ' ORDER BY tgrelid::regclass::text COLLATE \"C\", tgname) FROM pg_trigger WHERE tgname LIKE 'claims%'"; }

dump_of() { pg_dump --dbname="$1" --data-only --no-comments --inserts --rows-per-insert=1 | grep -E '^INSERT|^SELECT pg_catalog.setval' | LC_ALL=C sort; }

restore_and_compare() {
  local how=$1
  # the extension's own tables, row by row: nothing lost, nothing twice
  expect "$how: the rows are the same" "$(dump_of "$target_db" | sha256sum)" "$(dump_of "$source_db" | sha256sum)"
  export PGDATABASE=$target_db
  expect "$how: there is something to compare" "$(sql "SELECT count(*) >= 7 FROM claims.claims")" t
  expect "$how: check() finds nothing" "$(sql "SELECT count(*) FROM claims.check()")" 0
  expect "$how: types that were added" "$(sql "SELECT name FROM claims.bucket_types WHERE id = 100 UNION ALL SELECT name FROM claims.subject_types WHERE id = 100 UNION ALL SELECT name FROM claims.source_types WHERE id = 100" | tr '\n' ' ')" 'DOMAINS FLEET DOMAINS_TABLE '
  expect "$how: no type is there twice" "$(sql "SELECT count(*) FROM claims.bucket_types")" 22
  expect "$how: types that were renamed" "$(sql "SELECT name || ' ' || aliases::text FROM claims.list_types() WHERE aliases <> '{}'" | tr '\n' ' ')" 'MAIL {EMAILS} SHOWN_21 {FIRST_21} NAMESPACE {GROUP} RAILS_TABLE_GROUPS {RAILS_TABLE_NAMESPACES} DOMAINS_TABLE {RAILS_TABLE_DOMAINS} '
  expect "$how: types that were added with low ids" "$(sql "SELECT string_agg(kind || id || name, ' ') FROM claims.list_types() WHERE (kind = 'bucket' AND id BETWEEN 19 AND 99) OR (kind = 'subject' AND id = 5) OR (kind = 'source' AND id = 16)")" 'bucket20KEYS bucket21SHOWN_21 subject5TEAM source16TEAMS'
  expect "$how: profiles" "$(sql "SELECT string_agg(id || profile, ' ' ORDER BY id) FROM claims.bucket_types WHERE profile <> 'exact'")" '17domain 20casefold 100domain'
  expect "$how: what keeps names back" "$(sql "SELECT string_agg(concat_ws(' ', id, keep_for, reclaim), ', ' ORDER BY id) FROM claims.bucket_types WHERE keep_for <> '0'")" '4 30 days cell'
  expect "$how: names that are kept back" "$(kept "$target_db")" "$(kept "$source_db")"
  expect "$how: both of them" "$(kept "$target_db" | grep -o given-up | wc -l)" 2
  taken_back() { sqlstate "BEGIN; SELECT claims.begin_update($1, '[$(claim given-up "$2" | sed "s/ROUTES\"/$3\"/")]'); ROLLBACK"; }
  expect "$how: by the rules of their types" "$(taken_back 2 7 USERNAMES) $(taken_back 1 8 USERNAMES) $(taken_back 1 8 KEYS) $(taken_back 1 7 KEYS)" '23505 00000 23505 00000'
  expect "$how: an older name is accepted" "$(sql "SELECT count(*) FROM claims.get_record('EMAILS', 'nobody')")" 0
  expect "$how: cells" "$(sql "SELECT cell_id || ' ' || name FROM claims.cells ORDER BY cell_id" | tr '\n' ' ')" '1 one 2 two 3 three '
  # rights: what register_cell and grant_read granted is granted again
  expect "$how: a cell may do what it might" "$(PGUSER=script_claims_one sql "SELECT claims.lease_outcome(1, '$(lease 1)')")" outstanding
  expect "$how: and no more" "$(PGUSER=script_claims_one sqlstate "SELECT claims.lease_outcome(2, '$(lease 4)')")" 42501
  expect "$how: a cell has no right on a table" "$(PGUSER=script_claims_one sqlstate 'SELECT 1 FROM claims.claims')" 42501
  expect "$how: a router reads" "$(PGUSER=script_claims_router sql "SELECT cell_id FROM claims.get_record('ROUTES', 'active')")" 1
  expect "$how: a router reads the view" "$(PGUSER=script_claims_router sql "SELECT count(*) FROM claims.records WHERE bucket_value = 'active'")" 1
  expect "$how: a router does no more" "$(PGUSER=script_claims_router sqlstate "SELECT claims.rollback_update(1, '$(lease 9)')")" 42501
  expect "$how: one cell's role for two cells" "$(PGUSER=script_claims_two sql "SELECT count(*) FROM claims.list_records(3)")" 0
  # outcomes
  expect "$how: committed" "$(sql "SELECT claims.lease_outcome(1, '$(lease 2)')")" committed
  expect "$how: rolled back" "$(sql "SELECT claims.lease_outcome(1, '$(lease 3)')")" rolled_back
  expect "$how: fenced" "$(sqlstate "SELECT claims.begin_update(2, '[$(claim x)]', '[]', '$(lease 4)')")" 55000
  expect "$how: a repeat of what was committed" "$(sql "SELECT claims.begin_update(1, '[$(claim committed)]', '[]', '$(lease 2)')")" "$(lease 2)"
  expect "$how: another request under its uuid" "$(sqlstate "SELECT claims.begin_update(1, '[$(claim other)]', '[]', '$(lease 2)')")" 22023
  expect "$how: a repeat of what is outstanding" "$(sql "SELECT claims.begin_update(1, '[$(claim coming), {\"bucket\": {\"type\": 100, \"value\": \"a.example\"}, \"subject\": {\"type\": 100, \"id\": 1}, \"source\": {\"type\": 100, \"id\": \"x\"}}]', '[$(bucket going)]', '$(lease 1)')")" "$(lease 1)"
  expect "$how: a tracked lease and a fenced one" "$(judged)" 'commit rollback'
  expect "$how: what was given up cannot be tracked" "$(sqlstate "SELECT claims.track_lease('$(lease 22)')")" 55000
  expect "$how: uniqueness" "$(sqlstate "SELECT claims.begin_update(2, '[$(claim active)]')")" 23505
  expect "$how: what is leased" "$(sqlstate "SELECT claims.begin_update(2, '[$(claim coming)]')")" 55P03
  expect "$how: the outstanding lease commits" "$(sql "SELECT claims.commit_update(1, '$(lease 1)')")" t
  expect "$how: and does what it said" "$(sql "SELECT string_agg(bucket_value, ' ' ORDER BY bucket_value COLLATE \"C\") FROM claims.claims WHERE bucket_value IN ('coming', 'going', 'a.example') AND status = 1")" 'a.example coming'
  expect "$how: a new lease" "$(sql "SELECT claims.commit_update(2, claims.begin_update(2, '[$(claim new)]', '[$(bucket theirs)]'))")" t
  expect "$how: a new type" "$(sqlstate "SELECT claims.add_bucket_type(101, 'MORE')")" 00000
  expect "$how: a type that is taken" "$(sqlstate "SELECT claims.add_bucket_type(100, 'MORE')")" 23505
  expect "$how: purge" "$(sqlstate "SELECT claims.purge_outcomes()")" 00000
  # indexes on canonical forms
  for owner in one nobody; do
    expect "$how: the index of $owner is there" "$(sql "SELECT count(*) FROM pg_index WHERE indexrelid = to_regclass('public.handles_${owner}_form') AND indisunique AND indisvalid")" 1
    expect "$how: and keeps names apart for $owner" "$(PGUSER=script_claims_$owner sqlstate "INSERT INTO public.handles_$owner VALUES (2, 'ADA')")" 23505
  done
  # declarations
  expect "$how: several declarations of a column" "$(declarations)" 'groups GROUP poly_path_claim enforce 12.5, users USER poly_users observe 100'
  # two@example.com is at 12.2743 % of the share, ada at 99.1916 %
  expect "$how: each with its enforcement" "$(sql "BEGIN; INSERT INTO public.poly VALUES (1, 'two@example.com', 'group'), (2, 'ada', 'group'), (3, 'bob', 'user'); SELECT jsonb_path_query_array(create_records, '\$[*].bucket.value') FROM claims.pending_batch(); ROLLBACK")" '["two@example.com"]'
  expect "$how: what was observed" "$(sql 'SELECT table_name, outcome, bucket_value, count FROM claims.observations')" 'poly|taken|seen|3'
  # capture continues, and includes later partitions
  expect "$how: the triggers are there" "$(triggers "$target_db")" "$(triggers "$source_db")"
  expect "$how: claimed columns are captured" "$(sql "BEGIN; INSERT INTO public.plain VALUES (2, 'd'); INSERT INTO public.parts VALUES (2, 'e'); SELECT jsonb_array_length(create_records) FROM claims.pending_batch(); ROLLBACK")" 2
  expect "$how: changes become requests" "$(sql "BEGIN; INSERT INTO public.captured VALUES (2, 'd'); SELECT count(*) FROM claims.requests WHERE queue = 'dumped'; ROLLBACK")" 2
  sql "CREATE TABLE public.middle PARTITION OF public.parts FOR VALUES FROM (10) TO (20); CREATE TABLE public.captured_middle PARTITION OF public.captured FOR VALUES FROM (10) TO (20)"
  expect "$how: a later partition refuses TRUNCATE" "$(sqlstate 'TRUNCATE public.middle') $(sqlstate 'TRUNCATE public.captured_middle') $(sqlstate 'TRUNCATE public.low')" '55000 55000 55000'
  expect "$how: its owner may have made it" "$(sql "SELECT has_function_privilege('script_claims_one', 'claims.capture_row()', 'EXECUTE')")" t
  sql "DROP TABLE public.middle, public.captured_middle"
  expect "$how: check() finds nothing afterwards" "$(sql "SELECT count(*) FROM claims.check()")" 0
  export PGDATABASE=postgres
}

export PGDATABASE=postgres
pg_dump --dbname="$source_db" --create --file="$CLAIMS_TMP/plain.sql"
sql "DROP DATABASE IF EXISTS $target_db" 2>/dev/null
sed "s/$source_db/$target_db/g" "$CLAIMS_TMP/plain.sql" | psql -XqAt -v ON_ERROR_STOP=1 -d postgres >/dev/null
expect 'plain: a setting of the database' "$(sql "$target_db" 'SELECT 1 FROM claims.bucket_types LIMIT 1; SHOW claims.max_batch_size' | tail -1)" 7
restore_and_compare plain

pg_dump --dbname="$source_db" --format=custom --file="$CLAIMS_TMP/custom.dump"
sql "DROP DATABASE $target_db"
sql "CREATE DATABASE $target_db ENCODING 'UTF8' TEMPLATE template0"
# In one step it may create a partitioned table's triggers before it has loaded the partitions.
pg_restore --exit-on-error --jobs=2 --section=pre-data --section=data --dbname="$target_db" "$CLAIMS_TMP/custom.dump"
pg_restore --exit-on-error --jobs=2 --section=post-data --dbname="$target_db" "$CLAIMS_TMP/custom.dump"
restore_and_compare 'custom, parallel'

# a dump of the restored database equals the first dump
sql "DROP DATABASE $target_db"
sql "CREATE DATABASE $target_db ENCODING 'UTF8' TEMPLATE template0"
pg_restore --exit-on-error --single-transaction --dbname="$target_db" "$CLAIMS_TMP/custom.dump"
expect 'a dump of the restored database is the same' \
  "$(pg_dump --dbname="$target_db" | sed "s/$target_db/$source_db/g" | grep -vE '^-- |^\\(un)?restrict' | LC_ALL=C sort | sha256sum)" \
  "$(pg_dump --dbname="$source_db" | grep -vE '^-- |^\\(un)?restrict' | LC_ALL=C sort | sha256sum)"

# A release that seeds the types which were added: simulated by a database that has the seeds before the dump is restored.
seeds() {
  sql "DROP DATABASE $target_db"
  sql "CREATE DATABASE $target_db ENCODING 'UTF8' TEMPLATE template0"
  sql $target_db "CREATE EXTENSION claims; INSERT INTO claims.bucket_types VALUES (20, 'SEED_20'), (21, 'SEED_21'); INSERT INTO claims.subject_types VALUES (5, 'TEAM'); INSERT INTO claims.source_types VALUES (16, 'SEED_16');
    INSERT INTO claims.type_names (kind, name, id, first, seeded) VALUES ('bucket', 'SEED_20', 20, true, true), ('bucket', 'SEED_21', 21, true, true), ('subject', 'TEAM', 5, true, true), ('source', 'SEED_16', 16, true, true)"
}
seeded_types() { sql $target_db "SELECT string_agg(kind || id || name || aliases::text, ' ') FROM claims.list_types() WHERE (kind = 'bucket' AND id BETWEEN 19 AND 99) OR (kind = 'subject' AND id = 5) OR (kind = 'source' AND id = 16)"; }
merged='bucket20SEED_20{KEYS} bucket21SHOWN_21{FIRST_21,SEED_21} subject5TEAM{} source16SEED_16{TEAMS}'
seeds
pg_restore --exit-on-error --single-transaction --dbname="$target_db" "$CLAIMS_TMP/custom.dump"
expect 'seeds of a later release' "$(seeded_types)" "$merged"
expect 'with the profile of the dump' "$(sql $target_db 'SELECT profile FROM claims.bucket_types WHERE id = 20')" casefold
expect 'check() finds nothing' "$(sql $target_db 'SELECT count(*) FROM claims.check()')" 0
seeds
pg_restore --exit-on-error --jobs=4 --section=pre-data --section=data --dbname="$target_db" "$CLAIMS_TMP/custom.dump"
expect 'the same by a parallel restore' "$(seeded_types)" "$merged"

# The extension belongs to the role that restores it, and calls the service with that role's user mapping, as after a restore in another cluster.
sql "DROP DATABASE $target_db"
sql "CREATE ROLE script_claims_restorer SUPERUSER"
sql "CREATE DATABASE $target_db ENCODING 'UTF8' TEMPLATE template0"
pg_restore --exit-on-error --role=script_claims_restorer --dbname="$target_db" "$CLAIMS_TMP/custom.dump"
call="SELECT count(*) FROM claims.reconcile(1, 'script_service')"
expect 'another owner has no user mapping' "$(sqlstate "$target_db" "$call")" 42704
expect 'and is told to make one' "$(psql -XqAt -d "$target_db" -c "$call" 2>&1 | sed -n 's/^HINT: *//p')" \
  'Have a superuser make one with CREATE USER MAPPING. After a restore the extension belongs to the role that has restored it.'
sql "$target_db" "CREATE USER MAPPING FOR script_claims_restorer SERVER script_service OPTIONS (user 'postgres')"
expect 'with that it calls the service' "$(sqlstate "$target_db" "$call")" 00000

sql "DROP DATABASE $target_db"
sql "DROP DATABASE $source_db"
sql 'DROP ROLE script_claims_nobody, script_claims_restorer'
