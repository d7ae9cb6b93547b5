#!/usr/bin/env bash
# Sequences of two cells draw from ranges of one id space: the next range in time, never an id of the other cell, over crashes, restored backups of
# either side, open transactions and bulk loads.
# test: long
. "$(dirname "$0")/../cells.bash"

start_cells -c shared_preload_libraries=claims -c claims.databases=postgres -c claims.reconcile_interval=1h -c wal_level=replica -c max_wal_senders=4

refill() { as_app "$1" "SELECT claims.refill_ids($1, 'service')"; }
next() { as_app "$1" "SELECT nextval('${2:-routes_id_seq}')"; }
next_state() { state_as_app "$1" "SELECT nextval('${2:-routes_id_seq}')"; }
range_of() { at "cell$1" "SELECT id_range FROM claims.id_sequences WHERE sequence_name = '${2:-routes_id_seq}'::regclass"; }
# Has only so many ids left.
leave() { at "cell$1" "SELECT setval('routes_id_seq', seqmax - $2) FROM pg_sequence WHERE seqrelid = 'routes_id_seq'::regclass" >/dev/null; }
# Every id that a cell's sequence may give lies in a range that the service has given to this cell.
sound() {
  local cell own given
  for cell in 1 2; do
    for own in $(at "cell$cell" "SELECT unnest(ARRAY[id_range, next_range])::text FROM claims.id_sequences" | grep -v '^$'); do
      given=$(at shared "SELECT coalesce(range_agg(id_range) @> '$own'::int8range, false) FROM claims.id_ranges WHERE cell_id = $cell AND closed_at IS NULL")
      expect "$1: cell $cell may use $own" "$given" t
    done
    expect "$1: check() of cell $cell" "$(at "cell$cell" 'SELECT problem, detail FROM claims.check()')" ''
  done
  expect "$1: check() of the service" "$(at shared 'SELECT problem, detail FROM claims.check()')" ''
}

at shared "SELECT claims.add_id_space('rows', 'a test', block_size => 1000000)"
for cell in 1 2; do
  at "cell$cell" 'ALTER TABLE routes OWNER TO app; GRANT CREATE ON SCHEMA public TO app'
  as_app $cell "SELECT claims.use_id_space('routes_id_seq', 'rows')"
  expect "cell $cell has no ids before its first range" "$(next_state $cell)" 2200H
  expect "cell $cell leases its first range" "$(refill $cell)" 1000000
done
expect 'both begin in blocks of their own' "$(next 1) $(next 2)" '1 1000001'
expect 'with enough ids left nothing is leased' "$(refill 1) $(refill 2)" '0 0'
sound 'two ranges'

# Cell 1's next ids belong to cell 2: its sequence continues elsewhere, and the session with cached values, too.
leave 1 5
expect 'the next range' "$(refill 1)" 1000000
expect 'it is a block that is free' "$(next 1)" 2000001
sound 'a jump'

# The newest block can grow. No transaction that has called nextval() delays that, and none is delayed.
open drawing cell1
tell drawing "BEGIN; SELECT nextval('routes_id_seq')" >/dev/null
leave 1 5
expect 'a range that follows, while a transaction is open' "$(refill 1)" 1000000
expect 'the sequence continues without a gap' "$(range_of 1)" '[2000001,4000001)'
expect 'another session draws meanwhile' "$(as_app 1 "SELECT count(nextval('routes_id_seq')) FROM generate_series(1, 100)")" 100
expect 'the open transaction, too' "$(tell drawing "SELECT count(nextval('routes_id_seq')) FROM generate_series(1, 100)")" 100
# Cell 2 takes the next block. A range that does not follow must wait for that transaction, and is used later. It is not leased twice.
as_cell 2 "SELECT claims.lease_id_range(2, 'rows', 10)" >/dev/null
leave 1 200
tell drawing "SELECT nextval('routes_id_seq')" >/dev/null
expect 'a jump waits for the open transaction' "$(state_as_app 1 "SELECT claims.refill_ids(1, 'service')")" 55P03
expect 'meanwhile there are ids' "$(as_app 1 "SELECT count(nextval('routes_id_seq')) FROM generate_series(1, 100)")" 100
tell drawing COMMIT >/dev/null
refill 1 >/dev/null
expect 'afterwards it jumps' "$(as_app 1 "SELECT nextval('routes_id_seq') > 4000001")" t
sound 'a jump that waited'
close drawing

