# Shared by the tests of upgrades: sourced, never run.
. "$(dirname "${BASH_SOURCE[0]}")/../common.bash"

UPGRADE=$CLAIMS_ROOT/tests/scripts/upgrade
EXTENSIONS=$("$CLAIMS_BINDIR/pg_config" --sharedir)/extension
# The releases that can be upgraded, and the last of them.
RELEASED='1.0.0 1.1.0'
OLD=${OLD:-${RELEASED##* }}
NEW=$(sed -nE "s/^default_version = '(.*)'/\1/p" "$EXTENSIONS/claims.control")

# make_database NAME: without the extension.
make_database() {
  sql postgres "DROP DATABASE IF EXISTS $1" 2>/dev/null
  sql postgres "CREATE DATABASE $1 ENCODING 'UTF8' TEMPLATE template0"
}

# describe DATABASE FILE [STATEMENT...]: what the extension consists of after the statements, which are not committed.
describe() {
  local database=$1 file=$2 statement commands=()
  shift 2
  for statement in "$@"; do commands+=(-c "$statement"); done
  psql -XqAt -v ON_ERROR_STOP=1 -d "$database" -c BEGIN ${commands[@]+"${commands[@]}"} -f "$UPGRADE/catalog.sql" >"$file"
}

# expect_same WHAT GOT_FILE WANTED_FILE
expect_same() {
  if ! diff -U0 "$3" "$2" >"$CLAIMS_TMP/difference"; then
    printf 'FAILED: %s; what should be there (-) and what is there (+):\n' "$1" >&2
    grep -vE '^(---|\+\+\+|@@)' "$CLAIMS_TMP/difference" >&2
    exit 1
  fi
  printf 'ok: %s\n' "$1"
}

# load_old DATABASE: of release OLD, with rows in every table. Roles are there.
load_old() {
  make_database "$1"
  psql -XqAt -v ON_ERROR_STOP=1 -d "$1" -f "$UPGRADE/data-$OLD.sql" >/dev/null
  draw_past_changes "$1"
}

# draw_past_changes DATABASE: the data has rows of the change feed, which no dump has, and so not the value of their sequence.
draw_past_changes() {
  sql "$1" "DO \$\$ BEGIN IF to_regclass('claims.change_sets_id_seq') IS NOT NULL THEN PERFORM setval('claims.change_sets_id_seq', 1048576); END IF; END \$\$"
}

# remember_columns DATABASE: stores which columns rows_of prints, whatever columns the tables get afterwards.
remember_columns() {
  sql "$1" "SELECT c.oid::regclass || '|' || string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
              FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
             WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind = 'r' GROUP BY c.oid
            UNION ALL SELECT c.oid::regclass || '|last_value' FROM pg_class c WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind = 'S'" >"$CLAIMS_TMP/columns"
}

# rows_of DATABASE FILE: every row of every table, and where the sequences are.
rows_of() {
  local table columns
  while IFS='|' read -r table columns; do printf "COPY (SELECT '%s', %s FROM %s) TO stdout;\n" "$table" "$columns" "$table"; done <"$CLAIMS_TMP/columns" \
    | psql -XqAt -v ON_ERROR_STOP=1 -d "$1" | LC_ALL=C sort >"$2"
}

# old_service DATABASE: 1.0.0 with two cells, active claims, and an outstanding lease that creates and destroys. Roles are there.
old_service() {
  make_database "$1"
  sql "$1" "CREATE EXTENSION claims VERSION '1.0.0'"
  sql "$1" "INSERT INTO claims.cells (cell_id, role) VALUES (1, 'script_claims_one'), (2, 'script_claims_two');
    INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, lease_uuid, status) VALUES
      (1, 'active', 2, '1', 3, '1', 1, NULL, 1), (1, 'coming', 2, '2', 3, '2', 1, '$(lease 1)', 2), (1, 'going', 2, '1', 3, '3', 1, '$(lease 1)', 3),
      (4, 'active', 4, '1', 1, '1', 2, NULL, 1), (1, repeat('é', 1024) || 'x', 2, '1', 3, '4', 1, NULL, 1);
    INSERT INTO claims.claim_leases (uuid, creator_id, payload) VALUES ('$(lease 1)', 1, '{\"create_records\": [$(claim coming 2)], \"destroy_records\": [$(bucket going)]}');
    INSERT INTO claims.lease_outcomes (lease_uuid, creator_id, outcome) VALUES ('$(lease 2)', 1, 'committed'), ('$(lease 3)', 1, 'rolled_back')"
  sql "$1" "UPDATE claims.claim_leases SET payload = jsonb_set(payload, '{create_records,0,source}', '{\"type\": \"RAILS_TABLE_ROUTES\", \"rails_primary_key_id\": \"2\"}')"
}
