#!/usr/bin/env bash
# ALTER EXTENSION claims UPDATE of release 1.1.0 whose tables are distributed, with data: Citus runs it on every node. Afterwards tables and shards are as in a
# cluster that was distributed with this version, cells save on every node, and leases from before end.
. "$(dirname "$0")/../citus.bash"

# What distribute() of 1.1.0 did: the library of this version does not do it with the old tables.
reference='bucket_types cell_epochs cell_transfers cells limit_settings mode_settings source_types subject_types transfer_subjects type_names'
distribute_old() {
  local table
  echo 'SET citus.enable_unsafe_triggers = on;'
  for table in $reference; do echo "SELECT create_reference_table('claims.$table');"; done
  echo "SELECT create_distributed_table('claims.claims', 'bucket_value', colocate_with => 'none', shard_count => 8);
    SELECT create_distributed_table('claims.reservations', 'bucket_value', colocate_with => 'claims.claims');
    SELECT create_distributed_table('claims.claim_leases', 'uuid', colocate_with => 'none', shard_count => 8);
    SELECT create_distributed_table('claims.lease_outcomes', 'lease_uuid', colocate_with => 'claims.claim_leases');
    SELECT create_distributed_table('claims.skeletons', 'skeleton', colocate_with => 'claims.claim_leases');
    SELECT create_distributed_table('claims.change_sets', NULL, colocate_with => 'none');
    SELECT create_distributed_table('claims.change_horizon', NULL, colocate_with => 'claims.change_sets');"
}
# described: the tables of the extension and this node's shards of them, without their numbers; and what may be parallel.
described() {
  PGOPTIONS='-c citus.override_table_visibility=off' sql "SELECT DISTINCT regexp_replace(c.relname, '_[0-9]{6,}\$', '_N') || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '-')
         FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind = 'r'
       UNION SELECT regexp_replace(c.relname, '_[0-9]{6,}\$', '_N') || ' ' || pg_get_constraintdef(k.oid) FROM pg_class c JOIN pg_constraint k ON k.conrelid = c.oid
        WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind = 'r' AND k.contype IN ('c', 'p', 'u')
       UNION SELECT regexp_replace(c.relname, '_[0-9]{6,}\$', '_N') || ' ' || i.indisunique || regexp_replace(pg_get_indexdef(i.indexrelid), '^.*? USING', '') FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid
        WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind = 'r'
       UNION SELECT 'parallel ' || proparallel::text || ' ' || proname FROM pg_proc WHERE pronamespace = 'claims'::regnamespace AND proparallel <> 'u'
       ORDER BY 1"
}

citus_cluster 2
sql "CREATE EXTENSION claims VERSION '1.1.0'"
fresh_roles
sql "INSERT INTO claims.cells (cell_id, role, role_name, name) VALUES (1, 'script_claims_one'::regrole, 'script_claims_one', 'one'), (2, 'script_claims_two'::regrole, 'script_claims_two', 'two');
  INSERT INTO claims.bucket_types (id, name, profile) VALUES (14, 'SLUGS', 'casefold');
  INSERT INTO claims.limit_settings (cell_id, max_outstanding, reason, since, role) VALUES (2, 100, 'a test', now(), 'postgres');
  INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status)
  SELECT 1, 'there-' || n, 2, n, 3, n, 1, 1 FROM generate_series(1, 200) n;
  INSERT INTO claims.claim_leases (uuid, creator_id, payload) VALUES ('$(lease 1)', 1, '{\"create_records\": [$(claim held)], \"destroy_records\": []}');
  INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status, lease_uuid) VALUES (1, 'held', 2, '1', 3, '1', 1, 2, '$(lease 1)')"
distribute_old | psql -Xq -v ON_ERROR_STOP=1 >/dev/null 2>"$CLAIMS_TMP/said" || { cat "$CLAIMS_TMP/said" >&2; exit 1; }
expect 'the library refuses the old tables' "$(sqlstate "SELECT claims.begin_update(1, $(claims_of early))")" 55000
sql 'ALTER EXTENSION claims UPDATE'
as_cell() { psql -XqAt -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -c "SET ROLE script_claims_$1" -c "$2" 2>&1; }
number=0
for node in "${NODES[@]}"; do
  number=$((number + 1))
  $node
  expect "$node: the version" "$(sql "SELECT extversion FROM pg_extension WHERE extname = 'claims'")" "$(sql "SELECT default_version FROM pg_available_extensions WHERE name = 'claims'")"
  expect "$node: a type that was added with the id of a new one" "$(sql "SELECT string_agg(id || ' ' || name || ' ' || aliases::text || ' ' || profile, ', ') FROM claims.list_types() WHERE kind = 'bucket' AND id IN (13, 14)")" \
    '13 GPG_KEY_FINGERPRINTS {} exact, 14 SERVICE_DESK_PROJECT_KEY_ADDRESS_SLUG {SLUGS} casefold'
  expect "$node: the seeded types are the same" "$(sql 'SELECT md5(string_agg(n::text, $$ $$ ORDER BY n)) FROM claims.type_names n')" "${names:=$(sql 'SELECT md5(string_agg(n::text, $$ $$ ORDER BY n)) FROM claims.type_names n')}"
  expect "$node: a cell saves" "$(as_cell one "SELECT claims.commit_update(1, claims.begin_update(1, $(claims_of "new-$number")))")" t
  expect "$node: a batch" "$(as_cell two "SELECT claims.commit_update(2, claims.begin_update(2, $(numbered "batch-$number" 30)))")" t
  expect "$node: what is new" "$(as_cell one 'SELECT claims.hold_verification_slot(1, 60)')" t
  expect "$node: a name from before" "$(sqlstate "SELECT claims.begin_update(2, $(claims_of there-7))") $(sql "SELECT count(*) FROM claims.get_record('ROUTES', 'there-7')")" '23505 1'
  described >"$CLAIMS_TMP/upgraded.$number"
done
on_coordinator
expect 'a lease from before' "$(as_cell one "SELECT claims.commit_update(1, '$(lease 1)')")" t
sql "SELECT claims.set_cell_limits(2, 'a test', max_priority => 3)" >/dev/null
expect 'a limit of a new kind' "$(on_worker 2; sql 'SELECT max_outstanding, max_priority FROM claims.limit_settings WHERE cell_id = 2')" '|3'
expect 'all claims' "$(sql "SELECT count(*) FROM claims.claims WHERE status = 1")" 294
sql "SELECT claims.add_source_type(20, 'LATER')" >/dev/null
expect 'a type with a low id' "$(on_worker 2; sql 'SELECT name FROM claims.source_types WHERE id = 20')" LATER
expect 'refresh_grants()' "$(sql 'SELECT claims.refresh_grants()')" ''
expect_clean 'upgraded'
expect 'the setting of the session is as before' "$(psql -XqAt -c BEGIN -c 'SHOW citus.enable_ddl_propagation' -c COMMIT)" on

# The same, distributed by this version.
sql 'DROP EXTENSION claims CASCADE' 2>/dev/null
citus_service
citus_spread 8
number=0
for node in "${NODES[@]}"; do
  number=$((number + 1))
  ($node; described) >"$CLAIMS_TMP/fresh"
  expect "$node: the tables are as in a new cluster" "$(diff "$CLAIMS_TMP/fresh" "$CLAIMS_TMP/upgraded.$number" | grep '^[<>]' | head -5)" ''
done
echo ok
