#!/usr/bin/env bash
# pg_partman's cycle on a partitioned table with a unique column, run by the owner of the table: partitions made ahead, rows that move out of the default
# partition, retention that drops partitions, and retention that detaches them. The values of partitions that go are free at once. The key is no date:
# of such a column pg_partman 5.5.0 moves no row out of the default partition.
. "$(dirname "$0")/../common.bash"

fresh_database script_partman
[ "$(sql "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_partman'")" = 1 ] || skip 'there is no pg_partman'
sql "CREATE SCHEMA partman; CREATE EXTENSION pg_partman SCHEMA partman; CREATE SCHEMA archive AUTHORIZATION script_claims_one; CREATE TABLE other (key text);
  CREATE TABLE events (day timestamptz NOT NULL, key text) PARTITION BY RANGE (day); ALTER TABLE events OWNER TO script_claims_one;
  GRANT ALL ON SCHEMA partman, public TO script_claims_one; GRANT ALL ON ALL TABLES IN SCHEMA partman TO script_claims_one; GRANT ALL ON other TO script_claims_one;
  SELECT claims.add_unique('keys', '{events, other}', 'key')" >/dev/null
as_owner() { PGUSER=script_claims_one sql "$1"; }
type=$(sql "SELECT CASE WHEN extversion LIKE '4.%' THEN 'native' ELSE 'range' END FROM pg_extension WHERE extname = 'pg_partman'")
partitions() { sql "SELECT count(*) FROM pg_inherits WHERE inhparent = 'events'::regclass"; }
# save DAYS VALUE: saves a value of that day from today. The SQLSTATE.
save() { PGUSER=script_claims_one sqlstate "INSERT INTO events VALUES (current_date + $1, '$2')"; }
save_elsewhere() { PGUSER=script_claims_one sqlstate "INSERT INTO other VALUES ('$1')"; }
table_of() { sql "SELECT tableoid::regclass FROM events WHERE key = '$1'"; }
check() { expect "$1: check() finds nothing" "$(sql 'SELECT count(*) FROM claims.check()')" 0; }
maintain() { as_owner "UPDATE partman.part_config SET $1 WHERE parent_table = 'public.events'; SELECT partman.run_maintenance('public.events')" >/dev/null; }

as_owner "SELECT partman.create_parent(p_parent_table => 'public.events', p_control => 'day', p_interval => '1 day', p_type => '$type', p_premake => 2,
  p_start_partition => (current_date - 5)::text)" >/dev/null
made=$(partitions)
expect 'partitions: those of eight days and the default one' "$made" 9
expect 'values of eight days' "$(for day in -5 -4 -3 -2 -1 0 1 2; do save $day "day $day"; done | sort -u)" 00000
expect 'a value stands once in all of them' "$(save 0 'day -5') $(save 2 'day 1') $(save_elsewhere 'day -3')" '23505 23505 23505'
check 'partitions'

# rows for which there was no partition
expect 'a day without a partition' "$(save 4 late) $(table_of late)" '00000 events_default'
as_owner "CALL partman.partition_data_proc('public.events')" >/dev/null 2>&1
[ "$(table_of late)" != events_default ] || die 'the row has not moved'
expect 'a row that has moved keeps its value' "$(save_elsewhere late) $(save 0 late)" '23505 23505'
maintain 'premake = 5'
expect 'maintenance has made partitions' "$(($(partitions) > made + 1))" 1
expect 'a partition that was made ahead' "$(save 3 'day 3') $(save 0 'day 3')" '00000 23505'
check 'moved rows'

# retention
gone=$(table_of 'day -5')
maintain "retention = '4 days', retention_keep_table = false"
expect 'the partition is dropped' "$(sql "SELECT to_regclass('$gone') IS NULL")" t
expect 'its value is free, the others are not' "$(save_elsewhere 'day -5') $(save_elsewhere 'day -2')" '00000 23505'
expect 'and stands again' "$(save 0 'day -5')" 23505
check 'dropped'
kept=$(table_of 'day -3')
maintain "retention = '2 days', retention_keep_table = true"
expect 'the partition is detached' "$(sql "SELECT count(*) FROM pg_inherits WHERE inhrelid = '$kept'::regclass") $(sql "SELECT key FROM $kept")" '0 day -3'
expect 'its value is free, the others are not' "$(save_elsewhere 'day -3') $(save_elsewhere 'day -1')" '00000 23505'
expect 'nobody compares its rows any more' "$(PGUSER=script_claims_one sqlstate "INSERT INTO $kept (day, key) SELECT day, 'day 1' FROM $kept")" 00000
check 'detached'
kept=$(table_of 'day -1')
maintain "retention = '0 days', retention_schema = 'archive'"
expect 'the partition is moved to another schema' "$(sql "SELECT key FROM archive.$kept")" 'day -1'
expect 'its value is free, those of today are not' "$(save_elsewhere 'day -1') $(save_elsewhere 'day 0')" '00000 23505'
check 'moved away'
sql 'SELECT claims.purge_uniques()' >/dev/null
expect 'no value stands twice' "$(sql 'SELECT count(*) FROM (SELECT key FROM (SELECT key FROM events UNION ALL SELECT key FROM other) a GROUP BY key HAVING count(*) > 1) b')" 0
expect 'each has its claim' "$(sql 'SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM other) - (SELECT count(*) FROM claims.claims)')" 0
sql postgres "DROP DATABASE script_partman"
