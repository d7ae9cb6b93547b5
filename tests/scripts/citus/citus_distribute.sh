#!/usr/bin/env bash
# claims.distribute() of many claims while cells work on the coordinator: they begin and commit, settle earlier leases, and read. It shows its
# progress, no acknowledged call is lost, and the test measures how long begins and settlements were refused.
# DISTRIBUTE_CLAIMS: how many claims there are (50000).
. "$(dirname "$0")/../citus.bash"

claims=${DISTRIBUTE_CLAIMS:-50000}
leases=400
citus_cluster 2
citus_service
sql "INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status)
     SELECT 1, 'there/' || n, 2, '9970', 3, n, 1 + n % 2, 1 FROM generate_series(1, $claims) n"
sql 'VACUUM ANALYZE claims.claims'
for n in $(seq 1 $leases); do printf "SELECT claims.begin_update(2, %s, lease_uuid => '%s');\n" "$(claims_of "open-$n")" "$(lease "$n")"; done | psql -XqAt -v ON_ERROR_STOP=1 >/dev/null
summed() { sql "SELECT count(*), sum(hashtextextended(c::text, 1)) FROM claims.claims c WHERE bucket_value LIKE 'there/%'"; }
before=$(summed)

# Each call leaves a line in the file calls.NAME: its kind, the SQLSTATE, its start, and its time in seconds.
asked() { printf '\\set since `date +%%s.%%N`\n%s;\nSELECT '"'%s ' || :'SQLSTATE' || ' ' || :'since' || ' ' || round((extract(epoch FROM clock_timestamp()) - :'since')::numeric, 3);\n" "$2" "$1"; }
caller() {
  local round=0
  while [ ! -e "$CLAIMS_TMP/stop" ]; do
    round=$((round + 1))
    "$1" "$2-$round" | psql -XqAt -v VERBOSITY=sqlstate 2>>"$CLAIMS_TMP/errors" | grep -E '^[^ ]+ [0-9A-Z]{5} ' >>"$CLAIMS_TMP/calls.$2" || true
  done
}
saves() { local n; for n in 1 2 3 4 5; do asked "$1-$n" "SELECT claims.commit_update(1, claims.begin_update(1, $(claims_of "$1-$n")))"; done; }
# Those that are not settled yet, in their order.
settlements() {
  local n
  for n in $(seq 1 $leases); do printf '%s\n' "$n"; done | grep -vxFf <(sed -nE 's/^([0-9]+) 00000 .*/\1/p' "$CLAIMS_TMP/calls.settle" 2>/dev/null; echo none) | head -5 |
    while read -r n; do asked "$n" "SELECT claims.commit_update(2, '$(lease "$n")'), pg_sleep(0.05)"; done
}
reads() { local n; for n in 1 2 3 4 5; do asked read "SELECT 1 / count(*) FROM claims.get_record('ROUTES', 'there/$((RANDOM % claims + 1))')"; done; }
callers=()
for who in saves:one saves:two settlements:settle reads:read; do
  caller "${who%:*}" "${who#*:}" &
  callers+=($!)
done
# Each kind of call has been answered some times.
answered() { [ "$(awk -v since="$2" '$2 == "00000" && $3 > since' "$CLAIMS_TMP/calls.$1" | wc -l)" -gt 5 ]; }
for name in one two settle read; do wait_until answered $name 0; done

# The notices of the session, with the time; and the workers' statistics of the copying.
began=$(date +%s.%N)
(psql -XqAt -c "SELECT claims.distribute(8, 'a test')" 2>&1; touch "$CLAIMS_TMP/distributed") | while IFS= read -r line; do printf '%s %s\n' "$(date +%s.%N)" "$line"; done >"$CLAIMS_TMP/said" &
distributing=$!
# Each worker looks every few milliseconds: the copy of a shard may be short. It ends when it has seen rows counted.
watchers=()
for number in 1 2; do
  (on_worker "$number"
   sql "DO \$\$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_stat_progress_copy WHERE tuples_processed > 0) LOOP PERFORM pg_sleep(0.005), pg_stat_clear_snapshot(); END LOOP; END \$\$" &&
     echo counted >"$CLAIMS_TMP/progress.$number") &
  watchers+=($!)