# At the end of the last range 2200H, with the service gone: never an id of another cell.
leave 1 3
crash shared
expect 'three ids are left' "$(as_app 1 "SELECT count(nextval('routes_id_seq')) FROM generate_series(1, 3)")" 3
expect 'then none' "$(next_state 1) $(next_state 1)" '2200H 2200H'
expect 'no range without the service' "$(state_as_app 1 "SELECT claims.refill_ids(1, 'service')")" 08001
resume shared
refill 1 >/dev/null
expect 'then there are ids again' "$(next_state 1)" 00000
sound 'after the crash of the service'
# A crash of the cell loses ids, and gives none twice.
before=$(next 1)
crash cell1; resume cell1
expect 'after a crash the sequence continues above' "$(as_app 1 "SELECT nextval('routes_id_seq') > $before")" t
sound 'after the crash of a cell'
# A call that is rolled back loses its range.
leave 1 5
highest=$(at shared "SELECT max(upper(id_range)) FROM claims.id_ranges"); before=$(at shared 'SELECT count(*) FROM claims.id_ranges')
as_app 1 "BEGIN; SELECT claims.refill_ids(1, 'service'); ROLLBACK" >/dev/null
expect 'the range of a call that was rolled back is not used' "$(as_app 1 "SELECT max(nextval('routes_id_seq')) < $highest FROM generate_series(1, 5)") $(next_state 1)" 't 2200H'
refill 1 >/dev/null
expect 'nor given again' "$(at shared 'SELECT count(*) FROM claims.id_ranges')" $((before + 2))
sound 'after a rollback'

# Either side crashes while a range is being leased: it is lost, or used. Nothing is given twice.
leave 1 5
open holder shared postgres; tell holder 'BEGIN; LOCK TABLE claims.leased_id_ranges IN SHARE MODE' >/dev/null
open leases cell1; send leases "SELECT claims.refill_ids(1, 'service')"
wait_for t at shared "SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'claims id range' AND wait_event_type = 'Lock'" >/dev/null
crash shared
# On a slow machine the process gives up before the crash, and the stopped server starts no other one.
expect 'the service crashes: no range' "$(answer leases | sed -E 's/53400|55P03/08001/')" 'ERROR:  08001'
close holder; resume shared
expect 'the rest of the range is there' "$(as_app 1 "SELECT count(nextval('routes_id_seq')) FROM generate_series(1, 5)") $(next_state 1)" '5 2200H'
refill 1 >/dev/null
sound 'the service has crashed meanwhile'
leave 1 5
highest=$(at shared 'SELECT max(upper(id_range)) FROM claims.id_ranges')
tell leases "BEGIN; SELECT claims.refill_ids(1, 'service') > 0 AS leased" >/dev/null
expect 'the service has given a range' "$(at shared "SELECT max(upper(id_range)) > $highest FROM claims.id_ranges")" t
crash cell1; close leases; resume cell1
expect 'the cell crashes: it is not used' "$(as_app 1 "SELECT coalesce(max(nextval('routes_id_seq')) < $highest, true) FROM generate_series(1, (SELECT greatest(0, seqmax - last_value) FROM pg_sequence, routes_id_seq WHERE seqrelid = 'routes_id_seq'::regclass))") $(next_state 1)" 't 2200H'
refill 1 >/dev/null
expect 'nor given again' "$(next 1 | awk "{ print (\$1 >= $highest) ? \"yes\" : \$1 }")" yes
sound 'the cell has crashed meanwhile'

