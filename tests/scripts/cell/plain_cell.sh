#!/usr/bin/env bash
# test: timed
# contrib/cell/cell.sql: the cell's half of the lease protocol in a database without the extension, installed by a role that owns nothing else.
# Runs the tests of the extension's own functions on it: tests/pg_regress/sql/recovery/track_leases.sql and three isolation specs, as they are, with
# the schema claims_cell in place of claims. CELL_BINDIRS names the bin directories of further versions of PostgreSQL (13 and newer) on whose
# servers they run, too.
. "$(dirname "$0")/../common.bash"

out=${CLAIMS_TMP:-$(mktemp -d)}/plain_cell
objects='track_lease|forget_leases|judge_leases|purge_fences|cells_outstanding_leases|lease_fences'
plain() { sed -E "s/claims\.($objects)\b/claims_cell.\1/g"; }
. "$CLAIMS_ROOT/scripts/lib-test.sh"

# Prints a file without the statements that need the extension: some blocks by their labels, and calls of the service, each with its line of output.
without_extension() {
  awk '/^-- / { skip = /^-- (the columns of the documented|cells may call these|cells that share a database)/ } !skip' "$1" |
    sed -E "/claims\.(begin_update|list_leases)/${2:-}d" | plain
}

# helper FILE SCHEMA NAME...: prints the definitions of functions in the file `setup` of the tests.
helper() {
  local file=$1 schema=$2 name
  shift 2
  for name in "$@"; do
    awk -v start="^ *CREATE FUNCTION $schema$name[(]" '$0 ~ start { found = 1 } found { print } found && /\$\$;/ { exit }' "$file" | plain
  done
}

prepare_files() {
  mkdir -p "$out"/{regress,isolation}/{sql,specs,expected}
  without_extension tests/pg_regress/sql/recovery/track_leases.sql >"$out/regress/sql/track_leases.sql"
  without_extension tests/pg_regress/expected/recovery/track_leases.out ,+1 >"$out/regress/expected/track_leases.out"
  for spec in $specs; do
    plain <"tests/isolation/specs/recovery/$spec.spec" >"$out/isolation/specs/$spec.spec"
    plain <"tests/isolation/expected/recovery/$spec.out" >"$out/isolation/expected/$spec.out"
  done
}

# fresh_cell DATABASE: a database with cell.sql, which regress_plain_owner has installed, and the helpers of the tests.
fresh_cell() {
  sql postgres "DROP DATABASE IF EXISTS $1" 2>/dev/null
  sql postgres "CREATE DATABASE $1 ENCODING 'UTF8' TEMPLATE template0"
  sql postgres "ALTER DATABASE $1 SET claims.wait_timeout = '0'"
  sql postgres "REVOKE ALL ON DATABASE $1 FROM PUBLIC; GRANT CONNECT ON DATABASE $1 TO PUBLIC; GRANT CREATE ON DATABASE $1 TO regress_plain_owner"
  export PGDATABASE=$1
  PGUSER=regress_plain_owner psql -Xq -v ON_ERROR_STOP=1 -f contrib/cell/cell.sql
  PGUSER=regress_plain_owner sql "GRANT USAGE ON SCHEMA claims_cell TO regress_claims_one;
    GRANT EXECUTE ON FUNCTION claims_cell.track_lease(uuid), claims_cell.forget_leases(uuid[]), claims_cell.judge_leases(jsonb, interval),
        claims_cell.fence_leases(uuid[]) TO regress_claims_one"
}

run_files() {
  local kind=$1
  shift
  PGOPTIONS="-c statement_timeout=$((${TEST_LIMIT_SECONDS:-300} / 4))s" "$(regress_program "$kind")" --bindir="$CLAIMS_BINDIR" \
    --inputdir="$out/$kind" --outputdir="$out/$kind" --dbname="$PGDATABASE" --use-existing --encoding=UTF8 \
    --host="$PGHOST" --port="$PGPORT" --user=postgres $(regress_launcher "$kind") "$@" >"$out/$kind/log" 2>&1 || { cat "$out/$kind/log" "$out/$kind/regression.diffs" >&2; return 1; }
}

