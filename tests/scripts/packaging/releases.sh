#!/usr/bin/env bash
# Released scripts are unchanged, and can be upgraded to the version that is built.
. "$(dirname "$0")/../upgrade/upgrade.bash"

releases=$CLAIMS_ROOT/sql/releases
expect 'released scripts are unchanged' "$(cd "$releases" && sha256sum --check --strict --quiet SHA256SUMS 2>&1)" ''
expect 'every file has its checksum' "$(cd "$releases" && find . -name '*.sql' -printf '%P\n' | LC_ALL=C sort)" "$(awk '{ print $2 }' "$releases/SHA256SUMS" | LC_ALL=C sort)"
released=$(sed -nE 's/^## \[([0-9.]+)\] - [0-9].*/\1/p' "$CLAIMS_ROOT/CHANGELOG.md")
expect 'the releases that the tests of upgrades know' "$(LC_ALL=C sort <<<"$released" | tr '\n' ' ')" "$RELEASED "
for version in $released; do
  [ "$version" != "$NEW" ] || continue
  expect "$version: its script is kept" "$(ls "$releases/claims--$version.sql")" "$releases/claims--$version.sql"
  make_database script_releases
  sql script_releases "CREATE EXTENSION claims VERSION '$version'"
  expect "$version can be created, and upgraded" "$(sqlstate script_releases 'ALTER EXTENSION claims UPDATE')" 00000
  expect "$version leads to $NEW" "$(sql script_releases "SELECT extversion FROM pg_extension WHERE extname = 'claims'")" "$NEW"
done
sql postgres 'DROP DATABASE script_releases'

# Each release but the last has a script that leads to the next one, and the last has one to the version that is built.
steps=($RELEASED "$NEW")
for ((i = 1; i < ${#steps[@]}; i++)); do
  script=claims--${steps[i - 1]}--${steps[i]}.sql
  [ "${steps[i - 1]}" != "${steps[i]}" ] || continue
  expect "the package has $script" "$(cd "$CLAIMS_TARGET/package/pg$PG_MAJOR" && find . -name "$script" -printf '%f\n')" "$script"
done
