#!/usr/bin/env bash
# Every admin action leaves a row in claims.admin_log and a line in the server's log, with roles, arguments, reason and counts. The test reads from
# the catalog and from src/ which functions are admin actions: a new one fails here until it is tested, or listed as none.
. "$(dirname "$0")/../cells.bash"

# At PostgreSQL's own default a line of level LOG is written.
start_cells -c shared_preload_libraries=claims -c log_min_messages=warning
for cluster in shared cell1; do
  at $cluster "CREATE ROLE claims_admin LOGIN PASSWORD '$CELLS_PASSWORD'; CREATE ROLE claims_boss; GRANT postgres TO claims_boss; GRANT claims_boss TO claims_admin; CREATE ROLE somebody" >/dev/null
done
# The administrator logs in as one role, and acts as another one.
as_boss() { ( use_cluster "$1"; export PGUSER=claims_admin; sql "SET ROLE claims_boss; $2" ) }
rows() { at "$1" 'SELECT count(*) FROM claims.admin_log'; }
log_size() { stat -c %s "${CLUSTER_DIR[$1]}/log"; }
# logged CLUSTER BYTES: the lines about acts that the log has since then, and the line with the DETAIL of each.
logged() { as_server tail -c "+$(($2 + 1))" "${CLUSTER_DIR[$1]}/log" | grep -aE -A1 'LOG:  claims: [a-z_]+ by role ' || true; }

declare -A TRIED=()
# act CLUSTER NAME ARGUMENTS COUNTS CALL: one act, what both logs are to have of its arguments and counts (JSON; - for NULL), and the
# call, which gives the reason by :why.
act() {
  local cluster=$1 name=$2 arguments=$3 counts=$4 call=$5 why='-' before bytes row lines first detail
  case $call in *:why*) why="because of $name" ;; esac
  before=$(rows "$cluster"); bytes=$(log_size "$cluster")
  as_boss "$cluster" "${call//:why/"'$why'"}" >/dev/null
  row=$(at "$cluster" "SELECT session_role, role, action, coalesce(reason, '-'), arguments @> '$arguments', coalesce(counts, '\"-\"') = '${counts/#-/\"-\"}', abs(extract(epoch FROM clock_timestamp() - at)) < 60
                         FROM claims.admin_log ORDER BY id OFFSET $before")
  expect "$name: its row" "$row" "claims_admin|claims_boss|$name|$why|t|t|t"
  lines=$(logged "$cluster" "$bytes")
  first=$(sed -n 's/^.*LOG:  //p' <<<"$lines"); detail=$(sed -n 's/^.*DETAIL:  //p' <<<"$lines")
  expect "$name: its line" "$first" "claims: $name by role \"claims_boss\"$([ "$why" = - ] || printf ': %s' "$why")"
  expect "$name: the same in its DETAIL" "$(at "$cluster" "SELECT format('Session role \"%s\". Arguments: ', session_role), arguments = '$(sed -E 's/\. Counts: \{[^{}]*\}$//; s/^.*Arguments: //' <<<"$detail" | sed "s/'/''/g")',
                                                              counts IS NOT DISTINCT FROM nullif('$(sed -nE 's/^.*\. Counts: (\{.*\})$/\1/p' <<<"$detail")', '')::jsonb FROM claims.admin_log ORDER BY id OFFSET $before")" "${detail%%\{*}|t|t"
  TRIED[$name]=1
}
# leaves_nothing WHAT CALL: neither a row nor a line; the call may fail.
leaves_nothing() {
  local before bytes
  before=$(rows shared); bytes=$(log_size shared)
  as_boss shared "$2" >/dev/null 2>&1 || true
  expect "$1" "$(($(rows shared) - before)) $(logged shared "$bytes")" '0 '
}

# --- at the service ------------------------------------------------------------------------------------------------

