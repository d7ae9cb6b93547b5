#!/usr/bin/env bash
# No state in sessions between calls: every call from another session, and sessions shared by several cells, as with a
# transaction pooler.
. "$(dirname "$0")/../common.bash"

fresh_database script_pooler
have 1 old
expect 'begin in one session' "$(sql "SELECT claims.begin_update(1, '[$(claim x)]', '[$(bucket old)]', '$(lease 1)')")" "$(lease 1)"
expect 'the repeat in another' "$(sql "SELECT claims.begin_update(1, '[$(claim x)]', '[$(bucket old)]', '$(lease 1)')")" "$(lease 1)"
expect 'commit in a third' "$(sql "SELECT claims.commit_update(1, '$(lease 1)')")" t
expect 'no session holds a lock' "$(sql "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE datname = 'script_pooler' AND pid <> pg_backend_pid()")" 0
# one server session for two cells, one transaction each
expect 'one session, two cells in turn' "$(psql -XqAt -v ON_ERROR_STOP=1 <<SQL | tr '\n' ' '
BEGIN; SET LOCAL ROLE script_claims_one; SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim a1)]')); COMMIT;
BEGIN; SET LOCAL ROLE script_claims_two; SELECT claims.commit_update(2, claims.begin_update(2, '[$(claim a2)]')); COMMIT;
DISCARD ALL;
BEGIN; SET LOCAL ROLE script_claims_one; SELECT conflicts->0->>'holder_cell_id' FROM claims.try_begin_update(1, '[$(claim a2)]'); COMMIT;
BEGIN; SET LOCAL ROLE script_claims_two; SELECT claims.commit_update(2, claims.begin_update(2, '[]', '[$(bucket a2)]')); COMMIT;
SQL
)" 't t 2 t '
expect 'the second cell has no right that the first left behind' "$(psql -XqAt -v VERBOSITY=sqlstate -c 'SET ROLE script_claims_one' -c "SELECT claims.lease_outcome(1, '$(lease 1)')" -c 'SET ROLE script_claims_two' -c "SELECT claims.lease_outcome(1, '$(lease 1)')" 2>&1 | grep -oE '42501|committed' | tr '\n' ' ')" 'committed 42501 '
expect 'after an error the session is as good as new' "$(psql -XqAt -v VERBOSITY=sqlstate -c "SELECT claims.begin_update(1, '[$(claim a1)]')" -c "SELECT claims.begin_update(1, '[{}]')" -c "SELECT claims.commit_update(1, claims.begin_update(1, '[$(claim a3)]'))" 2>&1 | grep -oE '23505|22023|^t$' | tr '\n' ' ')" '23505 22023 t '
# protocol-level prepared statements, reused by others
expect 'the extended protocol' "$(cat >"$CLAIMS_TMP/bench.sql" <<'SQL'
SELECT claims.rollback_update(1, claims.begin_update(1, ('[{"bucket": {"type": 1, "value": "p' || :client_id || '"}, "subject": {"type": 2, "id": 1}, "source": {"type": 3, "id": 1}}]')::jsonb));
SQL
pgbench -n -M prepared -c 4 -j 2 -t 50 -f "$CLAIMS_TMP/bench.sql" script_pooler 2>&1 | sed -nE 's/^number of transactions actually processed: ([0-9]+)\/.*/\1/p')" 200
expect 'check' "$(sql 'SELECT count(*) FROM claims.check()')" 0
sql postgres 'DROP DATABASE script_pooler'
