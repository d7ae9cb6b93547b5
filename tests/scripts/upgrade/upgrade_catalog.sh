#!/usr/bin/env bash
# ALTER EXTENSION UPDATE results in the same catalog as CREATE EXTENSION, from every release; differences of every kind are found.
. "$(dirname "$0")/upgrade.bash"

trap 'rm -f "$EXTENSIONS"/claims--*"$$".sql; cleanup' EXIT
script=$EXTENSIONS/claims--$OLD--$NEW.sql
old=script_upgrade_old new=script_upgrade_new
make_database $old; make_database $new
sql $old "CREATE EXTENSION claims VERSION '$OLD'"
sql $new "CREATE EXTENSION claims"
describe $new "$CLAIMS_TMP/wanted"
expect 'the description says something' "$([ "$(wc -l <"$CLAIMS_TMP/wanted")" -gt 500 ] && echo yes)" yes
describe $old "$CLAIMS_TMP/got" "ALTER EXTENSION claims UPDATE"
expect_same "$OLD upgraded is what $NEW is" "$CLAIMS_TMP/got" "$CLAIMS_TMP/wanted"
for release in $RELEASED; do
  [ "$release" != "$OLD" ] || continue
  make_database script_upgrade_older
  sql script_upgrade_older "CREATE EXTENSION claims VERSION '$release'"
  describe script_upgrade_older "$CLAIMS_TMP/got" "ALTER EXTENSION claims UPDATE"
  expect_same "$release upgraded is what $NEW is" "$CLAIMS_TMP/got" "$CLAIMS_TMP/wanted"
  # Between two scripts of the upgrade, nobody else sees the tables; afterwards calls are refused where it has stopped.
  sql script_upgrade_older "ALTER EXTENSION claims UPDATE TO '$OLD'"
  expect "stopped at $OLD, calls are refused" "$(sqlstate script_upgrade_older "SELECT claims.list_leases(1)")" 55000
  expect 'and go on after the rest' "$(sqlstate script_upgrade_older 'ALTER EXTENSION claims UPDATE') $(sql script_upgrade_older 'SELECT count(*) FROM claims.check()')" '00000 0'
  sql postgres 'DROP DATABASE script_upgrade_older'
done

# --- what goes wrong is noticed -------------------------------------------------------------------------------------

# noticed WHAT STATEMENTS|-: what the description says after a script that ends with these statements, or is given as input.
mutation=0
noticed() {
  local version=$NEW-$((++mutation))m$$ file
  file=$EXTENSIONS/claims--$OLD--$version.sql
  if [ "$2" = - ]; then cat >"$file"; else { cat "$script"; printf '%s\n' "$2"; } >"$file"; fi
  if describe $old "$CLAIMS_TMP/got" "ALTER EXTENSION claims UPDATE TO '$version'" 2>"$CLAIMS_TMP/errors" \
     && cmp -s "$CLAIMS_TMP/got" "$CLAIMS_TMP/wanted"; then
    printf 'FAILED: not noticed: %s\n' "$1" >&2
    exit 1
  fi
  # A mutation that is no SQL would prove nothing.
  if [ "$2" != - ] && [ -s "$CLAIMS_TMP/errors" ]; then cat "$CLAIMS_TMP/errors" >&2; exit 1; fi
  printf 'ok: noticed: %s\n' "$1"
}

