#!/usr/bin/env bash
# Several cells in one database, where automatic mode claims names for one of them: the roles of the others declare columns, write names that the
# cell has, verify, import, give tables away and so on. No claim of the cell is lost, freed or changed by another cell's act, and no row is read.
. "$(dirname "$0")/../common.bash"

exec python3 -B "$CLAIMS_ROOT/tests/scripts/campaigns/hostile_cells.py" "${CAMPAIGN_SECONDS:-25}"