# Several sequences, identity columns of small types, increments.
at cell1 "CREATE TABLE others (id bigserial, few int GENERATED ALWAYS AS IDENTITY); ALTER TABLE others OWNER TO app; CREATE SEQUENCE steps INCREMENT 7; ALTER SEQUENCE steps OWNER TO app"
at shared "SELECT claims.add_id_space('few', 'ids of four bytes', last_id => 2147483647)"
as_app 1 "SELECT claims.use_id_space('others_id_seq', 'rows'), claims.use_id_space('others_few_seq', 'few'), claims.use_id_space('steps', 'rows', 1000)" >/dev/null
refill 1 >/dev/null
as_app 1 'INSERT INTO others SELECT FROM generate_series(1, 1000)'
expect 'ids of all are in ranges of the cell' "$(at cell1 "SELECT bool_and(id <@ i.id_range AND few::bigint <@ f.id_range) FROM others, claims.id_sequences i, claims.id_sequences f WHERE i.sequence_name = 'others_id_seq'::regclass AND f.sequence_name = 'others_few_seq'::regclass")" t
expect 'steps of seven' "$(as_app 1 "SELECT -nextval('steps') + nextval('steps')")" 7
at shared "SELECT claims.add_id_space('large', 'above four bytes', first_id => 3000000000)"
as_app 1 "SELECT claims.use_id_space('others_few_seq', 'large')" >/dev/null
expect 'ids that the type cannot have are not leased' "$(state_as_app 1 "SELECT claims.refill_ids(1, 'service')") $(at shared "SELECT count(*) FROM claims.id_ranges WHERE id_space = 'large'")" '2200H 0'
as_app 1 "SELECT claims.use_id_space('others_few_seq', NULL)" >/dev/null
at cell1 'DROP SEQUENCE steps'
expect 'a sequence that was dropped is forgotten' "$(refill 1) $(at cell1 'SELECT count(*) FROM claims.id_sequences')" '0 2'
# A sequence that somebody has altered gets no range, and the others do.
at cell1 'ALTER SEQUENCE others_id_seq CYCLE'
leave 1 5
expect 'CYCLE is refused' "$(state_as_app 1 "SELECT claims.refill_ids(1, 'service')")" 55000
at cell1 'ALTER SEQUENCE others_id_seq NO CYCLE'
refill 1 >/dev/null
sound 'several sequences'

# A copy: production continues, and the copy gets no range. Once the copy is adopted, it does not continue where its files are.
copy_of cell1 clone
start_copy clone
production=$(next 1)
as_app 1 "SELECT * FROM claims.reconcile(1, 'service')" >/dev/null
at clone "SELECT setval('routes_id_seq', seqmax - 5) FROM pg_sequence WHERE seqrelid = 'routes_id_seq'::regclass" >/dev/null
expect 'a copy gets no range' "$(state_at clone "SELECT claims.refill_ids(1, 'service')")" 55000
at clone "SELECT claims.adopt_cell(1, 'service', 'it is the cell now')" >/dev/null
expect 'the adopted copy has no ids' "$(state_at clone "SELECT nextval('routes_id_seq')")" 2200H
at clone "SELECT claims.refill_ids(1, 'service')" >/dev/null
expect 'until it has leased new ones' "$(at clone "SELECT nextval('routes_id_seq') > $production")" t
expect 'the old database is refused' "$(state_as_app 1 "SELECT claims.refill_ids(1, 'service')")" 55000
at cell1 "SELECT claims.adopt_cell(1, 'service', 'back again')" >/dev/null
expect 'and has no ids when it comes back' "$(next_state 1)" 2200H
refill 1 >/dev/null
expect 'but new ones' "$(at clone "SELECT NOT (i.id_range && '$(range_of 1)'::int8range) FROM claims.id_sequences i WHERE sequence_name = 'routes_id_seq'::regclass")" t
sound 'after an adoption'
# The service refuses even if the cell has not noticed its adoption.
at shared "UPDATE claims.leased_id_ranges SET closed_at = now() WHERE cell_id = 1"
refill 1 >/dev/null
sound 'ranges that were closed'

# A service from an older backup: it does not know the newest range, which an administrator records.
newest=$(range_of 1)
at shared "DELETE FROM claims.leased_id_ranges WHERE cell_id = 1 AND id_range <@ '$newest'::int8range"
expect 'the cell notices' "$(state_as_app 1 "SELECT claims.refill_ids(1, 'service')")" 55000
at shared "SELECT claims.restore_id_range(1, 'rows', lower('$newest'::int8range), upper('$newest'::int8range) - 1, 'restored')"
refill 1 >/dev/null
sound 'after a restore of the service'

