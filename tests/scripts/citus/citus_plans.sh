#!/usr/bin/env bash
# Distributed claims give the same answers in whatever plan their functions are called: in a parallel one, where PostgreSQL would have a
# parallel worker call what is PARALLEL SAFE, and under each plan_cache_mode and without Citus's fast path. In one database parallel workers call what only
# reads; queries with the functions of distributed claims are not parallel.
. "$(dirname "$0")/../citus.bash"

citus_cluster 2
citus_service
sql "SELECT claims.commit_update(1, claims.begin_update(1, $(numbered name 500)))" >/dev/null
sql "SELECT claims.begin_update(1, $(claims_of held))" >/dev/null

# --- parallel plans -----------------------------------------------------------------------------------------------------------
# Two hundred names, of which one hundred are claimed, on the coordinator and on a worker.
names() {
  psql -Xq -v ON_ERROR_STOP=1 -c 'SET citus.enable_ddl_propagation = off' -c 'CREATE TABLE public.names (name text) WITH (parallel_workers = 2)' \
    -c "INSERT INTO public.names SELECT 'name-' || n FROM generate_series(401, 600) n" -c 'ANALYZE public.names'
}
names
(on_worker 1; names)
calls=(
  "SELECT count(r.uuid) FROM public.names n CROSS JOIN LATERAL claims.get_record('ROUTES', n.name) r"
  "SELECT count(r.uuid) FROM public.names n CROSS JOIN LATERAL claims.get_records(jsonb_build_array(jsonb_build_object('type', 'ROUTES', 'value', n.name))) r"
  "SELECT count(r.lease_uuid) FROM public.names n CROSS JOIN LATERAL claims.list_leases(1, max_results => length(n.name)) r"
  "SELECT count(r.uuid) FROM public.names n CROSS JOIN LATERAL claims.list_records(1, max_results => length(n.name)) r"
  "SELECT count(claims.canonical('ROUTES', n.name)) FROM public.names n"
  "SELECT count(r.id) FROM public.names n CROSS JOIN LATERAL claims.list_types() r WHERE r.name <> n.name"
  "SELECT count(r.cell_id) FROM public.names n CROSS JOIN LATERAL claims.list_cells() r WHERE r.name <> n.name"
)
answers=(100 100 200 1600 200 8000 400)
in_parallel="SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2; SET parallel_leader_participation = off"
# answer QUERY: where it may be, in a parallel plan, in which two workers were launched.
answer() {
  psql -XqAt -v VERBOSITY=terse -c "$in_parallel" -c "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $1" 2>&1 | grep -q 'Workers Launched: [12]' || [ "$(safety)" != s ] || echo 'not in parallel'
  psql -XqAt -v VERBOSITY=sqlstate -c "$in_parallel" -c "$1" 2>&1
}
# Whether parallel workers call the function: then it is below the Gather.
called_by() { psql -XqAt -c "$in_parallel" -c "EXPLAIN (COSTS OFF) $1" | awk '/Gather/ { gather = match($0, /[^ ]/) } /Function Scan on get_record/ { print (gather && match($0, /[^ ]/) > gather + 4 ? "workers" : "leader") }'; }
answers_on() {
  local nth
  for nth in "${!calls[@]}"; do expect "$1, in parallel: ${calls[$nth]}" "$(answer "${calls[$nth]}")" "${answers[$nth]}"; done
}
safety() { sql "SELECT string_agg(DISTINCT proparallel::text, ',') FROM pg_proc WHERE pronamespace = 'claims'::regnamespace AND provolatile = 's' AND proname ~ '^(get|list)_(record|records|leases|types|cells)\$'"; }

