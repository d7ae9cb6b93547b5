#!/usr/bin/env bash
# A name of another cell: a row of cell 1 has it, and by a bug cell 2 has its claim. The claim goes to cell 1, and both cells' tables agree.
. "$(dirname "$0")/../cells.bash"

start_cells
for number in 1 2; do
  at "cell$number" "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'); GRANT SELECT ON routes TO claims_owner" >/dev/null
done
counts() { as_app "$1" "SELECT missing, different, extra, corrected, held_by_other FROM claims.verify($1, 'service', 'RAILS_TABLE_ROUTES', recent => '0', correct => ${2:-false})"; }
# saved_in CELL NAME: in the cell's own way.
saved_in() {
  as_app "$1" "INSERT INTO routes (name) VALUES ('$2')"
  as_cell "$1" "SELECT claims.commit_update($1, claims.begin_update($1, format('[{\"bucket\": {\"type\": \"ROUTES\", \"value\": \"$2\"}, \"subject\": {\"type\": \"GROUP\", \"id\": %s}, \"source\": {\"type\": \"RAILS_TABLE_ROUTES\", \"id\": %s}}]', ${3:-1}, ${3:-1})::jsonb))" >/dev/null
}
saved_in 1 mine 1
saved_in 2 theirs 1
# The bug: cell 1 saves without asking, and cell 2 claims the name in order.
as_app 1 "INSERT INTO routes (name) VALUES ('contested')"
saved_in 2 contested 2

# Look.
expect 'whose it is' "$(as_cell 1 "SELECT cell_id, cell_name FROM claims.get_record('ROUTES', 'contested')")" '2|cell 2'
expect 'cell 1 is told' "$(counts 1)" '1|0|0|0|1'
expect 'a correction does not take it away' "$(counts 1 true) $(as_cell 1 "SELECT cell_id FROM claims.get_record('ROUTES', 'contested')")" '1|0|0|0|1 2'

# Act: people decided for cell 1. Cell 2 renames its row; its claims follow, then those of cell 1.
as_app 2 "UPDATE routes SET name = 'contested-2' WHERE name = 'contested'"
expect 'cell 2 gives it up' "$(counts 2 true)" '1|0|1|2|0'
expect 'cell 1 gets it' "$(counts 1 true)" '1|0|0|1|0'

# Check.
expect 'whose it is now' "$(as_cell 1 "SELECT cell_id FROM claims.get_record('ROUTES', 'contested')")" 1
expect 'both are in order' "$(counts 1) $(counts 2)" '0|0|0|0|0 0|0|0|0|0'
agree 'at the end'
