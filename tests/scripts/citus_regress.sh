#!/usr/bin/env bash
# The pg_regress files of claims and leases on the coordinator of a Citus cluster that has its tables.
. "$(dirname "$0")/common.bash"
. "$(dirname "$0")/citus.bash"
tests/citus/regress.sh 2
