# Shared by the tests of pg_upgrade: sourced after upgrade.bash, never run. `place` is a folder of the server's user.

# The programs of a major version, with the extension: the ones that run this test, or others; nothing where they have not been
# built.
bindir_of() {
  [ "$1" != "$PG_MAJOR" ] || { printf '%s\n' "$CLAIMS_BINDIR"; return; }
  (PATH=${PATH//$CLAIMS_BINDIR:/}          # with its pg_config
   unset CLAIMS_BINDIR PG_CONFIG
   export PG_MAJOR=$1
   . "$CLAIMS_ROOT/scripts/lib.sh"
   [ -e "$(stage_root)/stamp" ] || exit 0
   claims_bindir
   printf '%s\n' "$CLAIMS_BINDIR")
}

# upgrade_cluster FROM_BINDIR FROM_DATA TO_BINDIR TO_DATA
upgrade_cluster() {
  local checksums=()
  (cd "$place"
   # Both have checksums of pages, or neither; since PostgreSQL 18 they are the default.
   if ! as_server "$1/pg_controldata" "$2" | grep 'checksum version: *0$' >/dev/null; then checksums=(--data-checksums)
   elif "$3/initdb" --help | grep -- --no-data-checksums >/dev/null; then checksums=(--no-data-checksums)
   fi
   as_server "$3/initdb" -D "$4" --username=postgres --encoding=UTF8 --locale=C.UTF-8 --auth=trust --no-sync ${checksums[@]+"${checksums[@]}"} >/dev/null
   as_server "$3/pg_upgrade" -b "$1" -B "$3" -d "$2" -D "$4" -U postgres -s "$place" -p "$PGPORT" -P "$((PGPORT + 1))" --no-sync >"$place/output" 2>&1) \
    || { tail -30 "$place/output"; find "$4" -name 'pg_upgrade_dump_*.log' -exec grep -A6 -E 'error: ' {} +; exit 1; } >&2
}

# with_server BINDIR DATA COMMAND...
with_server() {
  local bindir=$1 data=$2 rc=0
  shift 2
  (cd "$place" && as_server "$bindir/pg_ctl" -D "$data" -l "$place/log" -w -t 60 -o "-p $PGPORT -c unix_socket_directories=$place -c listen_addresses= -c fsync=off" start >/dev/null 2>&1) \
    || { tail -20 "$place/log"; exit 1; } >&2
  (export PGHOST=$place; "$@") || rc=$?
  (cd "$place" && as_server "$bindir/pg_ctl" -D "$data" -m fast -w stop >/dev/null)
  [ $rc = 0 ] || exit $rc
}
