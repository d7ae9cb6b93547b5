#!/usr/bin/env bash
# The audit log: refused begins and denied calls reach it through shared memory, with what is lost counted; settled leases are exact, whatever crashes;
# the worker purges what is old; a dump has the log.
. "$(dirname "$0")/../cells.bash"

start_cells -c shared_preload_libraries=claims -c claims.databases=postgres
at shared "ALTER DATABASE postgres SET claims.audit = 'all'"
log() { at shared "SELECT count(*) FROM claims.audit_log WHERE $1"; }
batch() { printf '[%s]' "$(claim "$1")"; }

# --- refusals and denials ------------------------------------------------------------------------------------------------

as_cell 1 "SELECT claims.commit_update(1, claims.begin_update(1, '$(batch ada)', lease_uuid => '$(lease 1)'))" >/dev/null
expect 'taken' "$(state_as_cell 2 "SELECT claims.begin_update(2, '$(batch ada)', lease_uuid => '$(lease 2)')")" 23505
expect 'taken, without an error' "$(as_cell 2 "SELECT lease_uuid IS NULL FROM claims.try_begin_update(2, '$(batch ada)')")" t
expect 'another cell' "$(state_as_cell 2 "SELECT claims.begin_update(1, '$(batch bob)')")" 42501
expect 'all cells' "$(state_as_cell 2 "SELECT * FROM claims.list_leases(NULL)")" 42501
expect 'the worker records them' "$(wait_for 4 log "what IN ('refused', 'denied')")" 4
expect 'a refused begin: the cell, the lease, the name, the conflict' \
  "$(at shared "SELECT cell_id, lease_uuid, ops, bucket_types, bucket_values, conflict #>> '{conflicts,0,reason}', conflict #>> '{conflicts,0,holder_cell_id}', conflict ->> 'omitted' FROM claims.audit_log WHERE what = 'refused' ORDER BY at LIMIT 1")" \
  "2|$(lease 2)|{create}|{ROUTES}|{ada}|taken|1|0"
expect 'who it was, and when' "$(at shared "SELECT DISTINCT session_role, client_address IS NULL, application_name, at BETWEEN now() - interval '10 min' AND now() FROM claims.audit_log WHERE what IN ('refused', 'denied')")" 'cell2|t|psql|t'
expect 'denied calls' "$(at shared "SELECT string_agg(coalesce(cell_id::text, 'none'), ' ' ORDER BY at) FROM claims.audit_log WHERE what = 'denied'")" '1 none'
# What the client said, and the subject that it wanted.
( export PGOPTIONS='-c claims.context=in_vain'; as_cell 2 "SELECT count(*) FROM claims.try_begin_update(2, '$(batch ada)')" >/dev/null; state_as_cell 2 "SELECT claims.begin_update(1, '$(batch bob)')" >/dev/null )
said() { at shared "SELECT string_agg(format('%s %s %s', what, subjects, sources), '; ' ORDER BY at) FROM claims.audit_log WHERE context = 'in_vain'"; }
expect 'who says to have been refused and denied' "$(wait_for 'refused {"GROUP 1"} {"RAILS_TABLE_ROUTES 1"}; denied  ' said)" 'refused {"GROUP 1"} {"RAILS_TABLE_ROUTES 1"}; denied  '
# A name is erased also where another one was refused for looking like it.
at shared "SELECT claims.add_bucket_type(100, 'HANDLES', 'casefold', 'reject')" >/dev/null
handle() { claim "$1" | sed 's/ROUTES/HANDLES/'; }
as_cell 1 "SELECT claims.commit_update(1, claims.begin_update(1, '[$(handle paypal)]'))" >/dev/null
as_cell 2 "SELECT count(*) FROM claims.try_begin_update(2, '[$(handle 'раураl')]')" >/dev/null
looks_like() { log "conflict #>> '{conflicts,0,similar_to}' = '$1'"; }
expect 'a name that looks like another one' "$(wait_for 1 looks_like paypal)" 1
as_cell 1 "SELECT claims.commit_update(1, claims.begin_update(1, '[]', '[$(bucket paypal | sed 's/ROUTES/HANDLES/')]'))" >/dev/null
at shared "SELECT * FROM claims.erase_name('HANDLES', 'PayPal', 'a test')" >/dev/null
expect 'is not in the log any more' "$(looks_like paypal) $(log "audit_log::text ILIKE '%paypal%'")" '0 0'
# Over the network, as cells come.
at cell2 "ALTER TABLE routes OWNER TO app"
as_app 2 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'), claims.automatic(2, 'service')" >/dev/null
expect 'a save of a cell is refused' "$(state_as_app 2 "INSERT INTO routes (name) VALUES ('ada')")" 23505
expect 'and recorded, with its address' "$(wait_for 1 log "what = 'refused' AND client_address = '127.0.0.1' AND application_name LIKE 'claims cell%'")" 1
as_app 2 "INSERT INTO routes (name) VALUES ('grace')"
expect 'as is a save' "$(wait_for 1 log "what = 'committed' AND client_address = '127.0.0.1' AND bucket_values = '{grace}' AND cell_id = 2")" 1
# Many conflicts: the first of them, and the number of the others.
names=$(seq -f 'name%.0f' 1 30)
# shellcheck disable=SC2086
( use_cluster shared; have 1 $names )
as_cell 2 "SELECT count(*) FROM claims.try_begin_update(2, '[$(for name in $names; do claim "$name"; echo; done | paste -sd,)]')" >/dev/null
expect 'thirty conflicts' "$(wait_for '20|10' at shared "SELECT cardinality(bucket_values), conflict ->> 'omitted' FROM claims.audit_log WHERE what = 'refused' AND cardinality(bucket_values) > 1")" '20|10'

