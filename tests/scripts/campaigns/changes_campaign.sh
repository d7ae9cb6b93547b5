#!/usr/bin/env bash
# The change feed under eight writers with long transactions, savepoints, PREPARE TRANSACTION and rollbacks, all of them killed now and
# then, and three readers that are killed anywhere: every reader gets every change once and in order, and the feed alone gives the owner of every name
# at any time, up to the table of claims at the end.
. "$(dirname "$0")/../common.bash"

start_cluster changes --fast -c max_prepared_transactions=20
python3 -B "$CLAIMS_ROOT/tests/scripts/campaigns/changes_campaign.py" "${CAMPAIGN_SECONDS:-20}"