expect 'one database: workers call it' "$(called_by "${calls[0]}")" workers
answers_on 'one database'
citus_spread 8
for node in on_coordinator 'on_worker 1'; do
  expect "functions on $node" "$($node; safety)" u
  expect "on $node no worker calls it" "$($node; called_by "${calls[0]}")" leader
  for above in "SELECT count(r.uuid) FROM (SELECT name FROM public.names ORDER BY name) n CROSS JOIN LATERAL claims.get_record('ROUTES', n.name) r" \
    "SELECT count(claims.canonical('ROUTES', n.name)) FROM (SELECT name, count(*) FROM public.names GROUP BY name) n" \
    "SELECT (SELECT count(*) FROM public.names) + (SELECT count(*) FROM claims.get_record('ROUTES', 'name-7')) + (SELECT count(*) FROM claims.list_records(1, max_results => 1))" \
    "SELECT count(*) FROM public.names n WHERE EXISTS (SELECT FROM claims.get_record('ROUTES', n.name))"; do
    expect "on $node, above a plan that could be parallel: $above" "$($node; psql -XqAt -v VERBOSITY=verbose -c "$in_parallel" -c "$above" 2>&1 | grep -c ERROR || true)" 0
  done
  ($node; answers_on "$node")
  expect "what the transaction has written on $node" "$($node; psql -XqAt -c "$in_parallel" -c BEGIN -c "SELECT count(*) FROM claims.try_begin_update(1, $(numbered name 510 501))" -c "${calls[0]}" -c ROLLBACK)" $'1\n110'
done
# A node that came later has the functions as they are installed, until its grants are refreshed.
citus_start worker3
citus_join worker3
on_worker 3
names
expect 'a new node' "$(safety)" s
expect 'a parallel worker there refuses' "$(psql -XqAt -v VERBOSITY=verbose -c "$in_parallel" -c "${calls[0]}" 2>&1 | sed -nE 's/^(ERROR:  25000|HINT): +//p' | head -2)" \
  $'distributed claims cannot be read by a parallel worker\nCall claims.refresh_grants() on the coordinator: then no query that calls the functions is parallel, on every node.'
on_coordinator
sql 'SELECT claims.refresh_grants()' >/dev/null
(on_worker 3; expect 'and after refresh_grants()' "$(safety)" u; answers_on 'a new node')

