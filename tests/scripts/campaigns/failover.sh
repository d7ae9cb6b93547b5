#!/usr/bin/env bash
# A short failover campaign, one fault of each quick kind, loses no acknowledged call. failover_control is its control.
# test: long
. "$(dirname "$0")/../failover.bash"

expect 'synchronous: nothing is lost' "$(failover synchronous 4)" 0
expect 'which is what it says' "$(says '^synchronous, .* 0 lost, 0 doubled, 0 problems$')" 1
