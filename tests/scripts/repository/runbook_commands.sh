#!/usr/bin/env bash
# Executes every command of docs/runbook.md as the role named there, on the service and the two cells of docs/cell/first-steps.md: none fails, none
# warns.
. "$(dirname "$0")/../documented.bash"

start_documented
trap cleanup EXIT
runbook=$CLAIMS_ROOT/docs/runbook.md
# A role that comes instead of a cell's, whose password leaked.
(cd /tmp && as_server sh -c "echo 'shared.example:${CLUSTER_PORT[shared]}:names:cell_1b:$CELL_PASSWORD' >>'$SECRETS/cell1/passfile'")
as app cell1 "INSERT INTO routes (path) VALUES ('gitlab-org')"
# Purging, verification and what else the worker does by itself has been done once.
expect 'the workers have begun' "$(wait_for t as monitor cell1 "SELECT count(*) > 0 FROM claims.passes")$(wait_for t as monitor service "SELECT count(*) > 0 FROM claims.passes")" tt

place() { printf '{"PGHOST": "%s", "PGPORT": "%s", "PGDATABASE": "%s"}' "${CLUSTER_DIR[$1]}" "${CLUSTER_PORT[$1]}" "$2"; }
printf '{"service": %s, "cell": %s, "cell2": %s, "secrets": "%s", "password": "%s", "path": "%s"}\n' \
  "$(place shared names)" "$(place cell1 app)" "$(place cell2 app)" "$SECRETS" "$CELL_PASSWORD" "$PATH" >"$CLAIMS_TMP/places"
follow() { python3 -B "$CLAIMS_ROOT/tests/scripts/repository/runbook_commands.py" "$CLAIMS_ROOT" "$CLAIMS_TMP/places" "$@"; }

# The test finds faults: a role without the right, a command that does not exist, one that does nothing.
section='Saves fail with 55000, in mode …'
wrong() { sed "$1" "$runbook" | follow "$section" | grep -oE 'ERROR: +.*|it answers .*' | head -1; }
expect 'a role that may not' "$(wrong "s/^- \*\*Act\*\* (service, administrator). When the reason/- **Act** (service, monitor). When the reason/" | grep -c 'permission denied')" 1
expect 'a function that does not exist' "$(wrong "s/set_mode('open', 'why', 1)/set_no_mode('open', 'why', 1)/" | grep -c 'set_no_mode.* does not exist')" 1
expect 'nothing says by whom' "$( (sed 's/^- \*\*Act\*\* (service, administrator). When the reason/- **Act.** When the reason/' "$runbook" | follow "$section" 2>&1 || true) | grep -c 'nothing says where and by whom')" 1

expect 'every command' "$(follow 2>&1)" ''
