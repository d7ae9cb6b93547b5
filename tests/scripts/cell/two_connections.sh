#!/usr/bin/env bash
# One client renames a row there and back, over two connections in turn, each save after the COMMIT of the one before. The lease of a save may be settled
# after its COMMIT, so the next save meets it and waits for it: none is refused.
. "$(dirname "$0")/../common.bash"
. "$(dirname "$0")/../cells.bash"
start_cells

at cell1 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'), claims.automatic(1, 'service')" >/dev/null
# The machine may be busy: how long a save waits by default is tested elsewhere.
open one cell1; open two cell1
for name in one two; do tell $name "SET claims.lease_wait = '10s'" >/dev/null; done
# Some answers of the service to commits come late.
at shared "CREATE FUNCTION sometimes_late() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF random() < 0.1 THEN PERFORM pg_sleep(0.05); END IF; RETURN NULL; END';
  CREATE TRIGGER sometimes_late BEFORE DELETE ON claims.claim_leases FOR EACH STATEMENT EXECUTE FUNCTION sometimes_late()"
tell one "INSERT INTO routes (name) VALUES ('n0')" >/dev/null
refused=''
for number in $(seq 1 200); do
  refused+=$(tell "$([ $((number % 2)) = 0 ] && echo one || echo two)" "UPDATE routes SET name = 'n$((number % 3))'")
done
expect 'no save is refused' "$refused" ''
expect 'the row has the last name, and its claim' "$(saved 1) $(wait_for n2 claimed 1)" 'n2 n2'
