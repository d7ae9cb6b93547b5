#!/usr/bin/env bash
# bench/in-recovery.sh COMMAND...: runs a command while the cluster in use is a standby that has replayed all its log, without a second copy of the
# data.
. "$(dirname "$0")/../scripts/lib.sh"

claims_bindir
data=$(psql -XqAt -d postgres -c 'SHOW data_directory')
restart() {
  (cd /tmp && as_server "$CLAIMS_BINDIR/pg_ctl" -D "$data" -l "$data/../log" -o "-p $PGPORT" -m fast -w -t 300 restart \
      </dev/null >/dev/null 2>&1 3>&- 4>&- 5>&-)
}
primary() { as_server rm -f "$data/standby.signal"; restart; }

psql -Xq -d postgres -c CHECKPOINT
trap primary EXIT
as_server touch "$data/standby.signal"
restart
[ "$(psql -XqAt -d postgres -c 'SELECT pg_is_in_recovery()')" = t ] || die "the cluster is no standby"
"$@"