begin='claims.begin_update(bigint, jsonb, jsonb, uuid, xid8, boolean)'
noticed 'a comment that is missing' "COMMENT ON FUNCTION $begin IS NULL;"
noticed 'another comment' "COMMENT ON COLUMN claims.cells.name IS 'Another.';"
noticed 'the comment of a trigger' "COMMENT ON TRIGGER announce_change ON claims.cells IS NULL;"
noticed 'a function for PUBLIC' "GRANT EXECUTE ON FUNCTION $begin TO PUBLIC;"
noticed 'a table for PUBLIC' "GRANT SELECT ON claims.claims TO PUBLIC;"
noticed 'a column for PUBLIC' "GRANT SELECT (uuid) ON claims.claims TO PUBLIC;"
noticed 'the schema for PUBLIC' "GRANT USAGE ON SCHEMA claims TO PUBLIC;"
noticed 'a function that is missing' "DROP FUNCTION claims.purge_fences();"
noticed 'a function too many' "CREATE FUNCTION claims.more() RETURNS int LANGUAGE sql AS 'SELECT 1'; REVOKE ALL ON FUNCTION claims.more() FROM PUBLIC;"
noticed 'a function that does not belong to the extension' "ALTER EXTENSION claims DROP FUNCTION claims.purge_fences();"
noticed 'rights of the caller' "ALTER FUNCTION claims.require_admin() SECURITY INVOKER;"
noticed 'settings of a function' "ALTER FUNCTION claims.require_admin() RESET search_path;"
noticed 'volatility' "ALTER FUNCTION claims.require_admin() VOLATILE;"
noticed 'strictness' "ALTER FUNCTION claims.require_admin() CALLED ON NULL INPUT;"
noticed 'parallel safety' "ALTER FUNCTION claims.require_admin() PARALLEL SAFE;"
noticed 'the body of a function' "CREATE OR REPLACE FUNCTION claims.grant_read(role_name name) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'BEGIN END';"
noticed 'the owner of a function' "ALTER FUNCTION $begin OWNER TO pg_monitor;"
noticed 'the owner of a table' "ALTER TABLE claims.claims OWNER TO pg_monitor;"
noticed 'a column that is missing' "ALTER TABLE claims.cells DROP COLUMN address CASCADE;"
noticed 'a column too many' "ALTER TABLE claims.cells ADD COLUMN more int;"
noticed 'NOT NULL' "ALTER TABLE claims.claims ALTER COLUMN status DROP NOT NULL;"
noticed 'a default' "ALTER TABLE claims.claims ALTER COLUMN created_at DROP DEFAULT;"
noticed 'storage' "ALTER TABLE claims.claim_leases ALTER COLUMN payload SET STORAGE MAIN;"
noticed 'compression' "ALTER TABLE claims.claim_leases ALTER COLUMN payload SET COMPRESSION pglz;"
noticed 'options of a table' "ALTER TABLE claims.claims RESET (fillfactor);"
noticed 'a table without WAL' "ALTER TABLE claims.lease_fences SET UNLOGGED;"
noticed 'replica identity' "ALTER TABLE claims.verification_positions REPLICA IDENTITY FULL;"
noticed 'row security' "ALTER TABLE claims.claims ENABLE ROW LEVEL SECURITY;"
noticed 'an index that is missing' "DROP INDEX claims.claims_source;"
noticed 'an index on other columns' "DROP INDEX claims.claim_leases_age; CREATE INDEX claim_leases_age ON claims.claim_leases (created_at);"
noticed 'a primary key' "ALTER TABLE claims.lease_fences DROP CONSTRAINT lease_fences_pkey;"
noticed 'a check' "ALTER TABLE claims.audiences DROP CONSTRAINT audiences_audience_check;"
noticed 'a constraint that was not checked' "ALTER TABLE claims.audiences DROP CONSTRAINT audiences_audience_check; ALTER TABLE claims.audiences ADD CONSTRAINT audiences_audience_check CHECK (audience IN ('reader', 'cell', 'worker')) NOT VALID;"
noticed 'a trigger that is missing' "DROP TRIGGER announce_change ON claims.cells;"
noticed 'a trigger that replication does not fire' "ALTER TABLE claims.cells ENABLE TRIGGER announce_change;"
noticed 'a view' "CREATE OR REPLACE VIEW claims.claimed_columns WITH (security_barrier) AS SELECT a.table_name, a.attribute, a.bucket_type, a.subject_type,
  a.subject_key, a.source_type, a.source_key, a.condition, a.declaration, a.constraint_name, a.enforcement, a.share, true AS captured FROM claims.claimed_attributes a;"
noticed 'the options of a view' "ALTER VIEW claims.claimed_columns RESET (security_barrier);"
noticed 'a sequence' "ALTER SEQUENCE claims.expiring_tokens CACHE 10;"
noticed 'what pg_dump leaves out' "SELECT pg_extension_config_dump('claims.cells', 'WHERE false');"
noticed 'who may call' "DELETE FROM claims.audiences WHERE function_name = 'get_record';"
noticed 'a type that is seeded' "INSERT INTO claims.bucket_types VALUES (99, 'MORE');"

