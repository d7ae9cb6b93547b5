#!/usr/bin/env bash
# Saves of very many names at once, where the service allows them: all their conflicts are taken, and however large the answer of the service is, the
# error is that of a name that is taken.
. "$(dirname "$0")/../cells.bash"
start_cells

# The answer about so many names is longer than what an error lists, 8 MiB.
names=15000
long=$(printf 'x%.0s' $(seq 700))
at shared "ALTER DATABASE postgres SET claims.max_batch_size = 100000"
at cell1 "ALTER DATABASE postgres SET claims.service_timeout = '120s';
  SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'), claims.automatic(1, 'service');
  GRANT EXECUTE ON FUNCTION claims.skip_capture TO app" >/dev/null
claims_of() { at shared "SELECT count(*) FROM claims.claims WHERE creator_id = $1 AND status = 1"; }
as_cell 2 "SELECT claims.commit_update(2, claims.begin_update(2, (
    SELECT jsonb_agg(replace('$(claim 'taken-%')', '%', n || '-$long')::jsonb) FROM generate_series(1, $names) n)))" >/dev/null
expect 'the other cell has all names' "$(claims_of 2)" $names

many="INSERT INTO routes (name) SELECT 'taken-' || n || '-$long' FROM generate_series(1, $names) n"
expect 'a save of names that are all taken' "$(state_as_app 1 "$many")" 23505
as_app 1 "$many" >"$CLAIMS_TMP/said" 2>&1 || true
expect 'says which one, and lists as many as are allowed' \
  "$(grep -c 'Key (name)=(taken-[0-9]*-x*) already exists' "$CLAIMS_TMP/said") $([ "$(wc -c <"$CLAIMS_TMP/said")" -lt 10000000 ] && echo yes)" '1 yes'
expect 'has saved nothing' "$(at cell1 'SELECT count(*) FROM routes') $(claims_of 1)" '0 0'

# Rows that were there before have no claims: each old name is a conflict, and is left out.
at cell1 "BEGIN; SELECT claims.skip_capture('rows from before'); INSERT INTO routes (name) SELECT 'old-' || n FROM generate_series(1, $names) n; COMMIT" >/dev/null
expect 'a rename of rows without claims' "$(state_as_app 1 "UPDATE routes SET name = name || '-new'")" 00000
expect 'claims all new names' "$(wait_for $names claims_of 1)" $names
