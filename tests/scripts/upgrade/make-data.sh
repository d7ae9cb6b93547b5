#!/usr/bin/env bash
# Made data-1.0.0.sql, with the library of 1.0.0: a dump of a database with rows in every table. To be run again, adapted, when
# a new version has been released, before the next one is begun:
#   scripts/with-cluster -- bash tests/scripts/upgrade/make-data.sh > tests/scripts/upgrade/data-VERSION.sql
. "$(dirname "${BASH_SOURCE[0]}")/../common.bash"
{
fresh_database made
sql "CREATE EXTENSION dblink"
sql "CREATE SERVER service FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '127.0.0.1', dbname 'nowhere'); GRANT USAGE ON FOREIGN SERVER service TO script_claims_one"
# types, cells, readers, workers
sql "SELECT claims.add_bucket_type(100, 'DOMAINS'), claims.add_subject_type(100, 'FLEET'), claims.add_source_type(100, 'RAILS_TABLE_DOMAINS')"
sql "SELECT claims.register_cell(3, 'script_claims_two', 'three', 'https://three.example'), claims.grant_read('script_claims_router'), claims.grant_worker('script_claims_two')"
# claims, leases and their outcomes: outstanding (1), committed (2), rolled back (3), fenced (4), in the name of a transaction (5)
have 1 active going 😀 'a b' "o''brien" 'back\\slash'
have 2 theirs
have 1 $(seq -f 'name-%g' 1 200)
sql "SELECT claims.begin_update(1, '[$(claim coming), {\"bucket\": {\"type\": \"DOMAINS\", \"value\": \"a.example\"}, \"subject\": {\"type\": \"FLEET\", \"id\": 1}, \"source\": {\"type\": 100, \"id\": \"x\"}}]', '[$(bucket going)]', '$(lease 1)')"
sql "SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim committed)]', '[]', '$(lease 2)'))"
sql "SELECT claims.rollback_update(1, claims.begin_update(1, '[$(claim 'rolled back')]', '[]', '$(lease 3)'))"
sql "SELECT claims.rollback_update(2, '$(lease 4)')"
sql "SELECT claims.begin_update(2, '[$(claim 'in a transaction')]', lease_uuid => '$(lease 5)', cell_xid => pg_current_xact_id())"
# the cell's half: a lease that is tracked, and one that recovery has given up
sql "SELECT claims.begin_update(1, '[$(claim tracked)]', '[]', '$(lease 21)'); SELECT claims.track_lease('$(lease 21)')"
sql "SELECT claims.judge_leases('[{\"lease_uuid\": \"$(lease 22)\", \"created_at\": \"2026-01-01\"}]')"
# claimed columns and captured tables, plain and partitioned
sql "CREATE TABLE public.plain (id bigint PRIMARY KEY, username text UNIQUE);
     CREATE TABLE public.parts (id bigint PRIMARY KEY, username text) PARTITION BY RANGE (id);
     CREATE TABLE public.low PARTITION OF public.parts FOR VALUES FROM (0) TO (10);
     CREATE TABLE public.captured (id bigint PRIMARY KEY, entity text) PARTITION BY RANGE (id);
     CREATE TABLE public.captured_low PARTITION OF public.captured FOR VALUES FROM (0) TO (10);
     ALTER TABLE public.plain OWNER TO script_claims_one; ALTER TABLE public.parts OWNER TO script_claims_one"
sql "SELECT claims.claim_attribute('public.plain', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', condition => 'id > 0')"
sql "SELECT claims.claim_attribute('public.parts', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS')"
sql "SELECT claims.capture_requests('public.captured', 'captured', 'entity')"
sql "INSERT INTO public.plain VALUES (1, 'a'); INSERT INTO public.parts VALUES (1, 'b'); INSERT INTO public.captured VALUES (1, 'c')"
sql "SELECT claims.automatic(1, 'service')"
# requests: new, blocked, held, complete, failed, and a hold that was lost
worker=00000000-0000-4000-9000-00000000000
sql "SELECT claims.enqueue_request('work', 'created', 'create'), claims.enqueue_request('work', 'created', 'update', '{\"a\": [1, \"é\"]}')"
sql "SELECT claims.enqueue_request('done', 'e', 'create'); BEGIN; SELECT claims.take_requests('done', '${worker}1'); SELECT claims.settle_requests('${worker}1'); COMMIT"
sql "SELECT claims.enqueue_request('failed', 'e', 'update'); BEGIN; SELECT claims.take_requests('failed', '${worker}1'); SELECT claims.settle_requests('${worker}1', 'it broke'); COMMIT"
sql "SELECT claims.enqueue_request('lost', 'e', 'update'); SELECT claims.take_requests('lost', '${worker}2', hold_for => '1 s'); SELECT pg_sleep(1.2); SELECT claims.take_requests('lost', '${worker}3', hold_for => '10 years')"
# expiring claims: never held, held, expired
sql "SELECT claims.add_expiring('svc', ARRAY['a', 'b', 'c']); SELECT claims.acquire_expiring('svc', 'one', '10 years', 1), claims.acquire_expiring('svc', 'two', '1 s', 1)"
# a verification that was interrupted, and one that is shared
sql "INSERT INTO claims.verification_positions (cell_id, source_type, source_id) VALUES (1, 'RAILS_TABLE_USERS', '17')"
sql "SELECT claims.begin_verification(1, 'RAILS_TABLE_USERS', true)"
sql "INSERT INTO claims.verification_ranges SELECT pass, 1, NULL, '100' FROM claims.verification_passes"
sql "INSERT INTO claims.expiring_claims (kind, key) SELECT 'claims.verify ' || pass, '1' FROM claims.verification_passes"
} >/dev/null
pg_dump --dbname=made | grep -vE '^\\(un)?restrict' | sed "s/^CREATE EXTENSION IF NOT EXISTS claims .*/CREATE EXTENSION claims VERSION '$(sql "SELECT extversion FROM pg_extension WHERE extname = 'claims'")';/"
# What a dump leaves out.
for table in verification_positions verification_passes verification_ranges; do
  printf '\nCOPY claims.%s FROM stdin;\n' "$table"
  sql "COPY claims.$table TO stdout"
  echo '\.'
done
printf '\nCOPY claims.expiring_claims FROM stdin;\n'
sql "COPY (SELECT * FROM claims.expiring_claims WHERE kind LIKE 'claims.verify %') TO stdout"
echo '\.'
