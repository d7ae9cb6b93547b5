#!/usr/bin/env bash
# A unique over ordinary tables, two tenants' schemas and a partitioned table, under sessions that save, move and swap its values, with savepoints,
# prepared transactions and immediate constraints, beside partitions that are created, attached, detached, dropped and truncated. Backends are
# terminated, and killed, so that the server starts anew. A judge that looks at the tables alone finds no value twice at any moment; after
# each round every value that stands nowhere can be saved, every other one is refused, and check() finds nothing. The campaign takes
# CAMPAIGN_SECONDS, and on a busy machine as much longer as it needs for enough to happen.
# test: long
. "$(dirname "$0")/../common.bash"

start_cluster unique --fast -c max_prepared_transactions=20 -c deadlock_timeout=50ms
exec python3 -B "$CLAIMS_ROOT/tests/scripts/campaigns/unique_campaign.py" "${CAMPAIGN_SECONDS:-20}" "${CAMPAIGN_SEED:-1}"
