# Shared by the tests in this directory: sourced, never run. The other files beside it source what they need, so that a test names those alone that
# it uses itself.
[ -z "${COMMON_IS_READ:-}" ] || return 0
COMMON_IS_READ=yes
. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

# A test that is run alone has a cluster and a folder of its own.
[ -n "${PGHOST:-}" ] || start_cluster scripts --fast
[ -n "${CLAIMS_TMP:-}" ] || export CLAIMS_TMP=$(mktemp -d /tmp/claims-test.XXXXXX)

# skip REASON: ends the test, which then counts as skipped.
skip() { echo "skipped: $1"; exit 77; }

# A fresh database of that name with the extension, and two cells. Roles are the cluster's: they may be there already.
fresh_database() {
  sql postgres "DROP DATABASE IF EXISTS $1" 2>/dev/null
  sql postgres "CREATE DATABASE $1 ENCODING 'UTF8' TEMPLATE template0"
  export PGDATABASE=$1
  sql "CREATE EXTENSION claims"
  fresh_roles
  sql "SELECT claims.register_cell(1, 'script_claims_one', 'one', 'https://one.example')" >/dev/null
  sql "SELECT claims.register_cell(2, 'script_claims_two', 'two', NULL)" >/dev/null
}

fresh_roles() {
  sql "DO \$\$ DECLARE r text; BEGIN FOREACH r IN ARRAY ARRAY['script_claims_one', 'script_claims_two', 'script_claims_router'] LOOP
         IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = r) THEN EXECUTE format('CREATE ROLE %I LOGIN', r); END IF; END LOOP; END \$\$"
}

# make_cpu_ms: the function cpu_ms(), which returns how many milliseconds of CPU its session has used: other load does not change that, as it
# changes times. The kernel adds them up when a process sleeps.
make_cpu_ms() {
  sql "CREATE FUNCTION public.cpu_ms() RETURNS numeric LANGUAGE sql SECURITY DEFINER AS
         \$\$ SELECT pg_sleep(0.001); SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::numeric / 1000000 \$\$"
}

# claim VALUE [ID]: one claim to create, as JSON. bucket VALUE: one to destroy.
claim() { printf '{"bucket": {"type": "ROUTES", "value": "%s"}, "subject": {"type": "GROUP", "id": %s}, "source": {"type": "RAILS_TABLE_ROUTES", "id": %s}}' "$1" "${2:-1}" "${2:-1}"; }
bucket() { printf '{"bucket": {"type": "ROUTES", "value": "%s"}}' "$1"; }
# have CELL VALUE...: active claims.
have() {
  local cell=$1 value list=
  shift
  for value in "$@"; do list="$list${list:+, }$(claim "$value")"; done
  sql "SELECT claims.commit_update($cell, claims.begin_update($cell, '[$list]'))" >/dev/null
}
# lease N: a fixed uuid.
lease() { printf '00000000-0000-4000-8000-%012d' "$1"; }

# The server's checkpointer, and whether that is another one by now: once a backend was killed, PostgreSQL restarts all its processes. Until it
# notices, it still answers. Arguments: the command that runs SQL; the earlier answer first.
checkpointer() { "$@" "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"; }
has_restarted() {
  local before=$1 now
  shift
  now=$(checkpointer "$@" 2>/dev/null) && [ -n "$now" ] && [ "$now" != "$before" ]
}

# stop_asleep PID [COMMAND...]: stops a process while it sleeps, so that it holds no lock of PostgreSQL's. The command runs SQL there.
stop_asleep() {
  local pid=$1 _
  shift
  [ $# -gt 0 ] || set -- sql
  for _ in $(seq 500); do
    kill -STOP "$pid"
    [ "$("$@" "SELECT wait_event FROM pg_stat_activity WHERE pid = $pid")" = Extension ] && return
    kill -CONT "$pid"
    sleep 0.01
  done
  return 1
}

# --- a standby ------------------------------------------------------------------------------------------------------

# make_standby [NAME [SETTING...]]: makes a physical standby of the cluster in use. It is the cluster NAME, by default `standby`, and is stopped and
# removed like the others. The settings are lines for its postgresql.conf.
make_standby() {
  local name=${1:-standby} dir
  trap_cleanup
  new_directory "$name"
  dir=${CLUSTER_DIR[$name]}
  (cd /tmp && as_server env PGPASSWORD="$PGPASSWORD" "$CLAIMS_BINDIR/pg_basebackup" -h "$PGHOST" -p "$PGPORT" -U postgres -D "$dir/data" -R -X stream -c fast)
  printf '%s\n' "unix_socket_directories = '$dir'" "${@:2}" | (cd /tmp && as_server sh -c "cat >> '$dir/data/postgresql.conf'")
  CLUSTER_PORT[$name]=$(take_port)
  control "$name" start
}
on_standby() { (export PGHOST=${CLUSTER_DIR[standby]} PGPORT=${CLUSTER_PORT[standby]}; "$@"); }
# caught_up [NAME]: waits until a standby has all that is flushed on the cluster in use.
caught_up() {
  local target name=${1:-standby}
  target=$(sql 'SELECT pg_current_wal_flush_lsn()')
  [ "$(PGHOST=${CLUSTER_DIR[$name]} PGPORT=${CLUSTER_PORT[$name]} wait_for t sql "SELECT pg_last_wal_replay_lsn() >= '$target'")" = t ] || die "$name does not catch up"
}
