#!/usr/bin/env bash
# bench/instructions.sh CHECKOUT [CALL]: the instructions of one call with the extension of a checkout that is built, counted by callgrind. CALL is
# begin (one new name; this if none is given), commit (begin and commit of one new name), audited (the same with claims.audit = settled), destroy
# (like commit, then begin and commit of the end of the name), kept (like destroy, of a type whose names are kept back), get_record, save (an
# automatic save in the database of the service), unique (a save of one row in a partition of a table of add_unique), or indexes (the same, with a
# unique index in each partition instead). A backend runs alone (postgres --single), makes many calls and then more, and the difference counts.
. "$1/scripts/lib.sh"
call=${2:-begin}
audit=$([ "$call" = audited ] && echo settled || echo off)
CLAIMS_TARGET=$1/target
claims_bindir
data=$(cd /tmp && as_server mktemp -d /tmp/claims-instructions.XXXXXX)
trap 'rm -rf "$data"; cleanup' EXIT
quietly() { "$@" >&2 </dev/null; }
(cd /tmp && quietly as_server "$CLAIMS_BINDIR/initdb" -D "$data/d" --username=postgres --encoding=UTF8 --locale=C.UTF-8 --no-sync)

# single COMMAND...: runs statements, one a line.
single() {
  (cd /tmp && as_server "$@" "$CLAIMS_BINDIR/postgres" --single -D "$data/d" -c shared_preload_libraries=claims -c fsync=off \
    -c autovacuum=off -c claims.max_batch_size=10 -c "claims.audit=$audit" postgres)
}
# calls NUMBER NAME: statements that make the call so many times, each for a new name.
calls() {
  local n name begin
  for ((n = 0; n < $1; n++)); do
    name="[{\"bucket\": {\"type\": 1, \"value\": \"$2-$n\"}, \"subject\": {\"type\": 2, \"id\": 1}, \"source\": {\"type\": 3, \"id\": 1}}]"
    begin="claims.begin_update(1, '$name')"
    case $call in
    begin) echo "SELECT $begin" ;;
    commit | audited) echo "SELECT claims.commit_update(1, $begin)" ;;
    destroy | kept)
      echo "SELECT claims.commit_update(1, $begin)"
      echo "SELECT claims.commit_update(1, claims.begin_update(1, '[]', '$name'))"
      ;;
    get_record) echo "SELECT * FROM claims.get_record('ROUTES', 'somebody')" ;;
    save | unique | indexes) echo "INSERT INTO saved VALUES ('$2-$n')" ;;
    *) echo "begin, commit, audited, destroy, kept, get_record, save, unique or indexes, not $call" >&2 && return 1 ;;
    esac
  done
}
calls 0 none
{
  printf '%s\n' 'CREATE EXTENSION claims' 'CREATE ROLE cell_1' "SELECT claims.register_cell(1, 'cell_1')"
  call=commit calls 1 somebody | sed 's/somebody-0/somebody/'
  [ "$call" != kept ] || echo "SELECT claims.set_quarantine('ROUTES', '90 days', reason => 'measured')"
  if [ "$call" = save ]; then
    printf '%s\n' 'CREATE TABLE saved (name text, id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)' \
      "SELECT claims.claim_attribute('saved', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES')" 'SELECT claims.automatic_here(1)'
  fi
  if [ "$call" = unique ] || [ "$call" = indexes ]; then
    echo 'CREATE TABLE saved (name text) PARTITION BY HASH (name)'
    for nth in 0 1 2 3; do
      echo "CREATE TABLE saved_$nth PARTITION OF saved FOR VALUES WITH (MODULUS 4, REMAINDER $nth)"
      [ "$call" = unique ] || echo "CREATE UNIQUE INDEX ON saved_$nth (name)"
    done
    [ "$call" = indexes ] || echo "SELECT claims.add_unique('saved_name', '{saved}', 'name')"
  fi
} | single >&2
calls 200 first | single >/dev/null
# counted NUMBER NAME: instructions of a backend that makes so many calls.
counted() {
  calls "$1" "$2" | single valgrind --tool=callgrind --callgrind-out-file=/dev/null 2>&1 >/dev/null | sed -nE 's/.*Collected : ([0-9]+).*/\1/p'
}
few=$(counted 100 few)
many=$(counted 600 many)
echo $(((many - few) / 500))