act shared register_cell '{"cell_id": 3, "role_name": "somebody", "name": "three", "address": "https://three.example"}' - "SELECT claims.register_cell(3, 'somebody', 'three', 'https://three.example')"
for kind in read worker monitor; do
  act shared "grant_$kind" '{"role_name": "somebody"}' - "SELECT claims.grant_$kind('somebody')"
  act shared "revoke_$kind" '{"role_name": "somebody"}' - "SELECT claims.revoke_$kind('somebody')"
done
act shared refresh_grants '{}' - 'SELECT claims.refresh_grants()'
act shared add_bucket_type '{"id": 200, "name": "HANDLES", "profile": "exact", "confusables": "allow"}' - "SELECT claims.add_bucket_type(200, 'HANDLES')"
act shared add_subject_type '{"id": 200, "name": "TEAM"}' - "SELECT claims.add_subject_type(200, 'TEAM')"
act shared add_source_type '{"id": 200, "name": "RAILS_TABLE_TEAMS"}' - "SELECT claims.add_source_type(200, 'RAILS_TABLE_TEAMS')"
act shared rename_type '{"kind": "subject", "id": 200, "name": "CREW"}' - "SELECT claims.rename_type('subject', 200, 'CREW')"
act shared set_mode '{"mode": "settle_only", "cell_id": 3}' - "SELECT claims.set_mode('settle_only', :why, 3)"
act shared set_mode '{"mode": "open", "cell_id": null}' - "SELECT claims.set_mode('open', :why)"
act shared set_mode '{"mode": "open", "cell_id": 3}' - "SELECT claims.set_mode('open', :why, 3)"
act shared set_cell_limits '{"cell_id": 3, "max_outstanding": 7, "max_batch_size": 8, "begins_per_second": 9, "max_priority": 10}' - "SELECT claims.set_cell_limits(3, :why, 7, 8, 9, 10)"
act shared reserve_names '{"bucket_type": "HANDLES", "bucket_values": ["Root", "Admin"]}' '{"reserved": 2}' "SELECT claims.reserve_names('HANDLES', '{Root,Admin}', :why)"
act shared erase_name '{"bucket_type": "HANDLES"}' '{"rows": 0}' "SELECT claims.erase_name('HANDLES', 'nobody', :why)"
act shared forget_erasure_key '{}' - "SELECT claims.forget_erasure_key(:why)"
act shared reserve_names '{"bucket_values": ["Root", "More"]}' '{"reserved": 1}' "SELECT claims.reserve_names('HANDLES', '{Root,More}', :why)"
act shared unreserve_names '{"bucket_type": "HANDLES", "bucket_values": ["Root", "Nobody"]}' '{"freed": 1}' "SELECT claims.unreserve_names('HANDLES', '{Root,Nobody}', :why)"
act shared set_quarantine '{"bucket_type": "HANDLES", "keep_for": "1 day", "reclaim": "cell"}' - "SELECT claims.set_quarantine('HANDLES', '1 day', :why, 'cell')"
act shared release_quarantine '{"bucket_type": "HANDLES", "bucket_values": ["None"]}' '{"released": 0}' "SELECT claims.release_quarantine('HANDLES', '{None}', :why)"
act shared hand_over '{"bucket_type": "HANDLES", "bucket_value": "Given", "to_cell": 3, "subject_type": "GROUP", "subject_id": "1", "source_type": "RAILS_TABLE_ROUTES", "source_id": "2"}' - "SELECT claims.hand_over('HANDLES', 'Given', 3, 'GROUP', '1', 'RAILS_TABLE_ROUTES', '2', :why)"
at shared "DELETE FROM claims.claims WHERE bucket_value = 'Given'"
leaves_nothing 'set_profile: a dry run' "SELECT * FROM claims.set_profile('HANDLES', 'casefold', 'a look')"
act shared set_profile '{"bucket_type": "HANDLES", "profile": "casefold", "confusables": null}' '{"renamed": 2}' "SELECT * FROM claims.set_profile('HANDLES', 'casefold', :why, dry_run => false)"

