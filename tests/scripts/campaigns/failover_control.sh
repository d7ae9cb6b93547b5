#!/usr/bin/env bash
# The control of the failover campaign: without synchronous replication a failover loses acknowledged calls, and the same check finds them. A test of its
# own, so that it runs beside failover: both mostly wait for Patroni.
# test: long
. "$(dirname "$0")/../failover.bash"

expect 'asynchronous: something is lost' "$(failover asynchronous 1)" 1
expect 'which is what it says' "$(says '^asynchronous, .* [1-9][0-9]* lost, ')" 1
