#!/usr/bin/env bash
# Histories find their rows in the audit log by its index: among many other rows, with fresh statistics and with those of an empty table, before
# and after the worker has merged the pending keys, which it does by itself.
. "$(dirname "$0")/../cells.bash"

start_cells -c shared_preload_libraries=claims -c claims.databases=postgres
at shared "ALTER DATABASE postgres SET claims.audit = 'settled'; CREATE EXTENSION pgstattuple"
one() { printf '[{"bucket": {"type": "ROUTES", "value": "%s"}, "subject": {"type": "USER", "id": %s}, "source": {"type": "RAILS_TABLE_USERS", "id": %s}}]' "$1" "$2" "$2"; }
for n in 1 2 3; do as_cell 1 "SELECT claims.commit_update(1, claims.begin_update(1, '$(one "own$n" 42)'))" >/dev/null; done
# Rows of others: more than a search may read.
at shared "INSERT INTO claims.audit_log (at, id, cell_id, what, session_role, application_name, ops, bucket_types, bucket_values, subjects, search_keys)
  SELECT '2026-01-01'::timestamptz + n * interval '1 s', n, 1, 'committed', 'cell1', '', '{create}', '{ROUTES}', ARRAY['n' || n], ARRAY['USER ' || n],
         ARRAY[hashint8extended(n, 1), hashint8extended(n, 2)] FROM generate_series(1, 200000) n"

# read_by WHAT: the rows of each call, and that the two have found their rows by the index, and have read no others.
index_scans() { at shared "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'audit_log_search'"; }
rows_read() { at shared "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relid = 'claims.audit_log'::regclass"; }
read_by() {
  local scans rows
  scans=$(index_scans) rows=$(rows_read)
  expect "$1: a subject" "$(at shared "SELECT count(*) FILTER (WHERE what = 'create'), count(*) FILTER (WHERE what = 'holds') FROM claims.subject_history('USER', '42')")" '3|3'
  expect "$1: a name" "$(at shared "SELECT string_agg(op, ' ') FROM claims.bucket_history('ROUTES', 'own2')")" create
  expect "$1: each by the index" "$(wait_for $((scans + 2)) index_scans)" $((scans + 2))
  expect "$1: without reading the log" "$([ $(($(rows_read) - rows)) -lt 100 ] && echo 'few rows' || rows_read)" 'few rows'
}
read_by 'with pending keys'
at shared "ANALYZE claims.audit_log"
read_by 'with statistics'
at shared "SET enable_bitmapscan = off; SELECT count(*) FROM claims.subject_history('USER', '42')" >/dev/null
read_by 'in a session without bitmap scans'

# The worker merges pending keys when it starts, and every minute.
pending() { at shared "SELECT pending_tuples > 0 FROM pgstatginindex('claims.audit_log_search')"; }
as_cell 1 "SELECT claims.commit_update(1, claims.begin_update(1, '$(one own4 43)'))" >/dev/null
halt shared; resume shared
expect 'the worker has merged the keys' "$(wait_for f pending)" f
expect 'and they are found' "$(at shared "SELECT count(*) FROM claims.subject_history('USER', '43')")" 2
