#!/usr/bin/env bash
# Commands that documents have in their text, word for word: the audit of who is connected already, a new password without a gap, and the rights with
# which an administrator of a cell moves a customer's rows.
. "$(dirname "$0")/../documented.bash"

spans() { python3 -B "$CLAIMS_ROOT/tests/scripts/repository/documents/spans.py" "$CLAIMS_ROOT" "$@"; }
# nth NUMBER DOCUMENT BEGINNING: one of the commands.
nth() { spans "$2" "$3" | sed -n "$1p"; }
trap 'touch "$CLAIMS_TMP/stop"; cleanup' EXIT
start_documented
# A busy machine is no service that does not answer.
as postgres cell1 "ALTER DATABASE app SET claims.service_timeout = '20s'; ALTER DATABASE app SET claims.breaker_timeout = '20s'"
as app cell1 "INSERT INTO routes (path) VALUES ('alpha')"

# --- docs/service/history.md: sessions that are connected already -----------------------------------------------------------------

document=docs/service/history.md
connected() { as postgres service "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stays' AND datname = 'names'"; }
mkfifo "$CLAIMS_TMP/stays"
( in_place service; PGUSER=cell_1 PGAPPNAME=stays PGPASSWORD=$CELL_PASSWORD PGHOST=127.0.0.1 psql -Xq <"$CLAIMS_TMP/stays" >/dev/null 2>&1 ) &
exec {stays}>"$CLAIMS_TMP/stays"
expect 'a session is connected' "$(wait_for 1 connected)" 1
audit=$(steps $document Audit)
as postgres service "$audit"
expect 'whoever connects from now on is audited' "$(as postgres service 'SHOW claims.audit')" all
as postgres service "$(nth 1 $document 'Set it for the whole database')" >/dev/null
expect 'who was connected is not any more' "$(wait_for 0 connected)" 0
exec {stays}>&-
expect 'cells connect anew, and have rows' "$(wait_for 00000 state_as app cell1 "INSERT INTO routes (path) VALUES ('audited')") $(wait_for committed as claims_admin service "SELECT DISTINCT what FROM claims.audit_log WHERE 'audited' = ANY (bucket_values) AND what = 'committed'")" '00000 committed'

# --- docs/cell/first-steps.md: a new password without a gap --------------------------------------------------------------------------

document=docs/cell/first-steps.md paragraph='**A new password without a gap.**'
new=new$CELL_PASSWORD
# Each save is made by a session of its own, which connects to the service for it.
( n=0; while [ ! -e "$CLAIMS_TMP/stop" ]; do n=$((n + 1)); state_as app cell1 "INSERT INTO routes (path) VALUES ('save-$n')"; done ) >"$CLAIMS_TMP/saves" &
saver=$!
saved() { wc -l <"$CLAIMS_TMP/saves"; }
# more: until ten further saves have ended.
more() { local before; before=$(saved); wait_until eval "[ \$(saved) -ge $((before + 10)) ]"; }
more
as postgres service "$(nth 1 $document "$paragraph" | sed "s/'…'/'$new'/")"
more
(cd /tmp && as_server sh -c "echo 'shared.example:${CLUSTER_PORT[shared]}:names:cell_1b:$new' >>'$SECRETS/cell1/passfile'")
as postgres cell1 "$(nth 2 $document "$paragraph")"
connected_as() { as postgres service "SELECT count(*) FROM pg_stat_activity WHERE usename = '$1'"; }
expect 'no session of the old role is left' "$(wait_for 0 connected_as cell_1)" 0
as postgres service "$(nth 3 $document "$paragraph")"
more
touch "$CLAIMS_TMP/stop"; wait "$saver"
expect 'no save has failed' "$(grep -vc '^00000$' "$CLAIMS_TMP/saves")" 0
expect 'the old password is worth nothing' "$( (in_place service; PGUSER=cell_1 PGHOST=127.0.0.1 PGPASSWORD=$CELL_PASSWORD psql -Xqc 'SELECT 1' 2>&1) | grep -c 'not permitted to log in')" 1
expect 'these were all commands' "$(spans $document "$paragraph" | wc -l)" 3

# --- docs/runbook.md: a customer moves, by an administrator who is no superuser --------------------------------------------------------

transfer=00000000-0000-4000-8000-00000000000a FILL="s/…/00000000-0000-4000-8000-00000000000a/"
as app cell1 "INSERT INTO routes (namespace_id, path) VALUES (9970, 'moves')"
settled() { as claims_admin service 'SELECT count(*) FROM claims.leases'; }
wait_for 0 settled >/dev/null
copy="BEGIN; SELECT claims.skip_capture('they moved'); INSERT INTO routes (namespace_id, path) VALUES (9970, 'moves'); COMMIT"
delete="BEGIN; SELECT claims.skip_capture('they moved'); DELETE FROM routes WHERE namespace_id = 9970; COMMIT"
expect 'without the rights an administrator cannot' "$(state_as claims_admin cell2 "$copy") $(state_as claims_admin cell1 "$delete")" '42501 42501'
for cell in cell1 cell2; do follow 'A customer moves' Rights $cell >/dev/null; done
follow 'A customer moves' 'Act 1' >/dev/null
progress() { as monitor service "SELECT state, held, moved FROM claims.transfers WHERE transfer_uuid = '$transfer'"; }
expect 'the view shows how far the transfer is' "$(progress)" 'prepared|1|0'
as claims_admin cell2 "$copy" >/dev/null
follow 'A customer moves' 'Act 3' cell1 switch_transfer >/dev/null
as claims_admin cell1 "$delete" >/dev/null
follow 'A customer moves' 'Act 5' >/dev/null
expect 'to the end' "$(progress)" 'finished|0|1'
expect 'the customer has moved' "$(as app cell1 'SELECT count(*) FROM routes WHERE namespace_id = 9970') $(as app cell2 'SELECT count(*) FROM routes WHERE namespace_id = 9970') $(as claims_admin service "SELECT cell_id FROM claims.get_record('ROUTES', 'moves')")" '0 1 2'