begin 2 1 forced
act shared force_rollback "{\"cell_id\": 2, \"lease_uuid\": \"$(lease 1)\"}" '{"freed": 1, "kept": 0}' "SELECT claims.force_rollback(2, '$(lease 1)', :why)"
( use_cluster shared; have 3 a b c )
leaves_nothing 'release_records: a dry run' "SELECT claims.release_records(3, 'a look', dry_run => true)"
leaves_nothing 'remove_cell: refused' "SELECT claims.remove_cell(3, 'too early')"
leaves_nothing 'remove_cell: without a reason' "SELECT claims.remove_cell(3, '')"
act shared release_records '{"cell_id": 3, "max_results": 2}' '{"released": 2}' 'SELECT claims.release_records(3, :why, 2)'
act shared release_records '{"cell_id": 3, "max_results": 10000}' '{"released": 1}' 'SELECT claims.release_records(3, :why)'
act shared remove_cell '{"cell_id": 3}' - 'SELECT claims.remove_cell(3, :why)'

( use_cluster shared; have 1 d e f )
begin 1 2 leased
prepare="SELECT * FROM claims.prepare_transfer('$(lease 9)', 1, 2, '[{\"type\": \"GROUP\", \"ids\": [1]}]', :why)"
transfer="{\"transfer_uuid\": \"$(lease 9)\"}"
act shared prepare_transfer "{\"transfer_uuid\": \"$(lease 9)\", \"from_cell\": 1, \"to_cell\": 2, \"subjects\": 1}" '{"marked": 3, "skipped": 1}' "$prepare"
as_cell 1 "SELECT claims.rollback_update(1, '$(lease 2)')" >/dev/null
act shared prepare_transfer "$transfer" '{"marked": 0, "skipped": 0}' "$prepare"
act shared switch_transfer "$transfer" '{"moved": 3}' "SELECT claims.switch_transfer('$(lease 9)', :why)"
act shared switch_transfer "$transfer" '{"moved": 0}' "SELECT claims.switch_transfer('$(lease 9)', :why)"
act shared reverse_transfer "$transfer" '{"moved": 3}' "SELECT claims.reverse_transfer('$(lease 9)', :why)"
act shared switch_transfer "$transfer" '{"moved": 3}' "SELECT claims.switch_transfer('$(lease 9)', :why)"
act shared finish_transfer "$transfer" '{"moved": 3}' "SELECT * FROM claims.finish_transfer('$(lease 9)')"
as_boss shared "SELECT * FROM claims.prepare_transfer('$(lease 8)', 2, 1, '[{\"type\": \"GROUP\", \"ids\": [1]}]', 'back')" >/dev/null
act shared cancel_transfer "{\"transfer_uuid\": \"$(lease 8)\"}" '{"released": 3}' "SELECT * FROM claims.cancel_transfer('$(lease 8)', :why)"

act shared add_id_space '{"name": "rows", "first_id": 1, "last_id": 1000, "block_size": 10}' - "SELECT claims.add_id_space('rows', :why, 1, 1000, 10)"
act shared restore_id_range '{"cell_id": 1, "id_space": "rows", "first_id": 5, "last_id": 9}' - "SELECT claims.restore_id_range(1, 'rows', 5, 9, :why)"

# An action that is rolled back has a line and no row.
before=$(rows shared) bytes=$(log_size shared)
as_boss shared "BEGIN; SELECT claims.set_mode('read_only', 'never mind'); ROLLBACK" >/dev/null
expect 'rolled back: a line, and no row' "$(($(rows shared) - before)) $(logged shared "$bytes" | grep -c 'set_mode by role "claims_boss": never mind')" '0 1'

# --- in a cell -----------------------------------------------------------------------------------------------------

