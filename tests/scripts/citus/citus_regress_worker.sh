#!/usr/bin/env bash
# The pg_regress files on tables distributed over three nodes of a Citus cluster, called on a worker, by callers who have set that Citus opens no
# transaction block for functions.
export ON=worker1 OPTIONS='-c citus.function_opens_transaction_block=off'
exec bash "$(dirname "$0")/../../citus/regress.sh" 2
