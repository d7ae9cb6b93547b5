#!/usr/bin/env bash
# A transaction with many nested savepoints: what their ends cost grows with their number, not with its square or its cube. CPU is compared, of a
# COMMIT after N savepoints and after 2 N.
# test: timed
. "$(dirname "$0")/../common.bash"
start_cluster nested --fast -c shared_preload_libraries=claims
fresh_database script_nested
make_cpu_ms
sql "CREATE TABLE public.routes (id bigserial PRIMARY KEY, name text);
  SELECT claims.claim_attribute('public.routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id')" >/dev/null

# end_of N SQL END: the milliseconds of CPU that END takes after N nested savepoints with this SQL in each, where # is the number of the savepoint.
end_of() {
  local number
  {
    echo 'BEGIN;'
    for number in $(seq "$1"); do echo "SAVEPOINT s; ${2//#/$1-$number};"; done
    echo '\o'
    # The function sleeps, so that the kernel adds the time up. After an end it needs a transaction of its own.
    printf 'SELECT public.cpu_ms() AS before \\gset\n%s;\nSELECT round(public.cpu_ms() - :before);\n' "$3"
  } >"$CLAIMS_TMP/nested.sql"
  psql -XqAt -v ON_ERROR_STOP=1 -o /dev/null -f "$CLAIMS_TMP/nested.sql"
}
# grows WHAT SQL END: what the end takes with twice as many savepoints, at most three times as long.
grows() {
  local once twice
  once=$(end_of 1500 "$2" "$3")
  twice=$(end_of 3000 "$2" "$3")
  expect "$1: at most three times as long with twice as many" "$([ "$twice" -le $((3 * once + 30)) ] && echo yes || echo "$once ms and $twice ms")" yes
}
grows 'COMMIT with a begin in each' "SELECT claims.begin_update(1, '[$(claim 'b-#')]')" COMMIT
grows 'ROLLBACK with a begin in each' "SELECT claims.begin_update(1, '[$(claim 'r-#')]')" ROLLBACK
grows 'COMMIT with a captured row in each' "INSERT INTO public.routes (name) VALUES ('c-#')" COMMIT
grows 'ROLLBACK with a captured row in each' "INSERT INTO public.routes (name) VALUES ('d-#')" ROLLBACK
grows 'a rollback to the first savepoint' "INSERT INTO public.routes (name) VALUES ('e-#')" 'ROLLBACK TO SAVEPOINT s'
