#!/usr/bin/env bash
# Isolation specs whose sessions are on different nodes of a Citus cluster.
. "$(dirname "$0")/common.bash"
. "$(dirname "$0")/citus.bash"
KIND=isolation tests/citus/regress.sh 2
