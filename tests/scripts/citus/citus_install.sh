#!/usr/bin/env bash
# docs/operations.md, With Citus, as it stands: an owner without LOGIN cannot create the extension in a cluster of several nodes, one with LOGIN can, and nobody but the nodes
# logs in as it.
. "$(dirname "$0")/../citus.bash"
. "$(dirname "$0")/../documented.bash"

citus_cluster 1
# said: what the first error of a recipe is, statement by statement as a reader executes it; nothing where there is none.
said() { psql -XqAt -v ON_ERROR_STOP=1 -v VERBOSITY=verbose <<<"$1" 2>&1 | sed -nE 's/^ERROR: +([0-9A-Z]{5}): .*FATAL: +(.*)/\1 \2/p; t; s/^ERROR: +//p'; }
plain() { steps docs/operations.md Installing | sed -n '1,/NOSUPERUSER/p'; }
expect 'without LOGIN' "$(said "$(plain)")" '08006 role "claims_owner" is not permitted to log in'
expect 'nothing is created' "$(sql "SELECT count(*) FROM pg_extension WHERE extname = 'claims'"; on_worker 1; sql "SELECT count(*) FROM pg_extension WHERE extname = 'claims'")" $'0\n0'
on_coordinator
sql 'DROP ROLE IF EXISTS claims_owner'
first=$(python3 -B "$CLAIMS_ROOT/tests/scripts/repository/documents/spans.py" "$CLAIMS_ROOT" docs/operations.md '### With Citus' | sed -n 1p)
expect 'with LOGIN' "$(said "$first $(plain | sed 1d)")" ''
for node in coordinator worker1; do
  expect "$node: the owner" "$(on_node "$node"; sql "SELECT r.rolname, rolsuper, rolcanlogin, (SELECT rolpassword IS NULL FROM pg_authid a WHERE a.oid = r.oid) FROM pg_roles r JOIN pg_namespace n ON n.nspowner = r.oid WHERE nspname = 'claims'")" 'claims_owner|f|t|t'
  expect "$node: nobody logs in as it from elsewhere" "$(on_node "$node"; PGHOST=127.0.0.1 PGUSER=claims_owner PGPASSWORD=x psql -XAt -c 'SELECT 1' 2>&1 | grep -o 'password authentication failed' | sort -u)" 'password authentication failed'
done
on_coordinator
expect 'an administrator distributes' "$(sql 'CREATE ROLE script_claims_admin LOGIN IN ROLE claims_owner'; PGUSER=script_claims_admin sql "SELECT claims.distribute(4, 'a test')" 2>/dev/null)" 4
expect 'check()' "$(sql 'SELECT count(*) FROM claims.check()')" 0

# A role that was made without it.
on_coordinator
sql 'DROP EXTENSION claims CASCADE' 2>/dev/null
sql 'ALTER ROLE claims_owner NOLOGIN SUPERUSER'
again=$(plain | sed 1d)
expect 'without LOGIN again' "$(said "$again")" '08006 role "claims_owner" is not permitted to log in'
sql 'ALTER ROLE claims_owner SUPERUSER; ALTER ROLE claims_owner LOGIN'
expect 'with LOGIN it does' "$(said "$again")" ''
expect 'check() again' "$(sql 'SELECT count(*) FROM claims.check()')" 0
