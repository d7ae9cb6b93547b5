#!/usr/bin/env bash
# The service's tables of 1.0.0 with data: what the upgrade refuses, what it keeps, and which index it takes.
OLD=1.0.0
. "$(dirname "$0")/upgrade.bash"

db=script_upgrade_service
fresh_roles
old_database() { old_service $db; }
rows() { sql $db "SELECT (to_jsonb(c) - '{display_value,given_up_by,available_at}'::text[])::text FROM claims.claims c UNION ALL SELECT NULL FROM claims.claim_leases ORDER BY 1; SELECT to_jsonb(l) - '{context,cell_role}'::text[] FROM claims.claim_leases l; SELECT o FROM claims.lease_outcomes o ORDER BY 1"; }
version() { sql $db "SELECT extversion FROM pg_extension WHERE extname = 'claims'"; }
index() { sql $db "SELECT 'claims.claims_bucket'::regclass::oid"; }

# --- before the upgrade: the new library on the old tables ----------------------------------------------------------------
old_database
expect 'calls are refused' "$(sqlstate $db "SELECT claims.begin_update(1, '[$(claim new)]')") $(sqlstate $db "SELECT * FROM claims.get_record('ROUTES', 'active')")" '55000 55000'
expect 'with a way out' "$(sql $db "SELECT claims.lease_outcome(1, '$(lease 1)')" 2>&1 | grep -c 'HINT.*ALTER EXTENSION claims UPDATE')" 1

# --- values that are too long from now on ---------------------------------------------------------------------------------
sql $db "INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status)
           SELECT 1, repeat('😀', 651 + n), 2, '1', 3, '9', 1, 1 FROM generate_series(0, 1) n"
rows >"$CLAIMS_TMP/before"
expect 'values of more than 2,600 bytes' "$(sqlstate $db 'ALTER EXTENSION claims UPDATE')" 22001
psql -Xq -d $db -c 'ALTER EXTENSION claims UPDATE' 2>"$CLAIMS_TMP/errors" || true
expect 'how many' "$(grep -c 'DETAIL: *There are 2 of them' "$CLAIMS_TMP/errors")" 1
expect 'which ones' "$(sql $db "$(sed -n 's/^HINT: .*To find them: //p' "$CLAIMS_TMP/errors")" | cut -d'|' -f1-5)" '1|1|3|9|2604
1|1|3|9|2608'
expect 'nothing has changed' "$(version) $(rows | cmp - "$CLAIMS_TMP/before" && echo same)" "$OLD same"
sql $db "DELETE FROM claims.claims WHERE octet_length(bucket_value) > 2600"

# --- with data, and a lease outstanding -----------------------------------------------------------------------------------
rows >"$CLAIMS_TMP/before"
expect 'without them it is updated' "$(sqlstate $db 'ALTER EXTENSION claims UPDATE') $(version)" "00000 $NEW"
expect 'the same data' "$(rows | cmp - "$CLAIMS_TMP/before" && echo same)" same
expect 'nothing is wrong with it' "$(sql $db 'SELECT count(*) FROM claims.check()')" 0
expect 'a long value is found' "$(sql $db "SELECT source_id FROM claims.get_record('ROUTES', repeat('é', 1024) || 'x')" 2>&1 | head -1)" 4
expect 'a lease of before is settled' "$(sql $db "SELECT claims.commit_update(1, '$(lease 1)'); SELECT string_agg(bucket_value || ' ' || status, ', ' ORDER BY bucket_value) FROM claims.claims WHERE source_id IN ('2', '3')" | tr '\n' ' ')" 't coming 1 '
expect 'an outcome of before is known' "$(sql $db "SELECT claims.lease_outcome(1, '$(lease 2)'); SELECT claims.lease_outcome(1, '$(lease 3)')" | tr '\n' ' ')" 'committed rolled_back '

# --- the index that was built before --------------------------------------------------------------------------------------
# taken WHAT STATEMENT: whether the upgrade takes the index that the statement makes.
taken() {
  old_database
  sql $db "$2"
  local made
  made=$(sql $db "SELECT max(indexrelid::int) FROM pg_index WHERE indrelid = 'claims.claims'::regclass")
  sql $db 'ALTER EXTENSION claims UPDATE'
  expect "$1" "$([ "$(index)" = "$made" ] && echo taken || echo 'made anew') $(sql $db "SELECT coalesce(string_agg(problem, ', '), '-') FROM claims.check()")" "$3 $([ "$3" = taken ] && echo - || echo 'table is not as the extension has created it')"
}
taken 'built concurrently' 'CREATE UNIQUE INDEX CONCURRENTLY beforehand ON claims.claims (bucket_value, bucket_type)' taken
describe $db "$CLAIMS_TMP/got"
make_database script_upgrade_fresh; sql script_upgrade_fresh 'CREATE EXTENSION claims'
describe script_upgrade_fresh "$CLAIMS_TMP/wanted"
expect_same 'and the result is the same' <(grep 'claims_bucket' "$CLAIMS_TMP/got") <(grep 'claims_bucket' "$CLAIMS_TMP/wanted")
taken 'not unique' 'CREATE INDEX beforehand ON claims.claims (bucket_value, bucket_type)' 'made anew'
taken 'in another order' 'CREATE UNIQUE INDEX beforehand ON claims.claims (bucket_type, bucket_value)' 'made anew'
taken 'of some rows' 'CREATE UNIQUE INDEX beforehand ON claims.claims (bucket_value, bucket_type) WHERE status = 1' 'made anew'
taken 'under another collation' 'CREATE UNIQUE INDEX beforehand ON claims.claims (bucket_value COLLATE "POSIX", bucket_type)' 'made anew'
taken 'with an operator class of its own' 'CREATE UNIQUE INDEX beforehand ON claims.claims (bucket_value text_pattern_ops, bucket_type)' 'made anew'
taken 'downwards' 'CREATE UNIQUE INDEX beforehand ON claims.claims (bucket_value DESC, bucket_type)' 'made anew'

# Cells read while the index is built, and wait neither for that nor long for the rest.
old_database
sql $db "CREATE FUNCTION locks() RETURNS text LANGUAGE sql AS \$\$ SELECT string_agg(DISTINCT mode, ' ' ORDER BY mode) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'claims.claims'::regclass \$\$"
awk '/^-- part 99-/ { exit } /^DROP INDEX claims.claims_bucket/ { print "DO $$ BEGIN RAISE WARNING \x27locks: %\x27, public.locks(); END $$;" } 1' "$EXTENSIONS/claims--$OLD--1.1.0.sql" >"$EXTENSIONS/claims--$OLD--1.1.0-locks$$.sql"
trap 'rm -f "$EXTENSIONS"/claims--*"$$".sql; cleanup' EXIT
expect 'until the old index goes only writers are kept out' "$(psql -Xq -d $db -c "ALTER EXTENSION claims UPDATE TO '1.1.0-locks$$'" 2>&1 | sed -n 's/.*locks: //p')" 'AccessShareLock ShareLock'
for database in $db script_upgrade_fresh; do sql postgres "DROP DATABASE $database"; done
