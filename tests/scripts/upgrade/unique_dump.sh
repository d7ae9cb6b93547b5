#!/usr/bin/env bash
# Unique columns in a database that was restored from a dump: in one step, with jobs, without data, and data alone. The values are refused and free as in
# the database that was dumped. Columns have other numbers, and are followed by these.
. "$(dirname "$0")/../common.bash"

source_db=script_unique_dump target_db=script_unique_restored
export PGDATABASE=postgres
sql "DROP DATABASE IF EXISTS $source_db" 2>/dev/null
sql "CREATE DATABASE $source_db ENCODING 'UTF8' TEMPLATE template0"
sql $source_db "CREATE EXTENSION claims; CREATE SCHEMA tenant;
  CREATE TABLE users (id int, gone text, email text, name text); ALTER TABLE users DROP COLUMN gone; CREATE TABLE tenant.guests (email text, name text);
  CREATE TABLE parts (gone text, day int, name text) PARTITION BY LIST (day); ALTER TABLE parts DROP COLUMN gone;
  CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1); CREATE TABLE parts_2 (name text, day int); ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES IN (2);
  CREATE TABLE parts_3 PARTITION OF parts FOR VALUES IN (3);
  SELECT claims.add_unique('emails', '{users, tenant.guests}', 'email'), claims.add_unique('names', '{users, tenant.guests, parts}', 'name');
  INSERT INTO users VALUES (1, 'ann', 'ann'); INSERT INTO parts VALUES (1, 'bob'), (2, 'cid'), (3, 'free')" >/dev/null
# Values that were given up, and whose claims are still there.
sql $source_db 'DROP TABLE parts_3'
pg_dump --dbname=$source_db --format=custom --file="$CLAIMS_TMP/unique.dump"

fresh_target() {
  sql "DROP DATABASE IF EXISTS $target_db" 2>/dev/null
  sql "CREATE DATABASE $target_db ENCODING 'UTF8' TEMPLATE template0"
}
restore() { pg_restore --exit-on-error "$@" --dbname=$target_db "$CLAIMS_TMP/unique.dump"; }
target() { sql $target_db "$1"; }
saves() { sqlstate $target_db "INSERT INTO $1"; }
check_target() {
  expect "$1: the uniques" "$(target 'SELECT string_agg(concat_ws($$ $$, name, table_names, column_name), $$; $$) FROM claims.uniques')" \
    'emails {tenant.guests,users} email; names {parts,tenant.guests,users} name'
  expect "$1: values that stand are refused" "$(saves "tenant.guests VALUES ('ann', 'dan')") $(saves "users VALUES (2, 'dan', 'bob')") $(saves "parts VALUES (1, 'cid')")" '23505 23505 23505'
  expect "$1: others are saved, also those that were given up" "$(saves "tenant.guests VALUES ('eve', 'free')") $(saves "parts VALUES (2, 'new')")" '00000 00000'
  expect "$1: values that are deleted are free" "$(target "DELETE FROM parts WHERE name = 'bob'; INSERT INTO users VALUES (3, 'gil', 'bob')"; saves "parts VALUES (1, 'bob')")" 23505
  expect "$1: partitions come and go" "$(target 'DROP TABLE parts_2; CREATE TABLE parts_4 PARTITION OF parts FOR VALUES IN (4)'; saves "parts VALUES (4, 'cid')") $(saves "parts VALUES (1, 'cid')")" '00000 23505'
  target 'ALTER TABLE users RENAME email TO address'
  expect "$1: a column that is renamed is followed" "$(saves "tenant.guests VALUES ('gil', 'hal')") $(target "SELECT string_agg(column_name, ' ' ORDER BY column_name) FROM claims.unique_members WHERE table_name = 'users'::regclass")" '23505 address name'
  target "ALTER TABLE users DROP COLUMN name, ADD COLUMN name text DEFAULT 'same'"
  expect "$1: and one that is dropped, whatever gets its name" "$(target "SELECT table_names FROM claims.uniques WHERE name = 'names'") $(saves "tenant.guests VALUES ('ida', 'bob')")" '{parts,tenant.guests} 00000'
  expect "$1: the next unique has another number" "$(target "SELECT claims.add_unique('more', '{users}', 'id')" >/dev/null; target 'SELECT count(DISTINCT type_id) FROM claims.unique_constraints')" 3
  expect "$1: check() finds nothing" "$(target 'SELECT count(*) FROM claims.check()')" 0
}

fresh_target
restore --single-transaction
check_target 'in one transaction'

fresh_target
restore --jobs=3
check_target 'with jobs'

# Only the structure: nothing is compared until the unique is added again.
fresh_target
restore --schema-only
expect 'without data there is no unique, and tables can be written' "$(target 'SELECT count(*) FROM claims.uniques') $(saves "tenant.guests VALUES ('ann', 'ann'), ('ann', 'dan')")" '0 00000'
expect 'check() finds nothing' "$(target 'SELECT count(*) FROM claims.check()')" 0
expect 'adding it finds what stands twice' "$(sqlstate $target_db "SELECT claims.add_unique('emails', '{users, tenant.guests}', 'email')")" 23505
target "DELETE FROM tenant.guests; SELECT claims.add_unique('emails', '{users, tenant.guests}', 'email')" >/dev/null
expect 'and values are compared from then on' "$(saves "users VALUES (1, 'ann', 'ann')") $(saves "tenant.guests VALUES ('ann', 'bob')")" '00000 23505'

# Data alone, without triggers. The first thing afterwards is a save; then a command that renames another column.
fresh_target
restore --schema-only
restore --data-only --disable-triggers
check_target 'data alone'
fresh_target
restore --schema-only
restore --data-only --disable-triggers --jobs=3
target 'ALTER TABLE users RENAME id TO number; ALTER TABLE users RENAME number TO id; DROP TABLE parts_2'
expect 'data alone, and a rename: every column is what it was' "$(target "SELECT string_agg(concat_ws(' ', table_name, column_name), ', ' ORDER BY table_name::text, column_name) FROM claims.unique_members")" \
  'parts name, tenant.guests email, tenant.guests name, users email, users name'
expect 'and compared' "$(saves "tenant.guests VALUES ('ann', 'dan')") $(saves "parts VALUES (1, 'ann')") $(saves "parts VALUES (1, 'cid')")" '23505 23505 00000'

# The first thing afterwards renames or drops the column itself, whose number is not known yet: nothing is saved without being compared.
for first in 'RENAME email TO address' 'DROP COLUMN email'; do
  fresh_target
  restore --schema-only
  restore --data-only --disable-triggers
  target "ALTER TABLE users $first"
  expect "data alone, and $first: no row of that table is saved" "$(saves "users VALUES (2)") $(saves "tenant.guests VALUES ('ann', 'dan')")" '42703 23505'
  case $first in
  RENAME*) target 'ALTER TABLE users RENAME address TO email' ;;
  DROP*) target "ALTER TABLE users ADD email text; SELECT claims.drop_unique('emails', 'test'), claims.add_unique('emails', '{users, tenant.guests}', 'email')" >/dev/null ;;
  esac
  expect 'until the column is there again' "$(saves "users (id, email) VALUES (2, 'eve')") $(saves "tenant.guests VALUES ('eve', 'dan')")" '00000 23505'
done

sql "DROP DATABASE $target_db"
sql "DROP DATABASE $source_db"
