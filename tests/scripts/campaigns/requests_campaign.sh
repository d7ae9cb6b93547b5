#!/usr/bin/env bash
# Eight back ends process the requests of two front ends, and are killed and stopped meanwhile: SIGKILL between take and
# settle, SIGSTOP until the hold has expired. The effect of every request is committed exactly once, in order, and by one
# process at a time for each entity.
. "$(dirname "$0")/../common.bash"

exec python3 -B "$CLAIMS_ROOT/tests/scripts/campaigns/requests_campaign.py" "${CAMPAIGN_SECONDS:-20}"
