#!/usr/bin/env bash
# The lines of examples/README.md that run an example against an installed extension. They build nothing.
. "$(dirname "$0")/../common.bash"

# The private installation of the tests stands for an installed one.
mkdir "$CLAIMS_TMP/bin"
for tool in cargo rustc; do printf '#!/bin/sh\necho "%s is called" >&2; exit 1\n' "$tool" >"$CLAIMS_TMP/bin/$tool"; chmod +x "$CLAIMS_TMP/bin/$tool"; done
example() {
  local bindir=$CLAIMS_BINDIR
  ( unset CLAIMS_BINDIR PGHOST PGPORT PGUSER PGDATABASE PGPASSWORD
    PG_CONFIG=${PG_OF:-$bindir/pg_config} PATH=$CLAIMS_TMP/bin:$PATH "$CLAIMS_ROOT/scripts/example" "$@" >"$CLAIMS_TMP/out" 2>&1 ) || echo "ended with $?"
}
lines=$(grep -oE '`scripts/example [a-z_]+`' "$CLAIMS_ROOT/examples/README.md" | sed -E 's/.* ([a-z_]+)`/\1/' | sort)
folders=$(cd "$CLAIMS_ROOT/examples" && for folder in */; do case $folder in node/ | compose/) ;; *) echo "${folder%/}" ;; esac; done | sort)
expect 'a line for each example that it runs' "$lines" "$folders"
# without_line FOLDER...: the folders whose README lacks the line.
without_line() { local folder; for folder in "$@"; do grep -qsxF "scripts/example $folder" "$CLAIMS_ROOT/examples/$folder/README.md" || echo "$folder"; done; }
expect 'the README of each has the line' "$(without_line $folders)" ''
expect 'of others none' "$(without_line node nothing)" $'node\nnothing'
expect 'psql' "$(example psql)$(grep -cE '^ gitlab +\| ACTIVE +\| north' "$CLAIMS_TMP/out")" 1
if python3 -c 'import psycopg' 2>/dev/null || /usr/bin/python3 -c 'import psycopg' 2>/dev/null; then
  expect 'python' "$(example python)$(cat "$CLAIMS_TMP/out")" $'gitlab-org: saved\n{\'committed\': 0, \'rolled back\': 0}'
  expect 'held_keys' "$(example held_keys)$(grep -cE '^[abc]: free, [0-9]+ steps done$' "$CLAIMS_TMP/out")" 3
fi
if /usr/bin/python3 -c 'import django, psycopg2' 2>/dev/null; then expect 'an application' "$(example django)" ''; fi
expect 'an example that there is not' "$(example nothing)" 'ended with 1'
printf '#!/bin/sh\ncase $1 in --version) echo "PostgreSQL %s.0" ;; *) echo /nowhere ;; esac\n' "$PG_MAJOR" >"$CLAIMS_TMP/bin/pg_config"
chmod +x "$CLAIMS_TMP/bin/pg_config"
expect 'without the extension it says so' "$(PG_OF=$CLAIMS_TMP/bin/pg_config example psql; grep -c 'is not installed' "$CLAIMS_TMP/out")" 'ended with 1
1'