# --- plan_cache_mode ------------------------------------------------------------------------------------------------------------
# everything NODE: what nearly all cells and routers call, twice: plans are kept.
everything() {
  local turn
  for turn in 1 2; do
    printf '%s;\n' \
      "SELECT count(*) FROM claims.get_record('ROUTES', 'name-7')" \
      "SELECT count(*) FROM claims.get_records('[{\"type\": \"ROUTES\", \"value\": \"name-7\"}, {\"type\": \"ROUTES\", \"value\": \"name-8\"}]')" \
      "SELECT count(*) FROM claims.list_records(1, source_id_gt => '400', source_id_lte => '409')" \
      "SELECT count(*) FROM claims.list_leases(1)" \
      "SELECT count(*) FROM claims.list_types()" \
      "SELECT count(*) FROM claims.list_cells()" \
      "SELECT claims.canonical('ROUTES', 'name-7')" \
      "SELECT records FROM claims.digest_records(1, 'RAILS_TABLE_ROUTES', '400', '409')" \
      "SELECT claims.commit_update(1, claims.begin_update(1, $(claims_of "$1-$turn-one")))" \
      "SELECT claims.commit_update(1, claims.begin_update(1, $(numbered "$1-$turn" 30)))" \
      "SELECT claims.rollback_update(1, claims.begin_update(1, $(claims_of "$1-$turn-other"), $(buckets_of "$1-$turn-1" "$1-$turn-2")))" \
      "SELECT claims.commit_update(1, claims.begin_update(1, destroy_records => $(buckets_of "$1-$turn-1" "$1-$turn-2")))" \
      "SELECT string_agg(c ->> 'reason', ' ') FROM claims.try_begin_update(2, $(claims_of name-7 held)) x, jsonb_array_elements(x.conflicts) c" \
      "SELECT chosen FROM claims.begin_first(1, '[{\"create_records\": [$(claim name-7)]}, {\"create_records\": [$(claim "$1-$turn-first")]}]')" \
      "SELECT count(*) FROM claims.settle_leases(1, rollback_leases => ARRAY(SELECT lease_uuid FROM claims.list_leases(1) WHERE payload::text LIKE '%$1-$turn-first%'))" \
      "SELECT claims.rollback_update(1, claims.begin_update(1, $(claims_of "$1-$turn-x"), lease_uuid => '$(lease "$2$turn")'))" \
      "SELECT claims.lease_outcome(1, '$(lease "$2$turn")')" \
      "SELECT count(*) FROM claims.lease_details(bucket_type => 'ROUTES', bucket_value => 'held')" \
      "SELECT count(*) FROM claims.check()" \
      "SELECT count(*) > 20 FROM claims.metrics()" \
      "SELECT count(*) FROM claims.list_changes()"
  done
}
run() { $1; everything "$2" "$3" | psql -XqAt -v VERBOSITY=sqlstate -c "SET plan_cache_mode = $4" -f - 2>&1; }
for node in on_coordinator 'on_worker 2'; do
  number=$((${number:-10} + 10))
  wanted=$(run "$node" "${node// /-}-auto" "$number" auto)
  expect "on $node nothing fails" "$(grep -c ERROR <<<"$wanted" || true)" 0
  for mode in force_generic_plan force_custom_plan; do
    number=$((number + 1))
    expect "$mode on $node" "$(run "$node" "${node// /-}-$mode" "$number" $mode)" "$wanted"
  done
done
for node in on_coordinator 'on_worker 2'; do
  number=$((number + 10))
  slow=$($node; { echo 'SET citus.enable_fast_path_router_planner = off;'; everything "${node// /-}-slow" "$number"; echo 'RESET citus.enable_fast_path_router_planner;'; everything "${node// /-}-fast" "$((number + 1))"; } | psql -XqAt -v VERBOSITY=sqlstate 2>&1)
  expect "without Citus's fast path, and with it again, on $node" "$(grep -c ERROR <<<"$slow" || true)" 0
done
settings="SELECT string_agg(current_setting(s), ' ') FROM unnest('{plan_cache_mode,client_encoding}'::text[]) s"
on_coordinator
expect 'the setting stays' "$(psql -XqAt -c 'SET plan_cache_mode = force_generic_plan' -c "SELECT count(*) FROM claims.get_record('ROUTES', 'name-7')" -c "$settings")" $'1\nforce_generic_plan UTF8'
# Administrators too.
admin() {
  printf '%s;\n' "SELECT claims.add_bucket_type($1, 'T$1', 'casefold')" "SELECT claims.rename_type('bucket', $1, 'U$1')" "SELECT claims.register_cell($1, 'script_claims_two')" \
    "SELECT claims.set_mode('read_only', 'a test', $1)" "SELECT claims.set_mode('open', 'a test', $1)" "SELECT claims.set_cell_limits($1, 'a test', 5)" \
    "SELECT claims.reserve_names('U$1', '{admin,root}', 'a test')" "SELECT claims.unreserve_names('U$1', '{admin,root}', 'a test')" \
    "SELECT claims.remove_cell($1, 'a test')" "SELECT count(*) FROM claims.set_profile('U$1', 'exact', 'a test', dry_run => false)" "SELECT claims.purge_outcomes()" \
    "SELECT claims.grant_read('script_claims_router')" 'SELECT claims.refresh_grants()' "SELECT * FROM claims.prepare_transfer('$(lease "$1")', 1, 2, '[{\"type\": \"GROUP\", \"ids\": [424242]}]', 'a test')" \
    "SELECT claims.cancel_transfer('$(lease "$1")', 'a test')"
}
expect 'what administrators call' "$(admin 101 | psql -XqAt -v VERBOSITY=sqlstate -c 'SET plan_cache_mode = force_generic_plan' -f - 2>&1)" "$(admin 102 | psql -XqAt -v VERBOSITY=sqlstate 2>&1)"
settle_all
expect_clean 'in the end'
echo ok
