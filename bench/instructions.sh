#!/usr/bin/env bash
# bench/instructions.sh CHECKOUT: the instructions of a begin of one new name with the extension of a checkout that is built, by callgrind. A
# backend runs alone (postgres --single), begins many leases and then more of them, and the difference counts.
. "$1/scripts/lib.sh"
CLAIMS_TARGET=$1/target
claims_bindir
data=$(cd /tmp && as_server mktemp -d /tmp/claims-instructions.XXXXXX)
trap 'rm -rf "$data"; cleanup' EXIT
quietly() { "$@" >&2 </dev/null; }
(cd /tmp && quietly as_server "$CLAIMS_BINDIR/initdb" -D "$data/d" --username=postgres --encoding=UTF8 --locale=C.UTF-8 --no-sync)

# single COMMAND...: runs statements, one a line.
single() {
  (cd /tmp && as_server "$@" "$CLAIMS_BINDIR/postgres" --single -D "$data/d" -c shared_preload_libraries=claims -c fsync=off \
    -c autovacuum=off -c claims.max_batch_size=10 postgres)
}
begins() {
  local n
  for ((n = 0; n < $1; n++)); do
    echo "SELECT claims.begin_update(1, '[{\"bucket\": {\"type\": 1, \"value\": \"$2-$n\"}, \"subject\": {\"type\": 2, \"id\": 1}, \"source\": {\"type\": 3, \"id\": 1}}]')"
  done
}
printf '%s\n' 'CREATE EXTENSION claims' 'CREATE ROLE cell_1' "SELECT claims.register_cell(1, 'cell_1')" | single >&2
begins 200 first | single >/dev/null
# counted NUMBER NAME: instructions of a backend that begins so many leases.
counted() {
  begins "$1" "$2" | single valgrind --tool=callgrind --callgrind-out-file=/dev/null 2>&1 >/dev/null | sed -nE 's/.*Collected : ([0-9]+).*/\1/p'
}
few=$(counted 100 few)
many=$(counted 600 many)
echo $(((many - few) / 500))
