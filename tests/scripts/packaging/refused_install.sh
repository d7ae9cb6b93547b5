#!/usr/bin/env bash
# CREATE EXTENSION fails if a schema `claims` exists, and in a database that is not UTF-8; it leaves nothing behind.
. "$(dirname "$0")/../common.bash"

for encoding in SQL_ASCII LATIN1 EUC_JP; do
  db=script_enc_$(tr '[:upper:]' '[:lower:]' <<<"$encoding")
  sql postgres "DROP DATABASE IF EXISTS $db" 2>/dev/null
  sql postgres "CREATE DATABASE $db ENCODING '$encoding' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
  state=$(sqlstate "$db" 'CREATE EXTENSION claims')
  [ "$state" != 00000 ] && [ "$state" != XX000 ] || { echo "FAILED: $encoding was answered with $state" >&2; exit 1; }
  echo "ok: $encoding is refused with $state"
  message=$(psql -XqAt -d "$db" -c 'CREATE EXTENSION claims' 2>&1 || true)
  expect "the message for $encoding says why" "$(grep -c 'UTF-\?8' <<<"$message" | sed 's/[1-9]/1/')" 1
  expect "nothing is left in $encoding" "$(sql "$db" "SELECT (SELECT count(*) FROM pg_namespace WHERE nspname = 'claims') + (SELECT count(*) FROM pg_extension WHERE extname = 'claims')")" 0
  sql postgres "DROP DATABASE $db"
done

sql postgres 'DROP DATABASE IF EXISTS script_schema' 2>/dev/null
sql postgres "CREATE DATABASE script_schema ENCODING 'UTF8' TEMPLATE template0"
sql script_schema 'CREATE SCHEMA claims; CREATE TABLE claims.mine (x int)'
expect 'a schema that was there' "$(sqlstate script_schema 'CREATE EXTENSION claims')" 42P06
expect 'also asked for by name' "$(sqlstate script_schema 'CREATE EXTENSION claims SCHEMA claims')" 0A000
expect 'also with IF NOT EXISTS' "$(sqlstate script_schema 'CREATE EXTENSION IF NOT EXISTS claims')" 42P06
expect 'also with CASCADE' "$(sqlstate script_schema 'CREATE EXTENSION claims CASCADE')" 42P06
expect 'what was in it is there' "$(sql script_schema 'SELECT count(*) FROM claims.mine')" 0
sql script_schema 'DROP TABLE claims.mine'
expect 'an empty one too' "$(sqlstate script_schema 'CREATE EXTENSION claims')" 42P06
sql script_schema 'DROP SCHEMA claims'
expect 'without it' "$(sqlstate script_schema 'CREATE EXTENSION claims')" 00000
expect 'it cannot be moved' "$(sqlstate script_schema 'ALTER EXTENSION claims SET SCHEMA public')" 0A000
expect 'its schema cannot be dropped alone' "$(sqlstate script_schema 'DROP SCHEMA claims CASCADE')" 2BP01
sql script_schema 'DROP SCHEMA public CASCADE'
expect 'it does not live in public' "$(sql script_schema "SELECT count(*) FROM pg_extension WHERE extname = 'claims'")" 1
# not trusted: the owner of a database who is no superuser cannot install it
sql postgres 'DROP ROLE IF EXISTS script_claims_dbowner' 2>/dev/null
sql postgres 'CREATE ROLE script_claims_dbowner LOGIN'
sql script_schema 'DROP EXTENSION claims'
sql postgres 'ALTER DATABASE script_schema OWNER TO script_claims_dbowner'
expect 'it is not trusted' "$(PGUSER=script_claims_dbowner sqlstate script_schema 'CREATE EXTENSION claims')" 42501
sql postgres 'DROP DATABASE script_schema'
sql postgres 'DROP ROLE script_claims_dbowner'

# an old setting that changes how a string constant is read
sql postgres 'DROP DATABASE IF EXISTS script_strings' 2>/dev/null
sql postgres "CREATE DATABASE script_strings ENCODING 'UTF8' TEMPLATE template0"
expect 'installs whatever standard_conforming_strings is' "$(psql -Xq -v ON_ERROR_STOP=1 -d script_strings -c 'SET standard_conforming_strings = off' -c 'CREATE EXTENSION claims' >/dev/null 2>&1 && echo yes)" yes
sql postgres 'DROP DATABASE script_strings'

# default privileges that a database administrator has set grant nothing here
sql postgres 'DROP DATABASE IF EXISTS script_defaults' 2>/dev/null
sql postgres "CREATE DATABASE script_defaults ENCODING 'UTF8' TEMPLATE template0"
sql postgres 'DROP ROLE IF EXISTS script_claims_cell' 2>/dev/null
sql postgres 'CREATE ROLE script_claims_cell LOGIN'
for what in TABLES SEQUENCES FUNCTIONS TYPES SCHEMAS; do sql script_defaults "ALTER DEFAULT PRIVILEGES GRANT ALL ON $what TO script_claims_cell WITH GRANT OPTION"; done
sql script_defaults 'CREATE EXTENSION claims'
expect 'default privileges: nobody but the owner has a right' "$(sql script_defaults "
  SELECT count(*) FROM (SELECT relacl FROM pg_class WHERE relnamespace = 'claims'::regnamespace
                        UNION ALL SELECT proacl FROM pg_proc WHERE pronamespace = 'claims'::regnamespace
                        UNION ALL SELECT nspacl FROM pg_namespace WHERE nspname = 'claims'
                        UNION ALL SELECT typacl FROM pg_type WHERE typnamespace = 'claims'::regnamespace) x (acl), aclexplode(acl) a
   WHERE a.grantee = 'script_claims_cell'::regrole")" 0
sql script_defaults "SELECT claims.register_cell(1, 'script_claims_cell')" >/dev/null
expect 'default privileges: a cell cannot make itself another one' "$(PGUSER=script_claims_cell sqlstate script_defaults "INSERT INTO claims.cells VALUES (2, 'script_claims_cell')")" 42501
sql postgres 'DROP DATABASE script_defaults'
sql postgres 'DROP ROLE script_claims_cell'
