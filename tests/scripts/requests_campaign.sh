#!/usr/bin/env bash
# Eight back ends work off what two front ends record, and are killed and stopped on the way: SIGKILL between take and
# settle, SIGSTOP past the hold. The effect of every request is committed exactly once, in order, one hand an entity.
. "$(dirname "$0")/common.bash"

exec python3 -B "$CLAIMS_ROOT/tests/scripts/requests_campaign.py" "${CAMPAIGN_SECONDS:-20}"
