#!/usr/bin/env bash
# The extension's owner is no superuser any more: everything works, and that role cannot become a superuser.
. "$(dirname "$0")/../common.bash"

db=script_owner
sql postgres "DROP DATABASE IF EXISTS $db"
sql postgres 'DROP ROLE IF EXISTS script_claims_owner'
sql postgres "CREATE ROLE script_claims_owner SUPERUSER LOGIN"
sql postgres "CREATE DATABASE $db ENCODING 'UTF8' TEMPLATE template0"
export PGDATABASE=$db
fresh_roles
PGUSER=script_claims_owner sql "CREATE EXTENSION claims"
sql "ALTER ROLE script_claims_owner NOSUPERUSER"
sql "GRANT CREATE ON SCHEMA public TO script_claims_one"
as_owner() { PGUSER=script_claims_owner sql "$@"; }
as_cell() { PGUSER=script_claims_one sql "$@"; }
as_owner "SELECT claims.register_cell(1, 'script_claims_one')" >/dev/null
as_owner "SELECT claims.grant_worker('script_claims_one')" >/dev/null

# what needs rights on a table, for a table's owner who is no administrator
as_cell "CREATE TABLE public.users (id bigint PRIMARY KEY, username text) PARTITION BY RANGE (id)"
as_cell "SELECT claims.claim_attribute('public.users', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS')" >/dev/null 2>&1
as_cell "SELECT claims.capture_requests('public.users', 'q', 'username')" >/dev/null
as_cell "CREATE TABLE public.low PARTITION OF public.users FOR VALUES FROM (0) TO (10)"
expect 'a partition that came later is captured' "$(as_cell "INSERT INTO public.users VALUES (1, 'x'); SELECT count(*) FROM claims.take_requests('q', gen_random_uuid())")" 1
expect 'and refuses TRUNCATE' "$(PGUSER=script_claims_one sqlstate 'TRUNCATE public.low')" 55000
expect 'a repetition' "$(PGUSER=script_claims_one sqlstate "SELECT claims.capture_requests('public.users', 'q', 'username')")" 00000

# these run with the rights of superusers, too: only superusers may replace them
for function in complete_triggers:event_trigger forget_dropped_tables:event_trigger refuse_unrecorded_truncate:trigger; do
  result=${function#*:} function=${function%:*}
  expect "$function cannot be replaced" \
    "$(PGUSER=script_claims_owner sqlstate "CREATE OR REPLACE FUNCTION claims.$function() RETURNS $result LANGUAGE plpgsql AS 'BEGIN ALTER ROLE script_claims_owner SUPERUSER; END'")" 42501
done
expect 'nor the validator of the wrapper, which runs for whoever creates a server' \
  "$(PGUSER=script_claims_owner sqlstate "CREATE OR REPLACE FUNCTION claims.service_validator(options text[], catalog oid) RETURNS void LANGUAGE plpgsql AS 'BEGIN ALTER ROLE script_claims_owner SUPERUSER; END'")" 42501
# a function that existed before: the owner of the schema could create another one in its place
as_owner "CREATE FUNCTION claims.add_capture_triggers(table_name regclass) RETURNS void LANGUAGE plpgsql AS 'BEGIN ALTER ROLE script_claims_owner SUPERUSER; END'"
as_owner "SELECT claims.change_capture_triggers('public.users'::regclass, true)" >/dev/null
expect 'no other function is called as a superuser' "$(sql "SELECT rolsuper FROM pg_roles WHERE rolname = 'script_claims_owner'")" f
# after pg_upgrade the extension belongs to the superuser that ran it, and everything in it still to its owner
sql "UPDATE pg_extension SET extowner = 10 WHERE extname = 'claims'"
# the tables that an event trigger changes belong to the extension's owner, who may put triggers on them
as_owner "CREATE FUNCTION claims.evil() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN ALTER ROLE script_claims_owner SUPERUSER; RETURN NULL; END'"
as_owner "CREATE TRIGGER evil AFTER DELETE ON claims.claimed_attributes FOR EACH STATEMENT EXECUTE FUNCTION claims.evil()"
sql 'DROP TABLE public.users' >/dev/null 2>&1 || true
expect 'nobody became a superuser' "$(sql "SELECT rolsuper FROM pg_roles WHERE rolname = 'script_claims_owner'")" f
as_owner "DROP TRIGGER evil ON claims.claimed_attributes; DROP FUNCTION claims.evil()"
as_cell "CREATE TABLE IF NOT EXISTS public.plain (id bigint PRIMARY KEY, username text UNIQUE)"
as_cell "SELECT claims.capture_requests('public.plain', 'q', 'id')" >/dev/null
as_cell "SELECT claims.uncapture_requests('public.plain', 'q')" >/dev/null
expect 'the end of a capture' "$(sql "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'public.plain'::regclass")" 0
expect 'still nobody' "$(sql "SELECT rolsuper FROM pg_roles WHERE rolname = 'script_claims_owner'")" f
# another schema of that name, with functions that an event trigger would call with everybody's rights
sql "GRANT CREATE ON DATABASE $db TO script_claims_owner; DROP TABLE IF EXISTS public.users"
expect 'nothing is captured any more' "$(sql 'SELECT count(*) FROM pg_event_trigger')" 0
as_owner "ALTER SCHEMA claims RENAME TO away; CREATE SCHEMA claims; CREATE TABLE claims.audiences ();
          CREATE FUNCTION claims.capture_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
          CREATE FUNCTION claims.refuse_truncate() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
          CREATE FUNCTION claims.complete_triggers() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN ALTER ROLE script_claims_owner SUPERUSER; END';
          CREATE FUNCTION claims.forget_dropped_tables() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN ALTER ROLE script_claims_owner SUPERUSER; END'"
expect 'no event trigger calls them' "$(PGUSER=script_claims_owner sqlstate "SELECT away.change_capture_triggers('public.plain'::regclass, true)") $(sql 'SELECT count(*) FROM pg_event_trigger')" '55000 0'
sql 'CREATE TABLE public.any (id int); DROP TABLE public.any'
expect 'nobody at all' "$(sql "SELECT rolsuper FROM pg_roles WHERE rolname = 'script_claims_owner'")" f
export PGDATABASE=postgres
sql "DROP DATABASE $db"
sql 'DROP ROLE script_claims_owner'
