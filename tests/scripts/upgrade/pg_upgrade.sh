#!/usr/bin/env bash
# pg_upgrade of an installation with data, whose owner is no superuser and which came from the last release: to the same major
# version of PostgreSQL, and on to those that this repository has been built for.
. "$(dirname "$0")/upgrade.bash"
. "$(dirname "$0")/pg_upgrade.bash"

db=names fresh=fresh owner=claims_owner
start_cluster before --fast -c log_min_messages=fatal
place=$(cd /tmp && as_server mktemp -d /tmp/claims-pg_upgrade.XXXXXX)
copies=()
trap 'cleanup; rm -rf "$place" ${copies[@]+"${copies[@]}"}' EXIT

# --- before ---------------------------------------------------------------------------------------------------------

fresh_roles
sql "CREATE ROLE $owner SUPERUSER LOGIN"
sql "CREATE DATABASE $db ENCODING 'UTF8' TEMPLATE template0"
sed "s/^CREATE EXTENSION claims .*/SET ROLE $owner; & RESET ROLE;/" "$UPGRADE/data-$OLD.sql" | psql -XqAt -v ON_ERROR_STOP=1 -d $db >/dev/null
draw_past_changes $db
sql "ALTER ROLE $owner NOSUPERUSER"
sql $db "ALTER EXTENSION claims UPDATE"
sql $db "SELECT claims.automatic(NULL, NULL)" >/dev/null
expect 'the owner is no superuser' "$(sql $db "SELECT rolname, rolsuper FROM pg_extension JOIN pg_roles r ON r.oid = extowner WHERE extname = 'claims'")" "$owner|f"
sql $db "SET claims.change_feed = on; SELECT claims.commit_update(2, claims.begin_update(2, '[$(claim told)]'))" >/dev/null
feed_place=$(sql $db 'SELECT cursor FROM claims.list_changes()' | tail -1)
remember_columns $db
rows_of $db "$CLAIMS_TMP/rows.before"
control before stop

# --- and after each upgrade -----------------------------------------------------------------------------------------

# Left out of the comparison: a right that owners of new tables have since PostgreSQL 17, and redundant lines that pg_dump omits:
# initial privileges that are those of every table or function, or of a column's sequence for the superuser who ran it, and the comments of constraints that are triggers,
# or that NOT NULL has become in PostgreSQL 18.
describe_majors() {
  describe "$1" "$2.all"
  sed 's/ MAINTAIN//' "$2.all" | grep -vE '^(table|view|schema|sequence) .* initial privileges OWNER from OWNER: [A-Z ]+$|^function .* initial privileges OWNER from OWNER: EXECUTE; PUBLIC from OWNER: EXECUTE$|^sequence .* initial privileges postgres from OWNER: [A-Z ]+$|^table constraint (automatic|[a-z_]*_not_null) on ' >"$2"
}

look() {
  local how=$1
  rows_of $db "$CLAIMS_TMP/rows.after"
  expect "$how: the rows are the same" "$(diff "$CLAIMS_TMP/rows.before" "$CLAIMS_TMP/rows.after")" ''
  sql postgres "ALTER ROLE $owner SUPERUSER"
  make_database $fresh
  PGUSER=$owner sql $fresh "CREATE EXTENSION claims"
  sql postgres "ALTER ROLE $owner NOSUPERUSER"
  PGUSER=$owner sql $fresh "SELECT claims.register_cell(1, 'script_claims_one', 'one'), claims.register_cell(2, 'script_claims_two', 'two'), claims.grant_read('script_claims_router'), claims.grant_worker('script_claims_two')" >/dev/null
  sql $fresh "CREATE TABLE public.plain (id bigint PRIMARY KEY, username text UNIQUE); CREATE TABLE public.captured (id bigint PRIMARY KEY, entity text); ALTER TABLE public.plain OWNER TO script_claims_one; ALTER TABLE public.captured OWNER TO $owner"
  sql $fresh "SELECT claims.claim_attribute('public.plain', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS'), claims.capture_requests('public.captured', 'captured', 'entity')" >/dev/null
  describe_majors $fresh "$CLAIMS_TMP/wanted"
  describe_majors $db "$CLAIMS_TMP/got"
  expect_same "$how: what a fresh installation has" "$CLAIMS_TMP/got" "$CLAIMS_TMP/wanted"
  expect "$how: check() finds nothing" "$(sql $db 'SELECT count(*) FROM claims.check()')" 0
  expect "$how: the change feed is there" "$(sql $db "SELECT DISTINCT bucket_value FROM claims.list_changes() ORDER BY 1")" $'told\ntold too'
  expect "$how: and a reader goes on" "$(sql $db "SELECT count(*) FROM claims.list_changes('$feed_place')")" 0
  # Everything works; the changes are rolled back before the next upgrade.
  expect "$how: the outstanding lease commits" "$(PGUSER=script_claims_one sql $db "BEGIN; SELECT claims.commit_update(1, '$(lease 1)'); ROLLBACK")" t
  expect "$how: the tracked lease is to be committed" "$(PGUSER=script_claims_one sql $db "SELECT verdict FROM claims.judge_leases('[{\"lease_uuid\": \"$(lease 21)\", \"created_at\": \"2026-01-01\"}]')")" commit
  expect "$how: a name that is taken" "$(PGUSER=script_claims_two sqlstate $db "SELECT claims.begin_update(2, '[$(claim active)]')")" 23505
  expect "$how: a name that is free" "$(PGUSER=script_claims_two sqlstate $db "BEGIN; SELECT claims.commit_update(2, claims.begin_update(2, '[$(claim fresh)]')); ROLLBACK")" 00000
  expect "$how: columns are captured" "$(sql $db "BEGIN; INSERT INTO public.plain VALUES (8, 'eight'); SELECT jsonb_array_length(create_records) FROM claims.pending_batch(); ROLLBACK")" 1
  expect "$how: partitions refuse TRUNCATE" "$(sqlstate $db "BEGIN; CREATE TABLE public.high PARTITION OF public.parts FOR VALUES FROM (20) TO (30); TRUNCATE public.high")" 55000
  expect "$how: dropped tables are forgotten" "$(sql $db "BEGIN; DROP TABLE public.plain; SELECT count(*) FROM claims.claimed_attributes; ROLLBACK")" 1
  sql postgres "DROP DATABASE $fresh"
}

bindir=$CLAIMS_BINDIR data=${CLUSTER_DIR[before]}/data major=$PG_MAJOR
for next in "$PG_MAJOR" $(for later in 17 18; do [ "$later" -le "$PG_MAJOR" ] || echo "$later"; done); do
  next_bindir=$(bindir_of "$next")
  if [ -z "$next_bindir" ]; then
    echo "skipped: PostgreSQL $next, which this has not been built for (make build PG_MAJOR=$next)"
    continue
  fi
  case $next_bindir in /tmp/claims-stage.*) [ "$next_bindir" = "$CLAIMS_BINDIR" ] || copies+=("$(cut -d/ -f1-3 <<<"$next_bindir")") ;; esac
  upgrade_cluster "$bindir" "$data" "$next_bindir" "$place/data$next"
  with_server "$next_bindir" "$place/data$next" look "$major to $next"
  bindir=$next_bindir data=$place/data$next major=$next
done