act cell1 skip_capture '{}' - 'SELECT claims.skip_capture(:why)'
at cell1 "CREATE EXTENSION postgres_fdw; CREATE SERVER other FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1'); CREATE SERVER third FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1')"
act cell1 add_service '{"server_name": "other"}' - "SELECT claims.add_service('other', :why)"
act cell1 remove_service '{"server_name": "other"}' - "SELECT claims.remove_service('other', :why)"
act cell1 add_service '{"server_name": "third"}' - "SELECT claims.attend(1, 'third')"
at cell1 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id')" >/dev/null
act cell1 set_enforcement '{"attribute": "name", "mode": "observe", "share": "10", "declaration": null}' - "SELECT claims.set_enforcement('routes', 'name', 'observe', :why, 10)"
before=$(rows shared) bytes=$(log_size shared)
act cell1 adopt_cell '{"cell_id": 1, "service": "service"}' - "SELECT claims.adopt_cell(1, 'service', :why)"
expect 'adopt_cell: its row at the service' "$(at shared "SELECT session_role, role, action, arguments, reason FROM claims.admin_log ORDER BY id OFFSET $before")" 'cell1|cell1|adopt_cell|{"cell_id": 1}|because of adopt_cell'
expect 'adopt_cell: its line there' "$(logged shared "$bytes" | grep -c 'adopt_cell by role "cell1": because of adopt_cell')" 1

at shared "CREATE TABLE people (id bigint PRIMARY KEY, email text); INSERT INTO people VALUES (1, 'a'), (2, 'b')"
act shared add_unique '{"name": "email", "column_name": "email", "profile": "exact", "condition": "id > 0"}' - "SELECT claims.add_unique('email', '{people}', 'email', condition => 'id > 0', reason => :why)"
act shared import_unique '{"name": "email"}' - "SELECT claims.begin_unique_import('email')"
act shared drop_unique '{"name": "email"}' '{"claims": 2}' "SELECT claims.drop_unique('email', :why)"

# --- were these all? -----------------------------------------------------------------------------------------------

# Not admin actions: functions for several nodes (citus_distributed tests them), purges (claims.passes has them), functions of expiring keys, what
# turns on automatic mode, and internal functions.
none='distribute purge_outcomes purge_changes purge_fences purge_requests purge_admin_log purge_audit purge_transfer_subjects purge_observations purge_uniques purge_quarantine add_expiring remove_expiring automatic_here'
internal='change_grants hold_slot_on_node change_capture_triggers change_request_triggers service_validator buckets_in_flight is_lease_in_flight is_look_in_flight is_look_reserved find_distributed_problems keep_pace take_change_places service_calls declare_unique claim_unique_values purge_given_up renew_generations begin_unique_import import_unique_step'
{ printf '%s\n' "${!TRIED[@]}"; tr -s ' \n' '\n' <<<"$none $internal"; } | sed '/^$/d' | LC_ALL=C sort -u >"$CLAIMS_TMP/known"
# Found by name in the code; by a reason, or by rights of administrators only, in the catalog.
{ grep -rhoE 'AdminAction::(begin|without_reason|of_cell)\("[a-z_]+"' src | sed -E 's/.*"(.*)"/\1/'
  at shared "SELECT p.proname FROM pg_proc p
              WHERE p.pronamespace = 'claims'::regnamespace AND p.prokind = 'f' AND p.provolatile = 'v' AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
                AND ('reason' = ANY (p.proargnames[1:p.pronargs]) OR NOT EXISTS (SELECT FROM claims.audiences a WHERE a.function_name = p.proname))"
} | LC_ALL=C sort -u >"$CLAIMS_TMP/acts"
expect 'there are acts in the code' "$(grep -rhoE 'AdminAction::(begin|without_reason|of_cell)\(' src | wc -l | awk '{ print ($1 > 15) }')" 1
expect 'every administrative function is tried here, or is none' "$(LC_ALL=C comm -13 "$CLAIMS_TMP/known" "$CLAIMS_TMP/acts" | tr '\n' ' ')" ''
expect 'what is said to be none is there' "$(LC_ALL=C comm -23 "$CLAIMS_TMP/known" "$CLAIMS_TMP/acts" | tr '\n' ' ')" ''