# A standby takes over: its sequence continues above what it has, and draws from new ranges. The primary gets none when it comes back.
use_cluster cell1
make_standby promoted
leave 1 100
drawn=$(next 1)
caught_up promoted
expect 'a standby draws no ids' "$(state_at promoted "SELECT nextval('routes_id_seq')")" 25006
halt cell1
control promoted promote
expect 'a promoted standby continues' "$(at promoted "SELECT nextval('routes_id_seq') > $drawn")" t
expect 'and leases the next range' "$(at promoted "SELECT claims.refill_ids(1, 'service')")" 1000000
expect 'which is of this cell' "$(at shared "SELECT range_agg(id_range) @> '$(at promoted "SELECT coalesce(next_range, id_range) FROM claims.id_sequences WHERE sequence_name = 'routes_id_seq'::regclass")'::int8range FROM claims.id_ranges WHERE cell_id = 1 AND closed_at IS NULL")" t
resume cell1
expect 'its primary comes back, and gets no range' "$(leave 1 1; state_as_app 1 "SELECT claims.refill_ids(1, 'service')")" 55000
halt promoted immediate
at cell1 "SELECT claims.adopt_cell(1, 'service', 'the standby is gone')" >/dev/null
refill 1 >/dev/null
sound 'after a failover and back'

# Dumps of both sides have the spaces, the ranges and the sequences.
( use_cluster shared; pg_dump --format=custom --file="$CLAIMS_TMP/dump" postgres; createdb -T template0 copy; pg_restore --exit-on-error --dbname=copy "$CLAIMS_TMP/dump" )
expect 'the dump of the service' "$(use_cluster shared; psql -XqAt -d copy -c "SELECT count(*), max(upper(id_range)) FROM claims.id_ranges")" "$(at shared 'SELECT count(*), max(upper(id_range)) FROM claims.id_ranges')"
expect 'it continues there' "$(use_cluster shared; psql -XqAt -d copy -c "SELECT lower(claims.lease_id_range(2, 'rows', 10, 0)) >= max(upper(id_range)) FROM claims.id_ranges WHERE id_space = 'rows'")" t
( use_cluster cell1; pg_dump --format=custom --file="$CLAIMS_TMP/dump" postgres; createdb -T template0 copy; pg_restore --exit-on-error --dbname=copy "$CLAIMS_TMP/dump" )
expect 'the dump of a cell' "$(use_cluster cell1; psql -XqAt -d copy -c "SELECT sequence_name, id_range FROM claims.id_sequences ORDER BY sequence_name::text; SELECT problem FROM claims.check()")" "$(at cell1 'SELECT sequence_name, id_range FROM claims.id_sequences ORDER BY sequence_name::text')"

# The worker leases the next range by itself, while sessions of both cells insert as fast as they can.
for cell in 1 2; do
  as_app $cell "SELECT claims.attend($cell, 'service')" >/dev/null
  refill $cell >/dev/null
done
left() { at "cell$1" "SELECT seqmax - last_value > 100000 FROM routes_id_seq, pg_sequence WHERE seqrelid = 'routes_id_seq'::regclass"; }
load() {
  local round
  for round in 1 2 3 4; do
    # Forward only: back it would draw the same ids again.
    at "cell$1" "SELECT setval('routes_id_seq', greatest(last_value, seqmax - 50000)) FROM routes_id_seq, pg_sequence WHERE seqrelid = 'routes_id_seq'::regclass" >/dev/null
    as_app "$1" 'INSERT INTO routes SELECT FROM generate_series(1, 5000)' || return 1
    [ "$(wait_for t left "$1")" = t ] || return 1
    as_app "$1" 'INSERT INTO routes SELECT FROM generate_series(1, 60000)' || return 1
  done
}
load 1 & loads=$!
load 2 & loads="$loads $!"
for load in $loads; do wait $load || die 'a session had no ids'; done
expect 'no id twice' "$(for cell in 1 2; do at cell$cell 'SELECT id FROM routes'; done | sort | uniq -d | head -1)" ''
leave 1 10
expect 'the worker has leased ranges' "$(wait_for t at cell1 "SELECT count(*) > 0 FROM claims.passes WHERE kind = 'refill' AND sqlstate IS NULL")" t
expect 'and leases the next one' "$(wait_for t at cell1 "SELECT seqmax - last_value > 100000 FROM pg_sequence, routes_id_seq WHERE seqrelid = 'routes_id_seq'::regclass")" t
sound 'under load'
