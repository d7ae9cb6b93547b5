# Functions for scripts/ and tests/scripts: source it, do not run it.
#
#   . scripts/lib.sh
#   start_cluster shared                    # a throwaway cluster; PGHOST, PGPORT, PGUSER, PGDATABASE now lead to it
#   start_cluster cell1 -c wal_level=logical
#   use_cluster shared                      # point the environment at the first one again
#   stop_cluster cell1                      # otherwise all of them are stopped and removed when the shell exits
#
# Every cluster runs a private copy of the PostgreSQL installation with this extension in it (see scripts/build), so
# the machine's own PostgreSQL is never changed.

set -euo pipefail

CLAIMS_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CLAIMS_TARGET=${CARGO_TARGET_DIR:-$CLAIMS_ROOT/target}
CLAIMS_CLIENTS=$CLAIMS_TARGET/debug     # the programs of tests/harness, see scripts/clients
export CLAIMS_ROOT

say() { printf '==> %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

major_of() { "$1" --version 2>/dev/null | sed -E 's/^PostgreSQL ([0-9]+).*/\1/'; }

# The PostgreSQL that PG_MAJOR says, else that of PG_CONFIG, else 15.
if [ -z "${PG_MAJOR:-}" ] && [ -n "${PG_CONFIG:-}" ]; then
  PG_MAJOR=$(major_of "$PG_CONFIG") || die "PG_CONFIG=$PG_CONFIG cannot be run"
fi
PG_MAJOR=${PG_MAJOR:-15}

# The pg_config to build against: what PG_CONFIG names, else the one in PATH, else Debian's own for PG_MAJOR.
find_pg_config() {
  local candidate
  if [ -n "${PG_CONFIG:-}" ]; then
    command -v "$PG_CONFIG" || die "PG_CONFIG=$PG_CONFIG cannot be run"
    [ "$(major_of "$PG_CONFIG")" = "$PG_MAJOR" ] || die "PG_CONFIG=$PG_CONFIG is not of PostgreSQL $PG_MAJOR"
    return
  fi
  for candidate in pg_config "/usr/lib/postgresql/$PG_MAJOR/bin/pg_config"; do
    if [ "$(major_of "$candidate")" = "$PG_MAJOR" ]; then
      command -v "$candidate"
      return
    fi
  done
  die "no pg_config of PostgreSQL $PG_MAJOR found: run scripts/setup, or set PG_CONFIG"
}

# project_address FIELD: prints the address of that name in `resources` of META.json (homepage, bugtracker, repository), or nothing where it is still
# the one in .invalid that its owner has to replace. META.json is the only file that has them.
project_address() {
  python3 -B - "$CLAIMS_ROOT/META.json" "$1" <<'PYTHON'
import json, sys
from urllib.parse import urlsplit
value = json.load(open(sys.argv[1], encoding="utf-8"))["resources"][sys.argv[2]]
address = value if isinstance(value, str) else value["web"]
print("" if urlsplit(address).hostname.endswith(".invalid") else address)
PYTHON
}

# --- who runs the server --------------------------------------------------------------------------------------------

# PostgreSQL refuses to run as root: root hands it to the user that the Debian package made.
SERVER_USER=${CLAIMS_SERVER_USER:-postgres}
as_server() {
  if [ "$(id -u)" = 0 ]; then runuser -u "$SERVER_USER" -- "$@"; else "$@"; fi
}

# --- the private installation ---------------------------------------------------------------------------------------

# cargo_inputs VARIABLES PATH...: prints what decides what cargo builds: its version, the variables whose names match, and the files in these paths.
cargo_inputs() {
  local variables=$1
  shift
  cargo --version
  env | LC_ALL=C sort | sed -nE "/^($variables)/p"
  find "$@" -type f | LC_ALL=C sort | xargs sha256sum
}

stage_root() { printf '%s/stage/pg%s' "$CLAIMS_TARGET" "$PG_MAJOR"; }

# The bin directory of the private installation, copied to where the server's user can read it if it cannot read the
# repository (a clone in root's home directory).
claims_bindir() {
  local stage bindir
  if [ -z "${CLAIMS_BINDIR:-}" ]; then
    stage=$(stage_root)
    PG_CONFIG=$(find_pg_config)
    export PG_CONFIG                      # from here on PATH leads to the copy's
    bindir=$("$PG_CONFIG" --bindir)
    [ -x "$stage$bindir/postgres" ] || die "nothing built yet: run make build"
    if ! (cd / && as_server test -x "$stage$bindir/postgres"); then
      CLAIMS_STAGE_COPY=$(mktemp -d /tmp/claims-stage.XXXXXX)
      chmod 755 "$CLAIMS_STAGE_COPY"
      cp -a "$stage/." "$CLAIMS_STAGE_COPY/"
      stage=$CLAIMS_STAGE_COPY
    fi
    export CLAIMS_BINDIR=$stage$bindir
  fi
}

# --- throwaway clusters ---------------------------------------------------------------------------------------------

declare -A CLUSTER_DIR=() CLUSTER_PORT=() CLUSTER_BINDIR=()

port_is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# take_port: prints a free port, below those that the kernel gives to clients. As long as this shell lives no other call gets it, so
# that a server can be stopped and started again on its port.
take_port() {
  local port taken=${TMPDIR:-/tmp}/claims-ports.$(id -u)
  mkdir -p "$taken"
  (
    flock 9
    while true; do
      port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
      # Shells that have ended leave their files behind.
      ! kill -0 "$(cat "$taken/$port" 2>/dev/null || echo none)" 2>/dev/null || continue
      ! port_is_free "$port" || break
    done
    echo $$ >"$taken/$port"
    echo "$port"
  ) 9>"$taken/lock"
}

# new_directory NAME: makes the directory of the cluster NAME.
new_directory() { CLUSTER_DIR[$1]=$(cd /tmp && as_server mktemp -d "${CLAIMS_CLUSTERS:-/tmp}/claims-$1.XXXXXX"); }

# init_data DIRECTORY [BINDIR]: initdb in its folder `data`, with the superuser's password in PGPASSWORD, or a new one.
init_data() {
  [ -n "${PGPASSWORD:-}" ] || PGPASSWORD=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
  printf '%s\n' "$PGPASSWORD" | (cd /tmp && as_server sh -c "umask 077; cat > '$1/password'")
  (cd /tmp && as_server "${2:-$CLAIMS_BINDIR}/initdb" -D "$1/data" --username=postgres --encoding=UTF8 --locale=C.UTF-8 \
      --auth-local=trust --auth-host=scram-sha-256 --pwfile="$1/password" --no-sync >"/dev/null") \
    || die "initdb failed in $1"
}

# make_template: makes the data directory that start_cluster copies from then on, in this shell and those that it starts, instead of running initdb: that
# was a third of the CPU time of all tests. Every copy gets a system identifier of its own, like the clusters of users.
make_template() {
  new_directory template
  trap_cleanup
  init_data "${CLUSTER_DIR[template]}"
  export PGPASSWORD CLAIMS_TEMPLATE=${CLUSTER_DIR[template]}/data
}

# start_cluster NAME [--fast] [--bindir DIRECTORY] [-c setting=value]...
# CLAIMS_SERVER_SETTINGS has settings (name=value, by spaces) for every cluster that is started, CLAIMS_POSTGRES a program to start instead
# of postgres (see scripts/test-valgrind).
# --fast leaves out fsync: for tests, never for measuring. --bindir names the programs of another PostgreSQL, which does not have the extension.
# On the socket everybody is trusted (its directory is private to the server's user and root). On 127.0.0.1 a password is
# asked for; that of the superuser is in PGPASSWORD.
start_cluster() {
  local name=$1 dir attempt fast=no settings=() bindir=
  shift
  while [ $# -gt 0 ]; do
    case $1 in
      --fast) fast=yes; shift ;;
      --bindir) bindir=$2; shift 2 ;;
      -c) settings+=("$2"); shift 2 ;;
      *) die "start_cluster: unknown argument $1" ;;
    esac
  done
  [ -z "${CLUSTER_DIR[$name]:-}" ] || die "cluster $name is already running"
  claims_bindir
  trap_cleanup

  new_directory "$name"
  dir=${CLUSTER_DIR[$name]}
  CLUSTER_BINDIR[$name]=$bindir
  if [ -n "${CLAIMS_TEMPLATE:-}" ] && [ -z "$bindir" ]; then
    (cd /tmp && as_server cp -a "$CLAIMS_TEMPLATE" "$dir/data")
    perl "$CLAIMS_ROOT/scripts/new-system-identifier" "$dir/data"
  else
    init_data "$dir" "$bindir"
  fi
  {
    printf '%s\n' "listen_addresses = '127.0.0.1'" "unix_socket_directories = '$dir'" "lc_messages = 'C'" \
      'max_connections = 100' 'max_prepared_transactions = 20' 'log_min_messages = warning' "log_line_prefix = '%m [%p] %q%u@%d '"
    [ "$fast" = no ] || printf '%s\n' 'fsync = off' 'full_page_writes = off' 'synchronous_commit = off'
    settings+=(${CLAIMS_SERVER_SETTINGS:-})
    [ ${#settings[@]} = 0 ] || printf '%s\n' "${settings[@]}" | sed -E "s/^([^=]+)=(.*)$/\1 = '\2'/"
  } | (cd /tmp && as_server sh -c "cat >> '$dir/data/postgresql.conf'")

  for attempt in 1 2 3 4 5 6 7 8 9 10; do
    CLUSTER_PORT[$name]=$(take_port)
    if control "$name" start; then
      use_cluster "$name"
      return
    fi
    grep -q 'could not bind' "$dir/log" || break
  done
  as_server cat "$dir/log" >&2
  die "PostgreSQL did not start in $dir"
}

# Points PGHOST and so on at a running cluster.
use_cluster() {
  [ -n "${CLUSTER_PORT[$1]:-}" ] || die "no cluster named $1"
  export PGHOST=${CLUSTER_DIR[$1]} PGPORT=${CLUSTER_PORT[$1]} PGUSER=postgres PGDATABASE=postgres PGPASSWORD
  export CLAIMS_CLUSTER_DIR=$PGHOST
  case :$PATH: in *":$CLAIMS_BINDIR:"*) ;; *) export PATH=$CLAIMS_BINDIR:$PATH ;; esac
}