done
wait $distributing
ended=$(date +%s.%N)
took=$(awk -v a="$began" -v b="$ended" 'BEGIN { printf "%.1f", b - a }')
for name in one two read; do wait_until answered $name "$ended"; done
touch "$CLAIMS_TMP/stop"
# A watcher that has seen nothing would wait for ever.
for number in 1 2; do (on_worker "$number"; sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'DO %pg_stat_progress_copy%' AND pid <> pg_backend_pid()") >/dev/null; done
wait "${watchers[@]}" || true
wait "${callers[@]}"
while grep -qvxFf <(sed -nE 's/^([0-9]+) 00000 .*/\1/p' "$CLAIMS_TMP/calls.settle") <(seq 1 $leases); do
  settlements | psql -XqAt -v VERBOSITY=sqlstate 2>>"$CLAIMS_TMP/errors" | grep -E '^[0-9]+ [0-9A-Z]{5} ' >>"$CLAIMS_TMP/calls.settle"
done

# --- the notices ------------------------------------------------------------------------------------------------------------------
expect 'distributed' "$(sed 's/^[^ ]* //' "$CLAIMS_TMP/said" | tail -1)" 8
tables=$(sql "SELECT count(DISTINCT logicalrelid) FROM pg_dist_partition WHERE logicalrelid::text LIKE 'claims.%'")
notices=$(grep -oE 'spreading table claims\.[a-z_]+ \([0-9]+ of [0-9]+, ' "$CLAIMS_TMP/said")
expect 'a notice for each table' "$(sort -u <<<"$notices" | wc -l)" "$tables"
expect 'the last of them' "$(tail -1 <<<"$notices" | sed -E 's/.*\((.*), /\1/')" "$tables of $tables"
# Each notice is heard when its table's turn comes, not in the end.
expect 'they come one by one' "$(grep 'spreading table' "$CLAIMS_TMP/said" | cut -d' ' -f1 | cut -c1-12 | sort -u | wc -l | awk '{ print ($1 > 2 ? "yes" : $1) }')" yes
if [ "$claims" -ge 50000 ]; then expect 'rows are counted on the workers' "$(cat "$CLAIMS_TMP"/progress.* | sort -u)" counted; fi

# --- the answers to cells ----------------------------------------------------------------------------------------------------------------
expect 'all claims are there' "$(summed)" "$before"
expect 'no session was told anything but that it is to try again' "$(cat "$CLAIMS_TMP"/calls.{one,two,settle} | awk '{ print $2 }' | sort -u | grep -vE '^(00000|55P03|55000|0A000)$' | tr '\n' ' ')" ''
missing() { awk '$2 == "00000" { print $1 }' "$CLAIMS_TMP/calls.$1" | LC_ALL=C sort | LC_ALL=C comm -23 - <(sql "SELECT bucket_value FROM claims.claims WHERE status = 1 AND bucket_value LIKE '$1-%'" | LC_ALL=C sort) | head -3; }
for name in one two; do
  expect "what session $name was told is there" "$(missing $name)" ''
  expect "it saved before, and after" "$(awk -v a="$began" '$2 == "00000" { if ($3 < a) before++; else after++ } END { print (before > 5 && after > 5 ? "yes" : before "+0 " after "+0") }' "$CLAIMS_TMP/calls.$name")" yes
done
expect 'leases from before are settled' "$(sql "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'open-%' AND status = 1")" $leases
expect 'and none is left' "$(sql "SELECT count(*) FROM claims.claim_leases l WHERE l.creator_id = 2")" 0
expect 'no claim is there that nobody has saved' "$(sql "SELECT count(*) FROM claims.claims WHERE status <> 1")" "$(sql "SELECT count(*) FROM claims.claims WHERE lease_uuid IS NOT NULL")"
settle_all
expect_clean 'in the end'
(on_worker 1; expect_clean 'on a worker')

# --- the old rows on the coordinator -------------------------------------------------------------------------------------------------------
expect 'the rows from before are on its disk' "$(sql "SELECT pg_relation_size('claims.claims') > 0")" t
sql "SELECT truncate_local_data_after_distributing_table('claims.claims')" >/dev/null
expect 'until they are taken away' "$(sql "SELECT pg_relation_size('claims.claims')")" 0
expect 'which takes nothing from the claims' "$(summed)" "$before"

# --- how long ---------------------------------------------------------------------------------------------------------------------------------
# From the first refusal to the first answer after the last one.
refused() { sort -k3,3n "$CLAIMS_TMP/calls.$1" | awk -v a="$began" '$3 + $4 < a { next } $2 != "00000" { if (!first) first = $3; open = 1 } $2 == "00000" && open { last = $3 + $4; open = 0 } END { printf "%.1f", (first ? last - first : 0) }'; }
longest() { (cd "$CLAIMS_TMP"; cat "${@/#/calls.}") | awk '$4 > most { most = $4 } END { printf "%.2f", most }'; }
expect 'reads are answered all the while' "$(awk '$2 != "00000"' "$CLAIMS_TMP/calls.read" | awk '{ print $2 }' | sort | uniq -c | head -3)" ''
echo "distribute() of $claims claims took $took s; begins were refused for $(refused one) s, settlements for $(refused settle) s; no call of theirs took longer than $(longest one two settle) s, no read longer than $(longest read) s"
echo ok
