#!/usr/bin/env bash
# ALTER COLUMN SET EXPRESSION, which PostgreSQL has from 17 on, of a generated column that is unique: all values are claimed again, or it is refused.
. "$(dirname "$0")/../common.bash"

[ "$PG_MAJOR" -ge 17 ] || skip 'PostgreSQL has SET EXPRESSION from 17 on'
fresh_database script_expression
sql "CREATE TABLE rows (n int, key text GENERATED ALWAYS AS ('x' || n::text) STORED) PARTITION BY RANGE (n);
  CREATE TABLE low PARTITION OF rows FOR VALUES FROM (0) TO (100); CREATE TABLE high PARTITION OF rows FOR VALUES FROM (100) TO (200);
  SELECT claims.add_unique('rows_key', '{rows}', 'key'); INSERT INTO rows VALUES (1), (2), (101)" >/dev/null
insert() { sqlstate "INSERT INTO rows VALUES ($1)"; }
alter() { sqlstate "ALTER TABLE rows ALTER COLUMN key SET EXPRESSION AS ($1)"; }

expect 'a value of before' "$(insert 1)" 23505
expect 'another expression' "$(alter "'y' || n::text")" 00000
expect 'its values are claimed' "$(sql 'SELECT string_agg(key, chr(32) ORDER BY key) FROM rows')" 'y1 y101 y2'
expect 'and are unique' "$(insert 1) $(insert 3)" '23505 00000'
expect 'one that gives two rows one value' "$(alter "'w' || (n % 100)::text")" 23505
expect 'and one that gives it to all' "$(alter "'z'")" 23505
expect 'nothing has changed' "$(insert 2) $(sql 'SELECT count(*) FROM rows')" '23505 4'
expect 'check() finds nothing' "$(sql 'SELECT count(*) FROM claims.check()')" 0
