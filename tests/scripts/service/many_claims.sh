#!/usr/bin/env bash
# test: timed
# Costs that must not depend on the number of claims: one commit of one row switches a transfer, and metrics() takes milliseconds.
# TRANSFER_CLAIMS: how many claims move (20000).
. "$(dirname "$0")/../common.bash"

claims=${TRANSFER_CLAIMS:-20000}
fresh_database script_many_claims
large=$(lease 1) small=$(lease 2)
make_cpu_ms
# took SQL...: milliseconds of CPU of the statements, which are repeated thirty times in one session, the first time not counted.
took() {
  local statements; statements=$(printf '%s;\n' "$@")
  { printf '%s\nSELECT public.cpu_ms() AS before \\gset\n' "$statements"; for _ in $(seq 1 30); do echo "$statements"; done
    echo "SELECT 'took ' || round((public.cpu_ms() - :before) / 30 / $#, 2);"; } | psql -XqAt -v ON_ERROR_STOP=1 | sed -n 's/^took //p'
}
# at_most TIMES MORE BEFORE AFTER
at_most() { awk -v t="$1" -v m="$2" -v b="$3" -v a="$4" 'BEGIN { print a <= t * b + m ? "yes" : a " ms after " b " ms" }'; }
metrics='SELECT count(*) FROM claims.metrics()'
few=$(took "$metrics")

sql "INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status)
     SELECT 1, 'small/' || n, 2, '7', 3, n, 1, 1 FROM generate_series(1, 10) n
     UNION ALL SELECT 1, 'large/' || n, 2, '9970', 3, 1000 + n, 1, 1 FROM generate_series(1, $claims) n"
sql 'VACUUM ANALYZE claims.claims'
many=$(took "$metrics")
echo "metrics() of $claims claims: $many ms"
expect 'metrics() takes as long as of none' "$(at_most 2 5 "$few" "$many")" yes

prepare() { sql "SELECT marked, skipped, finished FROM claims.prepare_transfer('$1', 1, 2, '[{\"type\": \"GROUP\", \"ids\": [$2]}]', 'test')"; }
expect 'all are prepared' "$(prepare "$small" 7) $(prepare "$large" 9970)" "10|0|t $claims|0|t"
where() { sql "SELECT cell_id, count(*) FROM claims.records WHERE subject_id = '9970' GROUP BY 1"; }
expect 'they are where they were' "$(where)" "1|$claims"

# The rows that the transaction of an action has inserted, updated and deleted, by table.
written() {
  sql "BEGIN; SELECT claims.${1}_transfer('$large', 'test');
       SELECT string_agg(format('%s %s %s %s', c.relname, n.new, n.changed, n.gone), ', ' ORDER BY c.relname)
         FROM pg_class c, LATERAL (SELECT pg_stat_get_xact_tuples_inserted(c.oid) AS new, pg_stat_get_xact_tuples_updated(c.oid) AS changed, pg_stat_get_xact_tuples_deleted(c.oid) AS gone) n
        WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind = 'r' AND n.new + n.changed + n.gone > 0;
       COMMIT" | tr '\n' ' '
}
expect 'switch: one row changes, and the log has one more' "$(written switch)" 't admin_log 1 0 0, cell_transfers 0 1 0 '
expect 'and every read says the new cell' "$(where)" "2|$claims"
expect 'reverse: the same' "$(written reverse) $(where)" "t admin_log 1 0 0, cell_transfers 0 1 0  1|$claims"
there_and_back() { took "SELECT claims.switch_transfer('$1', 'test')" "SELECT claims.reverse_transfer('$1', 'test')"; }
of_ten=$(there_and_back "$small"); of_all=$(there_and_back "$large")
echo "a switch of $claims claims: $of_all ms; of ten: $of_ten ms"
expect 'it takes as long as that of ten claims' "$(at_most 2 5 "$of_ten" "$of_all")" yes

sql "SELECT claims.switch_transfer('$large', 'test')" >/dev/null
calls=0 finished=f
while [ $finished = f ]; do
  calls=$((calls + 1))
  finished=$(sql "SELECT finished FROM claims.finish_transfer('$large', '0')")
done
expect 'finish works in steps' "$([ $calls -gt $((claims / 10000)) ] && echo yes || echo $calls)" yes
expect 'they are claims of the new cell' "$(sql "SELECT creator_id, status, count(*) FROM claims.claims WHERE subject_id = '9970' GROUP BY 1, 2") $(sql 'SELECT count(*) FROM claims.check()')" "2|1|$claims 0"
