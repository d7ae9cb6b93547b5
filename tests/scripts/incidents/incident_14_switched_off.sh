#!/usr/bin/env bash
# Claims are switched off in an emergency: the service is gone, or the extension itself fails. Saves go through, and afterwards all names are claimed
# that no other cell has claimed meanwhile. Commands and roles are those of docs/runbook.md.
. "$(dirname "$0")/../cells.bash"
. "$(dirname "$0")/../documented.bash"

start_documented
trap cleanup EXIT
section='Switched off in an emergency'
saves() { state_as app "$1" "INSERT INTO routes (path) VALUES ('$2')"; }
owner() { as claims_admin service "SELECT coalesce((SELECT cell_id::text FROM claims.get_record('ROUTES', '$1')), 'nobody')"; }
# missing|different|extra|corrected|held_by_other
counts() { cut -d'|' -f 2-6; }
expect 'a save' "$(saves cell1 before)" 00000

# --- the service is gone -----------------------------------------------------------------------------------------------

# One whose lease was begun, and that is not committed yet.
as app cell1 "BEGIN; INSERT INTO routes (path) VALUES ('begun-before'); PREPARE TRANSACTION 'open'"
expect 'its lease is outstanding' "$(as monitor service 'SELECT count(*) FROM claims.leases')" 1
halt shared
off=$(in_document "$section" 'Act 1' | cut -f 3)
export off
expect 'an open session notices both' "$( (in_place cell1; PGUSER=app psql -XqAt -v VERBOSITY=sqlstate 2>&1 <<'EOS'
INSERT INTO routes (path) VALUES ('refused');
\! psql -XqAt -c "$off" -U app
INSERT INTO routes (path) VALUES ('kept');
EOS
) | tr -d '\n')" 'ERROR:  08001'
expect 'what is claimed' "$(follow "$section" Look | cut -d'|' -f 1,2)" 'routes|path'
expect 'new sessions save, too' "$(saves cell1 contested) $(state_as app cell1 "UPDATE routes SET path = 'after' WHERE path = 'before'")" '00000 00000'
expect 'and so does what was begun before' "$(state_as app cell1 "COMMIT PREPARED 'open'")" 00000
expect 'only this cell is switched off' "$(saves cell2 nothing)" 08001

restart_cluster shared
left() { as monitor service 'SELECT count(*) FROM claims.leases'; }
expect 'what was leased before is settled as ever' "$(wait_for 0 left) $(owner begun-before)" '0 1'
expect 'what was saved since is not claimed' "$(owner kept) $(owner contested) $(owner after) $(owner before)" 'nobody nobody nobody 1'
expect 'another cell may have it' "$(saves cell2 contested) $(owner contested)" '00000 2'
follow "$section" 'Act 4' >/dev/null
expect 'it is on again' "$(saves cell1 again) $(owner again)" '00000 1'
# 'before' is the claim of a row that has another name: a difference of two, one name too many and one too few.
expect 'what is free is claimed, and told what is not' "$(follow "$section" 'Act 5' | counts | cut -d'|' -f 5) $(owner kept) $(owner after) $(owner before) $(owner contested)" '1 1 1 nobody 2'
as app cell1 "UPDATE routes SET path = 'contested-1' WHERE path = 'contested'"
expect 'nothing is left' "$(follow "$section" Check | counts)" '0|0|0|0|0'

# --- the extension fails -------------------------------------------------------------------------------------------------

as app cell1 'SELECT 1' >/dev/null
expect 'the owner of the table takes its trigger away' "$(follow "$section" 'Act 2' '' lock_timeout) $(saves cell1 past) $(owner past)" ' 00000 nobody'
follow "$section" 'Act 3' >/dev/null
expect 'claim_attribute would not have put it back' "$(saves cell1 captured) $(owner captured)" '00000 1'
expect 'what went past is claimed afterwards' "$(follow "$section" 'Act 5' | counts) $(owner past)" '1|0|0|1|0 1'
expect 'nothing is left of that' "$(follow "$section" Check | counts)" '0|0|0|0|0'

# The library cannot be loaded: no function of it can be called, nor can its event triggers.
as postgres cell1 "CREATE TABLE libraries AS SELECT oid AS function, probin FROM pg_proc WHERE pronamespace = 'claims'::regnamespace AND probin IS NOT NULL;
  UPDATE pg_proc SET probin = '\$libdir/claims-is-gone' WHERE pronamespace = 'claims'::regnamespace AND probin IS NOT NULL"
expect 'every save fails' "$(saves cell1 impossible)" 58P01
expect 'the owner of the table can do nothing' "$( (follow "$section" 'Act 2' '' lock_timeout 2>&1 || true) | grep -c 'claims-is-gone')" 1
follow "$section" 'Act 2' '' session_replication_role >/dev/null
expect 'a superuser can' "$(saves cell1 possible)" 00000
as postgres cell1 "UPDATE pg_proc SET probin = l.probin FROM libraries l WHERE pg_proc.oid = l.function; DROP TABLE libraries"
follow "$section" 'Act 3' >/dev/null
follow "$section" 'Act 4' >/dev/null
expect 'what went past is claimed afterwards' "$(follow "$section" 'Act 5' | counts) $(owner possible)" '1|0|0|1|0 1'
expect 'a save is claimed again' "$(saves cell1 last) $(owner last)" '00000 1'
expect 'nothing is left' "$(follow "$section" Check | counts)" '0|0|0|0|0'
expect 'check' "$(as monitor service 'SELECT count(*) FROM claims.check()') $(as monitor cell1 'SELECT count(*) FROM claims.check()')" '0 0'
