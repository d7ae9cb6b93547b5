#!/usr/bin/env bash
# Settings from postgresql.conf, from ALTER DATABASE and ALTER ROLE; with the library preloaded and without.
. "$(dirname "$0")/../common.bash"

batch() { printf "SELECT claims.rollback_update(1, claims.begin_update(1, (SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 1, 'value', 's' || n), 'subject', '{\"type\": 2, \"id\": 1}'::jsonb, 'source', '{\"type\": 3, \"id\": 1}'::jsonb)) FROM generate_series(1, %s) n)))" "$1"; }
as_one() { PGUSER=script_claims_one "$@"; }

for preload in '' claims; do
  how=${preload:+preloaded}; how=${how:-not preloaded}
  start_cluster "settings" --fast -c "shared_preload_libraries=$preload" -c claims.max_batch_size=3 -c claims.outcome_retention=1h
  fresh_database script_settings
  expect "$how: the file's limit is kept" "$(as_one sqlstate "$(batch 3)")" 00000
  expect "$how: and not exceeded" "$(as_one sqlstate "$(batch 4)")" 54000
  expect "$how: a cell cannot raise it for itself" "$(as_one psql -XqAt -v VERBOSITY=sqlstate -c 'SET claims.max_batch_size = 100' -c "$(batch 4)" 2>&1 | grep -oE '54000|^t$')" 54000
  as_one sqlstate "ALTER ROLE script_claims_one SET claims.max_batch_size = 100" >/dev/null
  expect "$how: nor for its sessions to come" "$(as_one sqlstate "$(batch 4)")" 54000
  sql "ALTER ROLE script_claims_one RESET ALL"
  # A preloaded library's setting is known when the connection is made, which is refused. Otherwise PostgreSQL throws
  # the file's value away together with the refused one: the default of 2000 is in force, and never more than that.
  with_options() { PGOPTIONS='-c claims.max_batch_size=5000' as_one psql -XqAt -v VERBOSITY=sqlstate -c "$1" 2>&1 | grep -oE '54000|FATAL:  permission denied to set parameter|^t$' | head -1; }
  if [ "$preload" ]; then
    expect "$how: options of the connection" "$(with_options "$(batch 4)")" 'FATAL:  permission denied to set parameter'
  else
    expect "$how: options of the connection" "$(with_options "$(batch 2001)")" 54000
  fi
  sql "ALTER DATABASE script_settings SET claims.max_batch_size = 5"
  expect "$how: an administrator raises it for the database" "$(as_one sqlstate "$(batch 5)")" 00000
  expect "$how: so far" "$(as_one sqlstate "$(batch 6)")" 54000
  # (before the library is loaded, PostgreSQL lets no ordinary role keep a setting that it does not know)
  expect "$how: a cell sets its own wait_timeout" "$(as_one sqlstate "SELECT 1 FROM claims.list_leases(1); ALTER ROLE script_claims_one SET claims.wait_timeout = '7ms'")" 00000
  expect "$how: and has it" "$(as_one psql -XqAt -c "SELECT count(*) FROM claims.list_leases(1)" -c 'SHOW claims.wait_timeout' | tail -1)" 7ms
  expect "$how: retention" "$(psql -XqAt -c "SELECT count(*) FROM claims.list_leases(1)" -c 'SHOW claims.outcome_retention' | tail -1)" 1h
  expect "$how: check" "$(sql 'SELECT count(*) FROM claims.check()')" 0
  stop_cluster settings
  export PGDATABASE=postgres
done
