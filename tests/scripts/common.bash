# Shared by the tests in this directory: sourced, never run.
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

[ -n "${PGHOST:-}" ] || start_cluster scripts --fast

# A fresh database of that name with the extension, and two cells. Roles are the cluster's: they may be there already.
fresh_database() {
  sql postgres "DROP DATABASE IF EXISTS $1" 2>/dev/null
  sql postgres "CREATE DATABASE $1 ENCODING 'UTF8' TEMPLATE template0"
  export PGDATABASE=$1
  sql "CREATE EXTENSION claims"
  fresh_roles
  sql "SELECT claims.register_cell(1, 'script_claims_one', 'one', 'https://one.example')" >/dev/null
  sql "SELECT claims.register_cell(2, 'script_claims_two', 'two', NULL)" >/dev/null
}

fresh_roles() {
  sql "DO \$\$ DECLARE r text; BEGIN FOREACH r IN ARRAY ARRAY['script_claims_one', 'script_claims_two', 'script_claims_router'] LOOP
         IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = r) THEN EXECUTE format('CREATE ROLE %I LOGIN', r); END IF; END LOOP; END \$\$"
}

# claim VALUE [ID]: one claim to create, as JSON. bucket VALUE: one to destroy.
claim() { printf '{"bucket": {"type": "ROUTES", "value": "%s"}, "subject": {"type": "GROUP", "id": %s}, "source": {"type": "RAILS_TABLE_ROUTES", "id": %s}}' "$1" "${2:-1}" "${2:-1}"; }
bucket() { printf '{"bucket": {"type": "ROUTES", "value": "%s"}}' "$1"; }
# have CELL VALUE...: active claims.
have() {
  local cell=$1 value list=
  shift
  for value in "$@"; do list="$list${list:+, }$(claim "$value")"; done
  sql "SELECT claims.commit_update($cell, claims.begin_update($cell, '[$list]'))" >/dev/null
}
# lease N: a fixed uuid.
lease() { printf '00000000-0000-4000-8000-%012d' "$1"; }