cluster_log() { as_server cat "${CLUSTER_DIR[$1]}/log"; }

# control NAME start|stop|restart|promote [OPTION...]: pg_ctl for a cluster, with its own log and port. The server inherits no open file: a reader
# at the end of a pipe would wait for it.
control() {
  local dir=${CLUSTER_DIR[$1]}
  (cd /tmp && as_server "${CLUSTER_BINDIR[$1]:-$CLAIMS_BINDIR}/pg_ctl" "${@:2}" ${CLAIMS_POSTGRES:+-p "$CLAIMS_POSTGRES"} -D "$dir/data" -l "$dir/log" \
      -o "-p ${CLUSTER_PORT[$1]:-}" -w -t 60 </dev/null >/dev/null 2>&1 3>&- 4>&- 5>&-)
}

# restart_cluster NAME [fast|immediate]: restarts a cluster on the same port.
restart_cluster() { control "$1" restart -m "${2:-fast}"; }

stop_cluster() {
  local dir=${CLUSTER_DIR[$1]:-}
  [ -n "$dir" ] || return 0
  control "$1" stop -m immediate || true
  unset "CLUSTER_DIR[$1]" "CLUSTER_PORT[$1]"
  # The log is removed with the directory, so print its lines about crashes.
  [ -z "${CLAIMS_TMP:-}" ] || grep -ahE 'PANIC|TRAP:' "$dir/log" >>"$CLAIMS_TMP/crashes" || true
  rm -rf "$dir"
}

