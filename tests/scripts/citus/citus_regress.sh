#!/usr/bin/env bash
# The pg_regress files on tables distributed over three nodes of a Citus cluster, called on the coordinator.
exec bash "$(dirname "$0")/../../citus/regress.sh" 2
