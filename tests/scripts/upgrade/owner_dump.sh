#!/usr/bin/env bash
# The owner of the database, who is no superuser, dumps it in the ways that docs/operations.md gives. check() says when it cannot.
. "$(dirname "$0")/../common.bash"

fresh_database script_owner_dump
sql "DROP ROLE IF EXISTS script_dump_owner; CREATE ROLE script_dump_owner LOGIN; ALTER DATABASE script_owner_dump OWNER TO script_dump_owner"
sql "CREATE TABLE users (id bigserial PRIMARY KEY, username text UNIQUE); ALTER TABLE users OWNER TO script_dump_owner"
sql "SELECT claims.claim_attribute('users', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS')" >/dev/null
have 1 gitlab
problems() { sql "SELECT coalesce(string_agg(problem, ', '), 'none') FROM claims.check()"; }
dump() { PGUSER=script_dump_owner "$CLAIMS_BINDIR/pg_dump" "$@" script_owner_dump 2>&1; }

# PostgreSQL 18 has another message, and reads no sequence for a structure.
expect 'it may not read the tables' "$(dump | grep -cE 'permission denied|failed to get data for sequence')" 1
expect 'up to 17 a structure needs that, too' "$(dump --schema-only | grep -c 'permission denied')" "$([ "$PG_MAJOR" -ge 18 ] && echo 0 || echo 1)"
expect 'check() says so, and counts no violation' "$(problems)" 'owner of the database cannot dump it'
structure=$(dump --schema-only --exclude-schema=claims)
expect 'without the schema it needs no grant' "$(grep -c 'CREATE EXTENSION\|CREATE TABLE public.users\|CREATE TRIGGER claims_capture' <<<"$structure") $(grep -c gitlab <<<"$structure")" '3 0'
sql postgres 'DROP DATABASE IF EXISTS script_owner_dump_2'
sql postgres "CREATE DATABASE script_owner_dump_2 ENCODING 'UTF8' TEMPLATE template0"
PGDATABASE=script_owner_dump_2 psql -XqAt -v ON_ERROR_STOP=1 <<<"$structure" >/dev/null
expect 'it can be loaded' "$(PGDATABASE=script_owner_dump_2 sql 'SELECT count(*) FROM users')" 0
sql 'GRANT pg_read_all_data TO script_dump_owner'
expect 'the one grant' "$(dump | grep -c gitlab) $(problems)" '1 none'
export PGDATABASE=postgres
sql 'DROP DATABASE script_owner_dump'
sql 'DROP DATABASE script_owner_dump_2'
sql 'DROP ROLE script_dump_owner'
