#!/usr/bin/env bash
# docs/operations.md, Installing, as it stands: in a server that has never heard of claims, and in another database of a server that has the role already. The owner
# is no superuser, and nobody logs in as it.
. "$(dirname "$0")/../documented.bash"

start_cluster installed --fast
trap cleanup EXIT
# The commands, one database after the other: where the role is there, with the other first line.
recipe() { steps docs/operations.md Installing | sed -n '1,/NOSUPERUSER/p'; }
administrator() { steps docs/operations.md Installing | sed -n '/^CREATE ROLE claims_admin/,/^GRANT/p'; }
other_first_line() { sed '1s/.*/ALTER ROLE claims_owner SUPERUSER;/'; }
for number in 1 2 3; do sql postgres "CREATE DATABASE names$number ENCODING 'UTF8' TEMPLATE template0"; done

expect 'the recipe' "$(sqlstate names1 "$(recipe)")" 00000
expect 'an administrator' "$(sqlstate names1 "$(administrator)")" 00000
expect 'is not repeated in another database' "$(sqlstate names2 "$(recipe)")" 42710
expect 'but with the other first line' "$(sqlstate names3 "$(recipe | other_first_line)")" 00000
for number in 1 3; do
  expect "database $number: the owner" "$(sql "names$number" "SELECT r.rolname, rolsuper, rolcanlogin FROM pg_roles r JOIN pg_namespace n ON n.nspowner = r.oid WHERE nspname = 'claims'")" 'claims_owner|f|f'
  expect "database $number: the administrator" "$(PGUSER=claims_admin sql "names$number" "SELECT current_setting('is_superuser'), count(*) FROM claims.list_leases(NULL)")" 'off|0'
done
expect 'nobody logs in as the owner' "$(PGUSER=claims_owner sqlstate names1 'SELECT 1'; PGUSER=claims_owner psql -XAt -d names1 -c 'SELECT 1' 2>&1 | grep -o 'is not permitted to log in')" $'00000\nis not permitted to log in'
