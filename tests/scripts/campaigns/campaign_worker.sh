#!/usr/bin/env bash
# The crash campaign with the library preloaded, and recovery by the background workers.
# test: long
CAMPAIGN_WORKERS=yes exec bash "$(dirname "$0")/campaign.sh"
