#!/usr/bin/env bash
# DDL beside begins, commits and saves: tables of the extension get and lose columns, indexes, triggers and constraints, are rewritten and made unlogged,
# and partitions of a claimed table come and go. No name has two owners, every committed row has its claim, and at the end check() and amcheck
# find nothing. The campaign takes CAMPAIGN_SECONDS, and on a busy machine as much longer as it needs for every kind of DDL to happen.
# test: long
. "$(dirname "$0")/../common.bash"

exec python3 -B "$CLAIMS_ROOT/tests/scripts/campaigns/ddl_race.py" "${CAMPAIGN_SECONDS:-20}"