# No part is there for nothing, and none stands in for another.
for part in "$CLAIMS_ROOT/sql/upgrade/$OLD--$NEW"/[0-9][0-9]-*.sql; do
  part=$(basename "$part")
  awk -v part="$part" '/^-- part / { out = ($3 == part) } !out' "$script" | noticed "a script without $part" -
done

# --- the extension's owner is no superuser, and another one upgrades ------------------------------------------------

owner=script_upgrade_owner
sql postgres "DROP OWNED BY $owner; DROP ROLE $owner" 2>/dev/null || true
sql $old "CREATE ROLE $owner SUPERUSER"
for database in $old $new; do make_database $database; done
sql $old "SET ROLE $owner; CREATE EXTENSION claims VERSION '$OLD'"
sql $new "SET ROLE $owner; CREATE EXTENSION claims"
sql $old "ALTER ROLE $owner NOSUPERUSER"
# Rights that come by default are not for anybody either.
# As after pg_upgrade.
sql $old "UPDATE pg_extension SET extowner = 10 WHERE extname = 'claims'"
fresh_roles
for kind in FUNCTIONS TABLES SEQUENCES TYPES; do sql $old "ALTER DEFAULT PRIVILEGES GRANT ALL ON $kind TO script_claims_router"; done
describe $new "$CLAIMS_TMP/wanted"
describe $old "$CLAIMS_TMP/got" "ALTER EXTENSION claims UPDATE"
expect_same 'the same with an owner who is no superuser' "$CLAIMS_TMP/got" "$CLAIMS_TMP/wanted"
# New objects of the parts belong to the owner, without a statement for it.
{ awk '/^-- part 99-/ { exit } 1' "$script"
  echo "CREATE TABLE claims.made (id bigint GENERATED ALWAYS AS IDENTITY); CREATE VIEW claims.made_view AS SELECT 1 AS made; CREATE SEQUENCE claims.made_numbers;
        CREATE TYPE claims.made_kind AS ENUM ('a'); CREATE FUNCTION claims.made() RETURNS int LANGUAGE sql AS 'SELECT 1';"
  awk '/^-- part 99-/ { on = 1 } on' "$script"
} >"$EXTENSIONS/claims--$OLD--$NEW-made$$.sql"
describe $old "$CLAIMS_TMP/got" "ALTER EXTENSION claims UPDATE TO '$NEW-made$$'"
made=$(grep -E '^[^|]* claims\.made' "$CLAIMS_TMP/got")
expect 'six new objects: their owners' "$(grep -oE 'owner [^ ,]+' <<<"$made" | sort | uniq -c | tr -s ' ')" ' 6 owner OWNER'
expect 'new objects: who else has rights' "$(grep -E 'router|postgres|PUBLIC' <<<"$made" | grep -v '^type claims.made_kind')" ''

expect 'the owner cannot upgrade it himself' "$(sqlstate $old "SET ROLE $owner; ALTER EXTENSION claims UPDATE")" 42501

# --- symbols --------------------------------------------------------------------------------------------------------

# A session's library and its database's functions may be of two versions: a symbol that both know is called in the same way. Defaults of
# arguments do not matter: the caller has them evaluated.
symbols() { sql "$1" "SELECT p.prosrc || ' ' || pg_get_function_identity_arguments(p.oid) || ' -> ' || pg_get_function_result(p.oid) || CASE WHEN p.proisstrict THEN ' strict' ELSE '' END
                        FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang WHERE l.lanname = 'c' AND p.pronamespace = 'claims'::regnamespace" | LC_ALL=C sort -u; }
symbols $old >"$CLAIMS_TMP/old"; symbols $new >"$CLAIMS_TMP/new"
expect 'a symbol keeps its arguments and its result' "$(LC_ALL=C comm -3 "$CLAIMS_TMP/old" "$CLAIMS_TMP/new" | sed 's/^\t//' | cut -d' ' -f1 | sort | uniq -d)" ''

for database in $old $new; do sql postgres "DROP DATABASE $database"; done
sql postgres "DROP ROLE $owner"
