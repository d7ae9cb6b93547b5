#!/usr/bin/env bash
# import_unique() beside writers while its session is killed and the server crashes, again and again: the next call continues. In the end each value of
# the tables is claimed once, and nothing else is.
. "$(dirname "$0")/../common.bash"

start_cluster import_crash --fast -c synchronous_commit=on
# One row in a block, so that the import has many portions.
sql "CREATE EXTENSION claims; CREATE TABLE parts (id bigint GENERATED ALWAYS AS IDENTITY, key text, pad text DEFAULT repeat('x', 1200)) PARTITION BY RANGE (id);
  CREATE TABLE low PARTITION OF parts FOR VALUES FROM (1) TO (15001) WITH (fillfactor = 20); CREATE TABLE high PARTITION OF parts FOR VALUES FROM (15001) TO (1000000000) WITH (fillfactor = 20);
  INSERT INTO parts (key) SELECT 'old-' || n FROM generate_series(1, 20000) n;
  SELECT claims.add_unique('keys', '{parts}', 'key', import => false)" >/dev/null
expect 'not valid yet' "$(sql 'SELECT is_valid FROM claims.uniques')" f

# Writers make values of their own, rename rows to such values, and delete rows. A crash ends their connections: they come again.
cat >"$CLAIMS_TMP/writers.sql" <<'SQL'
\set id random(1, 20000)
\set new random(1, 1000000000000)
INSERT INTO parts (key) VALUES ('new-' || :new);
UPDATE parts SET key = 'renamed-' || :new WHERE id = :id;
DELETE FROM parts WHERE id = :id + 7;
SQL
( while [ ! -e "$CLAIMS_TMP/enough" ]; do pgbench -n -c 2 -T 60 -f "$CLAIMS_TMP/writers.sql" >"$CLAIMS_TMP/writers.out" 2>&1 || sleep 0.1; done ) &
writers=$!

# done_rows: how many rows the import has read; nothing while the server is not there.
done_rows() { sql "SELECT coalesce(sum(rows_done), 0)::bigint FROM claims.imports" 2>/dev/null || true; }
has_gone_on() { [ "$(done_rows)" -gt "$1" ] 2>/dev/null; }
has_ended() { ! kill -0 "$1" 2>/dev/null; }
crashes=0
for stop in 1 2 3 4 5 6; do
  before=$(done_rows)
  PGAPPNAME=import psql -Xq -c "CALL claims.import_unique('keys')" >"$CLAIMS_TMP/import" 2>&1 &
  import=$!
  wait_until eval 'has_gone_on $((before + 400)) || has_ended $import'
  ! has_ended "$import" || break
  postmaster=$(checkpointer sql)
  case $((stop % 3)) in
    0) restart_cluster import_crash immediate ;;
    1) kill -9 "$(sql "SELECT pid FROM pg_stat_activity WHERE application_name = 'import'")" ;;
    2) sql "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'import'" >/dev/null ;;
  esac
  [ $((stop % 3)) = 2 ] || wait_until has_restarted "$postmaster" sql
  wait "$import" || true
  crashes=$((crashes + 1))
done
expect 'it was stopped in its work several times' "$([ "$crashes" -ge 3 ] || echo "$crashes")" ''
expect 'not valid yet' "$(sql 'SELECT is_valid FROM claims.uniques')" f
expect 'the next call goes through, beside the writers' "$(sqlstate "CALL claims.import_unique('keys')")" 00000
have_renamed() { [ "$(sql "SELECT count(*) > 100 FROM parts WHERE key LIKE 'renamed-%'")" = t ]; }
wait_until have_renamed
touch "$CLAIMS_TMP/enough"
sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgbench'" >/dev/null
wait "$writers"

expect 'valid' "$(sql 'SELECT is_valid FROM claims.uniques')" t
expect 'writers had their way' "$(have_renamed && echo t)" t
expect 'each value once' "$(sql 'SELECT count(*) - count(DISTINCT key) FROM parts')" 0
sql 'SELECT claims.purge_uniques()' >/dev/null
expect 'each value is claimed, and nothing else is' "$(sql "SELECT count(*) FILTER (WHERE c.bucket_value IS NULL), count(*) FILTER (WHERE p.key IS NULL)
  FROM (SELECT key FROM parts) p FULL JOIN claims.claims c ON c.bucket_value = p.key")" '0|0'
expect 'a value of each table, saved again' "$(sqlstate "INSERT INTO parts (key) SELECT key FROM low ORDER BY id LIMIT 1") $(sqlstate "INSERT INTO parts (key) SELECT key FROM high ORDER BY id DESC LIMIT 1")" '23505 23505'
expect 'check() finds nothing' "$(sql 'SELECT count(*) FROM claims.check()')" 0
