#!/usr/bin/env bash
# A profile changes to and fro while a session looks a name up. Each look goes by the profile in its own snapshot, also between the moment from which
# a commit can be seen and the one in which other sessions hear of it.
. "$(dirname "$0")/../common.bash"
start_cluster one

sql "CREATE EXTENSION claims; SELECT claims.add_bucket_type(110, 'HANDLES')" >/dev/null
sql "CREATE FUNCTION looks(OUT folded int, OUT exact int, OUT wrong int) LANGUAGE plpgsql AS \$\$
  DECLARE name text; profile text; until timestamptz := clock_timestamp() + '5 s';
  BEGIN
    folded := 0; exact := 0; wrong := 0;
    WHILE clock_timestamp() < until LOOP
      SELECT claims.canonical('HANDLES', 'Ada'), t.profile INTO name, profile FROM claims.bucket_types t WHERE t.id = 110;
      CASE name || ' ' || profile
        WHEN 'ada casefold' THEN folded := folded + 1;
        WHEN 'Ada exact' THEN exact := exact + 1;
        ELSE wrong := wrong + 1;
      END CASE;
    END LOOP;
  END \$\$"
for profile in casefold exact; do
  echo "SELECT count(*) FROM claims.set_profile('HANDLES', '$profile', 'to and fro', dry_run => false);"
done >"$CLAIMS_TMP/change.sql"
pgbench -n -T 5 -f "$CLAIMS_TMP/change.sql" postgres >"$CLAIMS_TMP/changed" 2>&1 &
looks=$(sql 'SELECT folded > 10 AND exact > 10, wrong FROM looks()')
wait
expect 'no look goes by another profile' "$looks" 't|0'
expect 'profiles have changed' "$(sed -n 's/^number of failed transactions: \([0-9]*\) .*/\1/p' "$CLAIMS_TMP/changed")" 0