# stop_abandoned DIRECTORY: stops the clusters in it whose shell was killed.
stop_abandoned() {
  local dir
  for dir in "$1"/claims-*/; do
    [ -e "$dir/data" ] || continue
    (cd /tmp && as_server "$CLAIMS_BINDIR/pg_ctl" -D "$dir/data" -m immediate -w stop </dev/null >/dev/null 2>&1) || true
  done
}

CLAIMS_CLEANUP_PID=
cleanup() {
  local name
  [ "$CLAIMS_CLEANUP_PID" = "$BASHPID" ] || return 0
  for name in "${!CLUSTER_DIR[@]}"; do stop_cluster "$name"; done
  [ -z "${CLAIMS_STAGE_COPY:-}" ] || rm -rf "$CLAIMS_STAGE_COPY"
  CLAIMS_STAGE_COPY=
}

# Once per shell; a script with an EXIT trap of its own calls cleanup in it.
trap_cleanup() {
  [ "$CLAIMS_CLEANUP_PID" != "$BASHPID" ] || return 0
  CLAIMS_CLEANUP_PID=$BASHPID
  trap cleanup EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

# --- helpers for tests -----------------------------------------------------------------------------------------

# sql [DATABASE] 'STATEMENT': prints the bare result, and stops at the first error.
sql() {
  local db=$PGDATABASE
  if [ $# = 2 ]; then db=$1; shift; fi
  psql -XqAt -v ON_ERROR_STOP=1 -d "$db" -c "$1"
}

# sqlstate [DATABASE] 'STATEMENT': prints the SQLSTATE of a statement, 00000 if it succeeds.
sqlstate() {
  local db=$PGDATABASE
  if [ $# = 2 ]; then db=$1; shift; fi
  local errors state
  errors=$(psql -XqAt -d "$db" -v VERBOSITY=sqlstate -c "$1" 2>&1 >/dev/null) || true
  state=$(sed -nE 's/^(psql:.*)?(ERROR|FATAL): +([0-9A-Z]{5}).*/\3/p' <<<"$errors" | head -1)
  printf '%s\n' "${state:-00000}"
}

# The limit of a test's waits. It is long because a machine under load is slow; a test that passes rarely waits that long.
WAIT_LIMIT_SECONDS=120

# pause N: sleeps before a wait looks for the Nth time: 20 ms, and 10 ms longer each time, up to half a second, because most looks start psql and a
# backend, and take their CPU time from other tests. A wait of several seconds ends by a twentieth too late.
pause() {
  local seconds
  printf -v seconds '0.%03d' $(($1 < 49 ? 10 + 10 * $1 : 500))
  sleep "$seconds"
}

# wait_until COMMAND...: repeats a command until it succeeds.
wait_until() {
  local looks=0 end=$((SECONDS + WAIT_LIMIT_SECONDS))
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { printf 'FAILED: not within %s seconds: %s\n' "$WAIT_LIMIT_SECONDS" "$*" >&2; return 1; }
    pause $((++looks))
  done
}

# wait_for WANTED COMMAND...: repeats a command until it prints WANTED, and prints what it has printed last.
wait_for() {
  local wanted=$1 got looks=0 end=$((SECONDS + WAIT_LIMIT_SECONDS))
  shift
  while got=$("$@" 2>/dev/null || true); [ "$got" != "$wanted" ] && [ $SECONDS -lt $end ]; do pause $((++looks)); done
  printf '%s\n' "$got"
}

# wait_for_any COMMAND...: repeats a command until it prints something, and prints that.
wait_for_any() {
  local got looks=0 end=$((SECONDS + WAIT_LIMIT_SECONDS))
  while got=$("$@" 2>/dev/null || true); [ -z "$got" ] && [ $SECONDS -lt $end ]; do pause $((++looks)); done
  printf '%s\n' "$got"
}

# expect WHAT GOT WANTED
expect() {
  if [ "$2" != "$3" ]; then
    printf 'FAILED: %s\n  wanted: %s\n  got:    %s\n' "$1" "$3" "$2" >&2
    exit 1
  fi
  printf 'ok: %s\n' "$1"
}
