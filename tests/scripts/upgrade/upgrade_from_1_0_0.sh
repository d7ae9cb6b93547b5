#!/usr/bin/env bash
# The upgrade from 1.0.0, over 1.1.0, with data.
OLD=1.0.0
. "$(dirname "$0")/upgrade.bash"

. "$UPGRADE/upgrade_data.bash"
for database in $old $new $restored; do sql postgres "DROP DATABASE $database"; done
