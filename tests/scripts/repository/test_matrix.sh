#!/usr/bin/env bash
# scripts/test-matrix with a PostgreSQL that was built from source: it runs `make test` on it, and refuses what it cannot run before it begins.
. "$(dirname "$0")/../common.bash"

root=$CLAIMS_TMP/root
mkdir -p "$root/scripts"
cp "$CLAIMS_ROOT"/scripts/{test-matrix,lib.sh,lib-debian.sh} "$root/scripts/"
printf 'test:\n\t@echo "$${PG_MAJOR:-none} $$PG_CONFIG"\n\t@tail -1 "$$(dirname "$$PG_CONFIG")/../verdict"; ! grep -q "[1-9] failed" "$$(dirname "$$PG_CONFIG")/../verdict"\n' >"$root/Makefile"

# build NAME VERSION VERDICT: a folder with a pg_config.
build() {
  mkdir -p "$CLAIMS_TMP/$1/bin"
  printf '#!/bin/sh\necho PostgreSQL %s\n' "$2" >"$CLAIMS_TMP/$1/bin/pg_config"
  chmod +x "$CLAIMS_TMP/$1/bin/pg_config"
  echo "$3" >"$CLAIMS_TMP/$1/verdict"
}
build sixteen 16.9 '3 passed, 0 failed'
build broken 16.10 '2 passed, 1 failed'

# matrix ARGUMENT...: prints its output without the times, and its exit code.
matrix() {
  local rc=0
  CARGO_TARGET_DIR=$CLAIMS_TMP/target PG_MAJOR=15 MAKEFLAGS=' -- PG_MAJOR=15' PG_CONFIG='' "$root/scripts/test-matrix" "$@" >"$CLAIMS_TMP/out" 2>&1 || rc=$?
  echo "$rc"
}

expect 'a build that passes' "$(matrix "$CLAIMS_TMP/sixteen")" 0
expect 'it is tested as the version that it is' "$(grep -c "^none $CLAIMS_TMP/sixteen/bin/pg_config" "$CLAIMS_TMP/out")" 1
expect 'its line' "$(tail -1 "$CLAIMS_TMP/out" | tr -s ' ')" "ok PostgreSQL 16.9 $CLAIMS_TMP/sixteen 3 passed, 0 failed"
expect 'one of two fails' "$(matrix "$CLAIMS_TMP/broken" "$CLAIMS_TMP/sixteen")" 1
expect 'both have a line' "$(tail -2 "$CLAIMS_TMP/out" | awk '{ print $1, $3 }' | tr '\n' ' ')" 'FAILED 16.10 ok 16.9 '
expect 'a folder without a build' "$(matrix "$CLAIMS_TMP/sixteen" "$CLAIMS_TMP/nothing")" 1
expect 'is refused before the first test' "$(grep -c '^none' "$CLAIMS_TMP/out" || true) $(tail -1 "$CLAIMS_TMP/out")" \
  "0 error: $CLAIMS_TMP/nothing has no bin/pg_config: name the folder in which a PostgreSQL was installed"
expect 'a version that no Debian release has' "$(matrix "$CLAIMS_TMP/sixteen" 16)" 1
expect 'is refused, too' "$(grep -c '^none' "$CLAIMS_TMP/out" || true) $(tail -1 "$CLAIMS_TMP/out")" \
  '0 error: no Debian release has PostgreSQL 16 (15 17 18): name the folder in which you have installed a build of it'
