# Imports of cell 1, whose table `routes` is declared. Sourced, never run.
. "$(dirname "${BASH_SOURCE[0]}")/cells.bash"

import="CALL claims.import_claims(1, 'service', 'RAILS_TABLE_ROUTES'"
# state [SOURCE_TYPE]: the state of the import.
state() { at cell1 "SELECT state FROM claims.imports WHERE source_type = '${1:-RAILS_TABLE_ROUTES}'"; }
# differences [SOURCE_TYPE]: "0|0|0" if every row has its claim, and every claim its row.
differences() {
  reconcile 1 >/dev/null
  as_app 1 "SELECT missing, different, extra FROM claims.verify(1, 'service', '${1:-RAILS_TABLE_ROUTES}', recent => '0 s')"
}
# begin_anew: forgets the imports and their claims.
begin_anew() {
  at cell1 'DELETE FROM claims.import_runs' >/dev/null
  at shared 'DELETE FROM claims.claims WHERE creator_id = 1' >/dev/null
}