# --- under load ----------------------------------------------------------------------------------------------------------

cat >"$CLAIMS_TMP/refused.sql" <<SQL
SELECT count(*) FROM claims.try_begin_update(2, '$(batch ada)');
SQL
before=$(log "what = 'refused'")
calls=5000
( use_cluster shared; PGUSER=cell2 pgbench -n -c 4 -j 2 -t $((calls / 4)) -f "$CLAIMS_TMP/refused.sql" postgres >/dev/null 2>&1 )
total() { at shared "SELECT (SELECT count(*) FROM claims.audit_log WHERE what = 'refused') - $before + (SELECT coalesce(sum((conflict ->> 'lost')::bigint), 0) FROM claims.audit_log WHERE what = 'lost')"; }
expect 'each is recorded, or counted as lost' "$(wait_for $calls total)" $calls
expect 'at most one in a hundred is lost' "$(at shared "SELECT coalesce(sum((conflict ->> 'lost')::bigint), 0) <= $calls / 100 FROM claims.audit_log WHERE what = 'lost'")" t

# Without the worker they fill the room that there is, and what comes then is counted.
at shared "ALTER SYSTEM SET claims.databases = ''"; at shared 'SELECT pg_reload_conf()' >/dev/null
expect 'no worker' "$(wait_for 0 at shared "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'claims worker'")" 0
before=$(log "what = 'refused'") lost=$(at shared "SELECT coalesce(sum((conflict ->> 'lost')::bigint), 0) FROM claims.audit_log WHERE what = 'lost'")
( use_cluster shared; PGUSER=cell2 pgbench -n -c 2 -j 2 -t $((calls / 2)) -f "$CLAIMS_TMP/refused.sql" postgres >/dev/null 2>&1 )
expect 'nothing is recorded' "$(log "what = 'refused'")" "$before"
at shared 'ALTER SYSTEM RESET claims.databases'; at shared 'SELECT pg_reload_conf()' >/dev/null
expect 'the worker records what there was room for, and counts the others' "$(wait_for $((calls + lost)) total)" $((calls + lost))
expect 'some are lost' "$(at shared "SELECT sum((conflict ->> 'lost')::bigint) > $lost FROM claims.audit_log WHERE what = 'lost'")" t

of_metric() { at shared "SELECT value FROM claims.metrics() WHERE name = '$1'"; }
expect 'metrics count those that are lost' "$(of_metric claims_audit_lost_total)" "$(at shared "SELECT sum((conflict ->> 'lost')::bigint) FROM claims.audit_log WHERE what = 'lost'")"
expect 'and all' "$(of_metric claims_audit_refusals_total)" "$(at shared "SELECT (SELECT count(*) FROM claims.audit_log WHERE what IN ('refused', 'denied')) + (SELECT sum((conflict ->> 'lost')::bigint) FROM claims.audit_log WHERE what = 'lost')")"

# --- what is too long, and what is too much -----------------------------------------------------------------------------

# A long description is cut, and never lost: escaped control characters take six bytes each.
at shared "SELECT claims.commit_update(1, claims.begin_update(1, (SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', n || repeat(chr(1), 1000)),
  'subject', '{\"type\": \"GROUP\", \"id\": 1}'::jsonb, 'source', '{\"type\": \"RAILS_TABLE_ROUTES\", \"id\": 1}'::jsonb)) FROM generate_series(1, 3) n)))" >/dev/null
