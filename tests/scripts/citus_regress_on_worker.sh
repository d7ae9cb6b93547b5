#!/usr/bin/env bash
# The same on a worker, with citus.function_opens_transaction_block off, as any caller may have it.
. "$(dirname "$0")/common.bash"
. "$(dirname "$0")/citus.bash"
ON=worker1 OPTIONS="-c citus.function_opens_transaction_block=off" tests/citus/regress.sh 2
