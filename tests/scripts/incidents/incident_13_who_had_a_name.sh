#!/usr/bin/env bash
# Who had this name last week? Without the change feed the answer is since when its owner has had it, in spite of transfers; with the feed every
# owner. Commands and roles are those of docs/runbook.md.
. "$(dirname "$0")/../documented.bash"

start_documented
trap cleanup EXIT
section='Who had a name'
settled() { wait_for 0 as monitor service 'SELECT count(*) FROM claims.leases' >/dev/null; }
as app cell1 "INSERT INTO routes (namespace_id, path) VALUES (9970, 'gitlab-org'), (1, 'other')"
settled

# --- without the feed -------------------------------------------------------------------------------------------------

expect 'the feed is off' "$(as claims_admin service 'SHOW claims.change_feed')" off
expect 'who has it is known, and not since when' "$(follow "$section" Look '' bucket_history | cut -d'|' -f 1-4)" '1|north||'
given=$(as claims_admin service "SELECT created_at FROM claims.records WHERE bucket_value = 'gitlab-org'")
expect 'since when nobody gave it up' "$(follow "$section" Look '' claims.records | cut -d'|' -f 1,2,4)" "1|GROUP|$given"
# A transfer keeps that time, and says itself when it was.
transfer="'$(lease 1)'"
as claims_admin service "SELECT * FROM claims.prepare_transfer($transfer, 1, 2, '[{\"type\": \"GROUP\", \"ids\": [9970]}]', 'they moved', '5 s')" >/dev/null
as claims_admin service "SELECT claims.switch_transfer($transfer, 'they moved'); SELECT * FROM claims.finish_transfer($transfer, '5 s')" >/dev/null
expect 'after a transfer it is the other one, as if since then' "$(follow "$section" Look '' claims.records | cut -d'|' -f 1,2,4)" "2|GROUP|$given"
expect 'which the list of transfers corrects' "$(follow "$section" Look '' claims.transfers | cut -d'|' -f 1-4)" '1|2|finished|they moved'
expect 'and the log of administrators' "$(follow "$section" Look '' claims.admin_log | cut -d'|' -f 2,3,5 | grep -c '^claims_admin|switch_transfer|they moved$')" 1
expect 'nobody else is told' "$(state_as monitor service "SELECT * FROM claims.bucket_history('ROUTES', 'gitlab-org')") $(state_as monitor service 'SELECT * FROM claims.admin_log')" '42501 42501'

# --- with it, the next time ---------------------------------------------------------------------------------------------

follow "$section" Act >/dev/null
expect 'it is on' "$(wait_for on follow "$section" Check)" on
expect 'for two months' "$(wait_for 60d as claims_admin service 'SHOW claims.change_retention')" 60d
as postgres service "ALTER DATABASE names SET claims.audit = 'settled'"
restart_cluster shared
expect 'and stays so' "$(follow "$section" Check)" on
as app cell1 "UPDATE routes SET path = 'first' WHERE path = 'other'"
as app cell1 "UPDATE routes SET path = 'second' WHERE path = 'first'"
settled
as app cell2 "INSERT INTO routes (path) VALUES ('first')"
settled
periods() { as claims_admin service "SELECT string_agg(concat_ws(' ', coalesce(cell_id::text, 'nobody'), CASE WHEN since IS NULL THEN 'since ever' END, CASE WHEN until IS NULL THEN 'until now' END), ', ' ORDER BY since NULLS FIRST) FROM claims.bucket_history('ROUTES', '$1')"; }
expect 'every owner is known from now on' "$(periods first | sed 's/^nobody since ever, //')" '1, nobody, 2 until now'
expect 'one that has given it up, too' "$(periods other)" '1 since ever, nobody until now'
expect 'the command of the runbook tells it' "$(FILL='s/gitlab-org/first/' follow "$section" Look '' bucket_history | cut -d'|' -f 1 | grep -c '^[12]$')" 2

# --- persons, with the audit log ----------------------------------------------------------------------------------------

as app cell1 "SET claims.context = 'user 42 via /admin'; UPDATE routes SET path = 'third' WHERE path = 'second'"
settled
person() { FILL="s/'USER', '42'/'GROUP', '$1'/" follow 'Everything about a name and a person' Look '' subject_history | cut -d'|' -f 2-7 | grep third; }
expect 'what a person has, and who gave it' "$(person 1)" $'create|1|ROUTES|third|app|user 42 via /admin\nholds|1|ROUTES|third||'
# A court gives the name to a person of the other cell.
FILL="s/gitlab-org/third/" follow 'A name is to have another owner' 'Act 2' >/dev/null
expect 'who had it lost it in the first cell' "$(person 1 | head -1)" 'destroy|1|ROUTES|third||'
expect 'who has it got it in the second' "$(person 9970)" $'create|2|ROUTES|third||\nholds|2|ROUTES|third||'
as app cell1 "DELETE FROM routes WHERE path = 'third'"
settled
expect 'check' "$(as monitor service 'SELECT count(*) FROM claims.check()')" 0
