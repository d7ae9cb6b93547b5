#!/usr/bin/env bash
# The isolation specs on tables distributed over three nodes of a Citus cluster, each session on another node.
export KIND=isolation
exec bash "$(dirname "$0")/../../citus/regress.sh" 2
