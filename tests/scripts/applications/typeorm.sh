#!/usr/bin/env bash
# A TypeORM application in two cells in automatic mode: examples/typeorm, with the test runner of Node.js.
. "$(dirname "$0")/../applications.bash"

command -v npm >/dev/null || skip 'there is no npm'
cp -r "$CLAIMS_ROOT/examples/typeorm" "$CLAIMS_TMP/typeorm"
cd "$CLAIMS_TMP/typeorm"
npm ci --no-audit --no-fund --loglevel=error || {
  ! npm ping >/dev/null 2>&1 || die 'npm ci failed in examples/typeorm'
  skip 'npm cannot get packages'
}
start_application
in_each_cell npm run --silent migrate
declare_names
test_application npm test --silent
nothing_is_left