# A step that waits for a millisecond waits longer on a busy machine, and the tester takes it for one that waits until another step ends. So the
# function that limits waits tells the tester by how much, at the beginning of the session's name: a wait counts where its limit is a second or more.
# PostgreSQL calls its own function by its number, whatever the catalog says of it, so that one gets another name.
tell_limits() {
  sql "CREATE OR REPLACE FUNCTION claims_cell.limit_lock_waits(milliseconds bigint) RETURNS void LANGUAGE sql AS \$\$
      SELECT pg_catalog.set_config('application_name', milliseconds || substring(pg_catalog.current_setting('application_name') FROM '/[^/]*\$'), false),
             pg_catalog.set_config('lock_timeout', greatest(milliseconds, 1)::text, true) \$\$;
    ALTER FUNCTION pg_catalog.pg_isolation_test_session_is_blocked(integer, integer[]) RENAME TO pg_isolation_test_session_is_blocked_now;
    CREATE FUNCTION pg_catalog.pg_isolation_test_session_is_blocked(integer, integer[]) RETURNS boolean LANGUAGE sql AS \$\$
      SELECT pg_catalog.pg_blocking_pids(\$1) OPERATOR(pg_catalog.&&) \$2
         AND EXISTS (SELECT FROM pg_catalog.pg_stat_activity a WHERE a.pid = \$1 AND a.application_name ~ '^[0-9]{4,}/') \$\$"
}

check_rights() {
  fresh_cell plain_rights
  expect "$1: PUBLIC can call nothing" "$(sql "SELECT count(*) FROM pg_proc p WHERE pronamespace = 'claims_cell'::regnamespace
    AND has_function_privilege('regress_claims_nobody', oid, 'EXECUTE')")" 0
  expect "$1: a saving role reads no table" \
    "$(PGUSER=regress_claims_one sqlstate 'SELECT FROM claims_cell.lease_fences') $(PGUSER=regress_claims_one sqlstate 'DELETE FROM claims_cell.cells_outstanding_leases')" \
    '42501 42501'
  expect "$1: a saving role calls no helper" "$(PGUSER=regress_claims_one sqlstate "SELECT claims_cell.fence('{}')")" 42501
  expect "$1: every function of the owner's rights has a search_path" "$(sql "SELECT count(*) FROM pg_proc
    WHERE pronamespace = 'claims_cell'::regnamespace AND prosecdef AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)")" 0
  expect "$1: objects without a comment, but helpers" "$(sql "SELECT count(*) FROM pg_class c WHERE relnamespace = 'claims_cell'::regnamespace
    AND relkind = 'r' AND obj_description(oid, 'pg_class') IS NULL")" 0
  expect "$1: another role that installs it again" "$(sqlstate "$(cat contrib/cell/cell.sql)")" 42501
  sql "INSERT INTO claims_cell.lease_fences (lease_uuid) VALUES ('$(lease 1)')"
  PGUSER=regress_plain_owner psql -Xq -v ON_ERROR_STOP=1 -f contrib/cell/cell.sql 2>/dev/null
  expect "$1: installed again, the rows stay" "$(sql 'SELECT count(*) FROM claims_cell.lease_fences')" 1

  # With synchronous_commit off the COMMIT of a tracked lease is flushed all the same, and the setting is the caller's again afterwards.
  expect "$1: a tracked lease is flushed" "$(PGUSER=regress_claims_one psql -XqAt -c "SET synchronous_commit = off" -c "BEGIN" \
    -c "SELECT claims_cell.track_lease('$(lease 2)')" -c "SHOW synchronous_commit" -c COMMIT -c "SHOW synchronous_commit" | tr -d '\n')" localoff

  # fence_leases: what is tracked is not fenced, and what is fenced cannot be tracked.
  expect "$1: fence_leases" "$(PGUSER=regress_claims_one sql "SELECT right(lease_uuid::text, 1), fenced
    FROM claims_cell.fence_leases(ARRAY['$(lease 3)', '$(lease 2)', '$(lease 3)']::uuid[])" | tr '\n' ' ')" '2|f 3|t '
  expect "$1: fenced" "$(PGUSER=regress_claims_one sqlstate "SELECT claims_cell.track_lease('$(lease 3)')")" 55000
  expect "$1: wait_timeout of nonsense" "$(PGUSER=regress_claims_one sqlstate "SET claims.wait_timeout = 'soon'; SELECT claims_cell.track_lease('$(lease 4)')")" 22023

  # 10,000 leases in one call: judged in a time that grows with their number, not with its square.
  expect "$1: many leases at once" "$(sql "SELECT verdict, count(*) FROM claims_cell.judge_leases((SELECT jsonb_agg(jsonb_build_object(
      'lease_uuid', md5(n::text)::uuid, 'created_at', '2026-01-01')) FROM generate_series(1, 10000) n)) GROUP BY 1")" 'wait|10000'
  expect "$1: too many" "$(sqlstate "SELECT count(*) FROM claims_cell.judge_leases((SELECT jsonb_agg(jsonb_build_object(
      'lease_uuid', md5(n::text)::uuid, 'created_at', '2026-01-01')) FROM generate_series(1, 100001) n))")" 54000
}

