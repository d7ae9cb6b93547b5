#!/usr/bin/env bash
# The errors of saves whose names are taken or leased elsewhere: SQLSTATE, message, DETAIL and fields, as drivers and frameworks read them.
. "$(dirname "$0")/../cells.bash"

start_cells
at cell1 "CREATE TABLE app_users (id bigint PRIMARY KEY, username text UNIQUE, \"Nick\" text UNIQUE);
  GRANT ALL ON app_users TO app;
  SELECT claims.claim_attribute('app_users', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', constraint_name => 'users_username_claim'),
         claims.claim_attribute('app_users', 'Nick', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS');
  SELECT claims.automatic(1, 'service')" >/dev/null
# Another cell has two names, and a lease holds a third one.
username() { printf '[{"bucket":{"type":"USERNAMES","value":"%s"},"subject":{"type":"USER","id":1},"source":{"type":"RAILS_TABLE_USERS","rails_primary_key_id":1}}]' "$1"; }
for name in ada bob; do as_cell 2 "SELECT claims.commit_update(2, claims.begin_update(2, '$(username $name)'))" >/dev/null; done
as_cell 2 "SELECT claims.begin_update(2, '$(username leased)')" >/dev/null

# error_of SQL: all fields of the errors of the application's statements, without the place in the source.
error_of() {
  ( use_cluster cell1; export PGUSER=app
    psql -XqAt -v VERBOSITY=verbose 2>&1 >/dev/null <<<"$1" | sed -E '/^LOCATION:/d; s/^psql:[^ ]* //; s/("lease_age_seconds":)[0-9.]+/\1<age>/g; s/,"waited_seconds":[0-9.]+//g') || true
}
conflict() { printf '{"op":"create","bucket":{"type":"USERNAMES","value":"%s"},"reason":"%s","retryable":%s,"holder_cell_id":%s,"lease_age_seconds":%s}' "$@"; }
ada=$(conflict ada taken false 2 null)
bob=$(conflict bob taken false 2 null)
leased=$(conflict leased leased true 2 '<age>')
# violation CONSTRAINT COLUMN KEY VALUE CONFLICTS
violation() {
  cat <<END
ERROR:  23505: duplicate key value violates unique constraint "$1"
DETAIL:  Key ($3)=($4) already exists.
[$5]
HINT:  The name is taken: choose another one.
CONTEXT:  error of claims service "service"
SCHEMA NAME:  public
TABLE NAME:  app_users
COLUMN NAME:  $2
CONSTRAINT NAME:  $1
END
}
taken=$(violation users_username_claim username username ada "$ada")

expect 'one row' "$(error_of "INSERT INTO app_users VALUES (1, 'ada')")" "$taken"
expect 'many rows, the last of which is taken' \
  "$(error_of "INSERT INTO app_users SELECT n, CASE n WHEN 2000 THEN 'ada' ELSE 'many' || n END FROM generate_series(1, 2000) n")" "$taken"
expect 'at COMMIT' "$(error_of "BEGIN; INSERT INTO app_users VALUES (1, 'ada'); COMMIT")" "$taken"
expect 'PREPARE TRANSACTION' "$(error_of "BEGIN; INSERT INTO app_users VALUES (1, 'ada'); PREPARE TRANSACTION 'x'")" "$taken"
expect 'COPY' "$(error_of "$(printf 'COPY app_users FROM stdin;\n1\tada\t\\N\n2\tfree\t\\N\n\\.\n')")" "$taken"
expect 'UPDATE' "$(error_of "INSERT INTO app_users VALUES (1, 'one'); UPDATE app_users SET username = 'ada'; ")" "$taken"
at cell1 'DELETE FROM app_users' >/dev/null
expect 'by SET CONSTRAINTS' "$(error_of "BEGIN; INSERT INTO app_users VALUES (1, 'ada'); SET CONSTRAINTS ALL IMMEDIATE; COMMIT")" "$taken"
expect 'after SET CONSTRAINTS' "$(error_of "BEGIN; SET CONSTRAINTS ALL IMMEDIATE; INSERT INTO app_users VALUES (1, 'ada'); COMMIT")" "$taken"
expect 'begin_pending' "$(error_of "BEGIN; INSERT INTO app_users VALUES (1, 'ada'); SELECT claims.begin_pending(1, 'service'); COMMIT")" "$taken"
expect 'another column of the type, whose name needs quotes' "$(error_of "INSERT INTO app_users VALUES (1, 'free', 'bob')")" \
  "$(violation app_users_Nick_claim Nick '"Nick"' bob "$bob")"
expect 'several conflicts: the weightiest' "$(error_of "INSERT INTO app_users VALUES (1, 'leased', 'bob')")" \
  "$(violation app_users_Nick_claim Nick '"Nick"' bob "$bob,$leased")"
expect 'temporary' "$(error_of "INSERT INTO app_users VALUES (1, 'leased')")" "ERROR:  55P03: could not claim one bucket of the batch
DETAIL:  [$leased]
HINT:  Another lease holds the claim: try again when it is settled, or recover it if it is this cell's own.
CONTEXT:  error of claims service \"service\"
SCHEMA NAME:  public
TABLE NAME:  app_users
COLUMN NAME:  username
CONSTRAINT NAME:  users_username_claim"
at cell1 'ALTER TABLE app_users DROP CONSTRAINT app_users_username_key' >/dev/null
expect 'two rows of this database' "$(error_of "INSERT INTO app_users VALUES (1, 'two'), (2, 'two')")" \
"ERROR:  23505: duplicate key value violates unique constraint \"users_username_claim\"
DETAIL:  Key (username)=(two) already exists.
[$(conflict two taken false 1 null)]
HINT:  Several rows of this database have it: have a unique index on the column.
SCHEMA NAME:  public
TABLE NAME:  app_users
COLUMN NAME:  username
CONSTRAINT NAME:  users_username_claim"

# A partitioned table: the error names the table that was declared, whichever partition the row is in.
at cell1 "CREATE TABLE parts (id bigint, region text, username text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
  CREATE TABLE parts_eu PARTITION OF parts FOR VALUES IN ('eu'); GRANT ALL ON parts, parts_eu TO app;
  SELECT claims.claim_attribute('parts', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', 'id')" >/dev/null 2>&1
of_parts=$(violation parts_username_claim username username ada "$ada" | sed 's/^TABLE NAME:.*/TABLE NAME:  parts/')
expect 'a partitioned table' "$(error_of "INSERT INTO parts VALUES (1, 'eu', 'ada')")" "$of_parts"
expect 'a partition' "$(error_of "INSERT INTO parts_eu VALUES (1, 'eu', 'ada')")" "$of_parts"
# Several declarations of a column: the error names the one that holds.
at cell1 "CREATE TABLE many (id bigint PRIMARY KEY, name text, kind text); GRANT ALL ON many TO app;
  SELECT claims.claim_attribute('many', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', condition => \$\$kind = 'user'\$\$, declaration => 'users'),
         claims.claim_attribute('many', 'name', 'USERNAMES', 'GROUP', 'id', 'RAILS_TABLE_USERS', condition => \$\$kind = 'group'\$\$, declaration => 'groups',
                                constraint_name => 'many_groups')" >/dev/null 2>&1
expect 'one declaration' "$(error_of "INSERT INTO many VALUES (1, 'ada', 'user')" | tail -3)" "$(printf 'TABLE NAME:  many\nCOLUMN NAME:  name\nCONSTRAINT NAME:  many_name_claim')"
expect 'and the other one' "$(error_of "INSERT INTO many VALUES (1, 'ada', 'group')" | tail -3)" "$(printf 'TABLE NAME:  many\nCOLUMN NAME:  name\nCONSTRAINT NAME:  many_groups')"
at cell1 'DROP TABLE parts, many' >/dev/null
# Savepoints: one that is rolled back takes its error along, and the save after it goes through.
expect 'in a savepoint' "$(error_of "BEGIN; SET CONSTRAINTS ALL IMMEDIATE; SAVEPOINT a; INSERT INTO app_users VALUES (30, 'ada'); ROLLBACK TO a; INSERT INTO app_users VALUES (30, 'saved'); COMMIT")" "$taken"
expect 'what follows it is saved' "$(at cell1 "SELECT username FROM app_users WHERE id = 30; DELETE FROM app_users WHERE id = 30")" saved

# Another error behind a refused one keeps nothing of it.
expect 'an error of the application' "$(error_of "BEGIN; INSERT INTO app_users VALUES (1, 'ada'); COMMIT; SELECT 1 / 0" | tail -1)" 'ERROR:  22012: division by zero'

# PL/pgSQL reads the fields, and the transaction continues.
expect 'in an exception block' "$(as_app 1 "BEGIN; SET CONSTRAINTS ALL IMMEDIATE;
  CREATE FUNCTION pg_temp.fields() RETURNS text LANGUAGE plpgsql AS \$\$ DECLARE s text; t text; c text; k text; BEGIN
    INSERT INTO app_users VALUES (1, 'ada'); EXCEPTION WHEN unique_violation THEN
    GET STACKED DIAGNOSTICS s = SCHEMA_NAME, t = TABLE_NAME, c = COLUMN_NAME, k = CONSTRAINT_NAME; RETURN concat_ws(' ', s, t, c, k); END \$\$;
  SELECT pg_temp.fields(); INSERT INTO app_users VALUES (1, 'free'); COMMIT")" 'public app_users username users_username_claim'

# last_conflicts(): of the last refused save only, for the role that saved.
last="SELECT table_name, attribute, bucket_type, bucket_value, source_id, reason, retryable, holder_cell_id, holder_cell_name FROM claims.last_conflicts() ORDER BY 4"
at cell1 "SELECT claims.register_cell(2, 'nobody_of_two', 'the second')" >/dev/null 2>&1 ||
  at cell1 "CREATE ROLE nobody_of_two; SELECT claims.register_cell(2, 'nobody_of_two', 'the second')" >/dev/null
sessions() { ( use_cluster cell1; psql -XqAt -v VERBOSITY=sqlstate <<<"$1" 2>/dev/null ) | paste -sd' ' || true; }
expect 'nothing before' "$(sessions "$last")" ''
expect 'after the ROLLBACK' "$(sessions "BEGIN; INSERT INTO app_users VALUES (7, 'leased', 'bob'); COMMIT; ROLLBACK; $last")" \
  'app_users|Nick|USERNAMES|bob|7|taken|f|2|the second app_users|username|USERNAMES|leased|7|leased|t|2|the second'
expect 'the last one only' "$(sessions "INSERT INTO app_users VALUES (7, 'ada'); INSERT INTO app_users VALUES (8, 'bob'); INSERT INTO app_users VALUES (8, 'fine'); $last")" \
  'app_users|username|USERNAMES|bob|8|taken|f|2|the second'
expect 'two rows of this database' "$(sessions "INSERT INTO app_users VALUES (17, 'two'), (18, 'two'); $last")" 'app_users|username|USERNAMES|two|17|taken|f|1|'
at cell1 'CREATE ROLE other; GRANT USAGE ON SCHEMA claims TO other; GRANT EXECUTE ON FUNCTION claims.last_conflicts() TO other' >/dev/null
expect 'another role' "$(sessions "INSERT INTO app_users VALUES (7, 'ada'); SET ROLE other; $last")" ''
expect 'a role without the grant' "$(sessions "CREATE ROLE none; SET ROLE none; $last; SELECT 'refused'")" 'refused'

# --- what frameworks read ---------------------------------------------------------------------------------------------
text=$(error_of "INSERT INTO app_users VALUES (901, 'ada')")
# Sequelize (query.js of its dialect postgres): the keys and values of a unique violation.
expect 'Sequelize' "$(node_like='Key \((.*?)\)=\((.*?)\)' perl -0ne '/$ENV{node_like}/ && print "$1 $2"' <<<"$text")" 'username ada'
# Ecto (Ecto.Adapters.Postgres.Connection): the field constraint_name of the error.
expect 'Ecto' "$(sed -n 's/^CONSTRAINT NAME:  //p' <<<"$text")" 'users_username_claim'
# ActiveRecord: the SQLSTATE; Prisma and Rails' own messages: the constraint in the message.
expect 'ActiveRecord' "$(perl -ne '/^ERROR:  (23505): .*unique constraint "(.*)"/ && print "$1 $2"' <<<"$text")" '23505 users_username_claim'
# Django (django.core.exceptions, through psycopg's diag): the SQLSTATE class 23 and diag.column_name.
expect 'Django' "$(sed -n 's/^COLUMN NAME:  //p' <<<"$text")" 'username'
# Programs: the last line of DETAIL is the JSON of all conflicts.
expect 'the JSON' "$(perl -0ne '/\nDETAIL:  .*\n(\[.*\])\n/ && print $1' <<<"$text")" "[$ada]"
