#!/usr/bin/env bash
# Profiles change, names are reserved and set free while cells claim, give up, replace, rename and transfer names that look alike, and
# routers read. An owner keeps its name and its skeleton, no cell gets a reserved name or a look-alike of it; no read misses a name that is claimed
# all the time; check() finds nothing at any moment.
. "$(dirname "$0")/../common.bash"

exec python3 -B "$CLAIMS_ROOT/tests/scripts/campaigns/profile_race.py" "${CAMPAIGN_SECONDS:-30}"