# test_server NAME: the server that PGHOST and PGPORT lead to.
test_server() {
  local role
  for role in regress_plain_owner regress_claims_one regress_claims_two regress_claims_router regress_claims_nobody; do sql postgres "CREATE ROLE $role LOGIN"; done
  fresh_cell claims_regress
  sql "CREATE SCHEMA t; GRANT USAGE ON SCHEMA t TO PUBLIC; $(helper tests/pg_regress/sql/setup.sql t. call u tracked fences no_leases listed verdicts)
    CREATE FUNCTION t.clean() RETURNS void LANGUAGE sql AS ''"
  run_files regress track_leases
  printf 'ok: %s: track_leases.sql\n' "$1"
  fresh_cell claims_isolation
  sql "$(helper tests/isolation/specs/setup.spec '' u call) CREATE FUNCTION clean() RETURNS void LANGUAGE sql AS ''"
  tell_limits
  # shellcheck disable=SC2086
  run_files isolation $specs
  printf 'ok: %s: %s\n' "$1" "$specs"
  check_rights "$1"
}

specs='cell_track_and_fence cell_wait_timeout cell_xid'
cd "$CLAIMS_ROOT"
prepare_files
# autovacuum is off because purge_fences() keeps fences while a session is there that it may not see.
start_cluster plain --fast -c autovacuum=off
test_server "PostgreSQL $(sql postgres 'SHOW server_version')"
stop_cluster plain
for bindir in ${CELL_BINDIRS:-}; do
  dir=$(cd /tmp && as_server mktemp -d /tmp/claims-cell.XXXXXX)
  port=$(take_port)
  trap '(cd /tmp && as_server "$bindir/pg_ctl" -D "$dir/data" -m immediate -w stop >/dev/null 2>&1) || true; rm -rf "$dir"; cleanup' EXIT
  (cd /tmp && as_server "$bindir/initdb" -D "$dir/data" -U postgres -A trust --no-locale -E UTF8 >/dev/null &&
    as_server "$bindir/pg_ctl" -D "$dir/data" -l "$dir/log" -w start >/dev/null \
      -o "-p $port -k $dir -c listen_addresses= -c fsync=off -c autovacuum=off -c max_prepared_transactions=20 -c lc_messages=C")
  PGHOST=$dir PGPORT=$port test_server "PostgreSQL $("$bindir/postgres" --version | sed 's/.* //')"
  (cd /tmp && as_server "$bindir/pg_ctl" -D "$dir/data" -m immediate -w stop >/dev/null)
  rm -rf "$dir"
done
