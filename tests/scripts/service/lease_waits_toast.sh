#!/usr/bin/env bash
# A begin that waits gives the snapshot of its statement up only if the statement has no other value that may be in a TOAST table: VACUUM would
# remove what it points to.
. "$(dirname "$0")/../waiters.bash"
start_cluster toast --fast -c shared_preload_libraries=claims -c autovacuum=off
fresh_database script_toast

sql "CREATE TABLE public.large (id int, value text);
  ALTER TABLE public.large ALTER value SET STORAGE EXTERNAL;
  CREATE FUNCTION public.large_value() RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT l.value FROM public.large l WHERE l.id = 1); END'"
begin="claims.begin_update(2, '$(names ada)')"
# waiter NAME SQL: a session whose statement waits for the name.
waiter() {
  sql "DELETE FROM public.large; INSERT INTO public.large VALUES (1, repeat('x', 100000))"
  l=$(begin 1 ada)
  PGAPPNAME="waiter $1" PGOPTIONS='-c claims.lease_wait=60s' psql -XqAt -v VERBOSITY=verbose -c "$2" >"$CLAIMS_TMP/$1" 2>&1 &
  waiting=$!
  wait_until is_there 1
}
# ends: the value is removed as far as the snapshots allow it, the name comes free, and the statement ends.
ends() {
  sql 'DELETE FROM public.large' && sql 'VACUUM public.large'
  roll_back 1 "$l"
  wait "$waiting" || true
  clean
}
number=0
for statement in "SELECT public.large_value(), $begin" "SELECT $begin, public.large_value()" "SELECT public.large_value() || $begin" \
  "SELECT ($begin)::text || public.large_value()" "SELECT length(public.large_value() || $begin)" "SELECT f.*, $begin FROM public.large_value() f" \
  "SELECT public.large_value() UNION ALL SELECT ($begin)::text" "SELECT ROW(public.large_value(), $begin)" \
  "SELECT coalesce(nullif(public.large_value(), ''), ($begin)::text), $begin" "PREPARE p (text) AS SELECT \$1, $begin; EXECUTE p (public.large_value())" \
  "SELECT * FROM public.large_value() f, claims.try_begin_update(2, '$(names ada)')" "SELECT public.large_value(), claims.try_begin_update(2, '$(names ada)')"; do
  number=$((number + 1))
  waiter "$number" "$statement"
  ends
  expect "${statement//$begin/begin}" "$(grep -c ERROR "$CLAIMS_TMP/$number" || true)" 0
done

# A statement without other values gives its snapshot up.
holds() { sql "SELECT (backend_xid IS NULL, backend_xmin IS NULL) FROM pg_stat_activity WHERE application_name LIKE 'waiter %'"; }
for statement in "SELECT $begin" "SELECT 'got ' || $begin" "SELECT $begin IS NOT NULL, pg_backend_pid(), 'x'" "SELECT * FROM claims.try_begin_update(2, '$(names ada)')"; do
  number=$((number + 1))
  waiter "$number" "$statement"
  expect "${statement//$begin/begin}: no snapshot" "$(wait_for '(t,t)' holds)" '(t,t)'
  ends
done
