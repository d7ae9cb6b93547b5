#!/usr/bin/env bash
# bench/on-standby.sh COMMAND...: runs it at a standby of the cluster in use, which is made for it and gone afterwards.
. "$(dirname "$0")/../tests/scripts/common.bash"
make_standby
caught_up
on_standby "$@"