expect 'names of control characters are refused' "$(state_as_cell 2 "SELECT claims.begin_update(2, (SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', n || repeat(chr(1), 1000)),
  'subject', '{\"type\": \"GROUP\", \"id\": 1}'::jsonb, 'source', '{\"type\": \"RAILS_TABLE_ROUTES\", \"id\": 1}'::jsonb)) FROM generate_series(1, 3) n))")" 23505
expect 'the first one is recorded' "$(wait_for '1|2' at shared "SELECT cardinality(bucket_values), conflict ->> 'omitted' FROM claims.audit_log WHERE what = 'refused' AND length(bucket_values[1]) > 1000")" '1|2'

# Denied calls and fences beyond the rate of a cell are counted for it, and told of although nothing more happens.
lost_of() { at shared "SELECT coalesce(sum((conflict ->> 'lost')::bigint), 0) FROM claims.audit_log WHERE what = 'lost' AND cell_id $1"; }
at shared "SELECT claims.set_cell_limits(1, 'a test', refusals_per_second => 1)" >/dev/null
as_cell 1 "SELECT count(*) FROM claims.settle_leases(1, '{}', (SELECT array_agg(gen_random_uuid()) FROM generate_series(1, 5000)))" >/dev/null
fences=$(log "what = 'fenced' AND cell_id = 1")
expect 'few of 5000 fences have rows' "$([ "$fences" -ge 1 ] && [ "$fences" -lt 100 ] && echo few || echo "$fences")" few
expect 'the others are counted, with their cell' "$(wait_for $((5000 - fences)) lost_of '= 1')" $((5000 - fences))
at shared "SELECT claims.set_cell_limits(1, 'done')" >/dev/null
denied=$(log "what = 'denied'")
as_cell 2 "DO \$\$ BEGIN FOR n IN 1..3000 LOOP BEGIN PERFORM claims.lease_outcome(77000 + n, gen_random_uuid()); EXCEPTION WHEN insufficient_privilege THEN NULL; END; END LOOP; END \$\$" >/dev/null
told() { echo $(($(log "what = 'denied'") - denied + $(lost_of 'IS NULL'))); }
expect 'denied calls of cells that do not exist are told of together' "$(wait_for 3000 told)" 3000
expect 'most of them as a number' "$([ "$(lost_of 'IS NULL')" -gt 0 ] && echo some)" some

# --- exact, whatever crashes ---------------------------------------------------------------------------------------------

at shared 'TRUNCATE claims.audit_log'
cat >"$CLAIMS_TMP/save.sql" <<'SQL'
\set n random(1, 1000000000)
SELECT claims.commit_update(1, claims.begin_update(1, jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES',
  'value', 'load/' || :n || '/' || :client_id), 'subject', '{"type": "GROUP", "id": 1}'::jsonb, 'source', '{"type": "RAILS_TABLE_ROUTES", "id": 1}'::jsonb))));
SQL
since=$(at shared 'SELECT clock_timestamp()')
( use_cluster shared; PGUSER=cell1 pgbench -n -c 4 -j 2 -T 600 -f "$CLAIMS_TMP/save.sql" postgres >/dev/null 2>&1 ) & load=$!
wait_until eval "[ \"\$(log true)\" -gt 200 ]"
crash shared
wait $load || true
resume shared
same="SELECT lease_uuid, outcome FROM claims.lease_outcomes WHERE settled_at >= '$since'"
rows='SELECT lease_uuid, what FROM claims.audit_log'
expect 'after a crash the log has the outcomes, and no others' "$(at shared "($same EXCEPT $rows) UNION ALL ($rows EXCEPT $same)")" ''
expect 'each once' "$(at shared 'SELECT count(*) - count(DISTINCT lease_uuid) FROM claims.audit_log')" 0

# --- one query of the runbook, with its indexes ------------------------------------------------------------------------------

name=$(at shared 'SELECT bucket_values[1] FROM claims.audit_log LIMIT 1')
question="SELECT at, cell_id, what, session_role, client_address, application_name, lease_uuid, ops, bucket_types, bucket_values, conflict FROM claims.audit_log WHERE at >= '2026-01-01' AND (bucket_values @> ARRAY['$name'] OR session_role = 'cell2') ORDER BY at, id"
expect 'the runbook has this query' "$(grep -cF "${question//$name/gitlab-org}" <(sed "s/session_role = 'north'/session_role = 'cell2'/" "$CLAIMS_ROOT/docs/runbook.md"))" 1
expect 'everything about a name and a role' "$(at shared "SELECT count(*) FROM ($question) q")" 1
at shared 'CREATE INDEX CONCURRENTLY audit_log_names ON claims.audit_log USING gin (bucket_values)'
at shared 'CREATE INDEX CONCURRENTLY audit_log_roles ON claims.audit_log (session_role, at)'
plan=$(at shared "SET enable_seqscan = off; EXPLAIN $question")
expect 'by its indexes' "$(grep -oE 'audit_log_(names|roles)' <<<"$plan" | sort -u | tr '\n' ' ')" 'audit_log_names audit_log_roles '

# --- retention -----------------------------------------------------------------------------------------------------------

at shared "UPDATE claims.audit_log SET at = at - interval '31 days'"
at shared "SELECT claims.set_mode('open', 'old')" >/dev/null
at shared "UPDATE claims.admin_log SET at = at - interval '400 days', id = '01800000-0000-7000-8000-000000000000' WHERE reason = 'old'"
at shared "INSERT INTO claims.requests (queue, entity, request_type, status, created_at, settled_at)
  SELECT 'mail', n::text, CASE WHEN n % 100 = 0 THEN 'create' ELSE 'update' END, CASE WHEN n % 100 = 0 THEN 'error' ELSE 'complete' END, now() - interval '40 days', now() - interval '39 days' FROM generate_series(1, 25000) n; SELECT claims.enqueue_request('mail', 'ada', 'update')" >/dev/null
at shared "INSERT INTO claims.cell_transfers (transfer_uuid, from_cell, to_cell, cell_id, state, subjects, request_digest, reason, role, ended_at)
  VALUES ('$(lease 50)', 1, 2, 2, 'finished', 1, '', 'x', 'x', now() - interval '31 days'); INSERT INTO claims.transfer_subjects VALUES ('$(lease 50)', 1, '1')"
at shared "INSERT INTO claims.observed (table_name, attribute, outcome, count, first_at, last_at)
  SELECT 'claims.cells'::regclass, 'role', 'timeout', 1, now() - interval '100 days', now() - days * interval '1 day' FROM unnest('{91, 89}'::int[]) days"
# purge_now: has the worker purge at its next start. It keeps its intervals over restarts, by the last pass.
purge_now() {
  at shared "UPDATE claims.pass_log SET started_at = started_at - interval '1 hour', ended_at = ended_at - interval '1 hour' WHERE kind = 'purge'"
  at shared "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE backend_type = 'claims worker'" >/dev/null
}
purge_now
expect 'the worker purges the log' "$(wait_for 0 log "at < now() - interval '30 days'")" 0
expect 'admin actions' "$(wait_for 0 at shared "SELECT count(*) FROM claims.admin_log WHERE reason = 'old'")" 0
expect 'subjects of ended transfers' "$(wait_for 0 at shared 'SELECT count(*) FROM claims.transfer_subjects')" 0
expect 'observations' "$(wait_for 1 at shared 'SELECT count(*) FROM claims.observed')" 1
expect 'settled requests, but no failed creates and none that are not settled' "$(wait_for '251|1' at shared "SELECT count(*), count(*) FILTER (WHERE status = 'new') FROM claims.requests")" '251|1'
at shared "INSERT INTO claims.requests (queue, entity, request_type, status, created_at, settled_at) VALUES ('older', 'old', 'update', 'complete', now() - interval '40 days', now() - interval '39 days')"
at shared "ALTER DATABASE postgres SET claims.request_retention = -1"
purges=$(at shared "SELECT count(*) FROM claims.passes WHERE kind = 'purge'")
purge_now
wait_until eval "[ \"\$(at shared \"SELECT count(*) FROM claims.passes WHERE kind = 'purge'\")\" -gt $purges ]"
expect 'with -1 none' "$(at shared "SELECT count(*) FROM claims.requests WHERE entity = 'old'")" 1

# --- dumps -----------------------------------------------------------------------------------------------------------------

as_cell 1 "SELECT claims.commit_update(1, claims.begin_update(1, '$(batch dumped)'))" >/dev/null
( use_cluster shared; pg_dump --format=custom --file="$CLAIMS_TMP/dump" postgres; createdb -T template0 copy; pg_restore --exit-on-error --dbname=copy "$CLAIMS_TMP/dump" )
expect 'a dump has the log' "$(use_cluster shared; psql -XqAt -d copy -c "SELECT count(*) FROM claims.audit_log WHERE bucket_values = '{dumped}'")" 1
