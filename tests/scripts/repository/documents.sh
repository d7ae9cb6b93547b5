#!/usr/bin/env bash
# The documents name only things that exist, and all that they must name: objects of the catalog with their arguments, settings with their defaults,
# files, headings, targets of make, tests, SQLSTATEs and messages. The check finds one fault of each kind. The examples for psql run, and print the
# output in README. The measurements open with numbers of their tables.
. "$(dirname "$0")/../common.bash"

here=$CLAIMS_ROOT/tests/scripts/repository/documents
fresh_database script_documents
psql -XqAt -f "$here/catalog.sql" >"$CLAIMS_TMP/catalog.json"
errcodes=$("$CLAIMS_BINDIR/pg_config" --sharedir)/errcodes.txt
[ -e "$errcodes" ] || errcodes=$(pg_config --sharedir)/errcodes.txt

expect 'the documents say what is' "$(python3 -B "$here/check.py" "$CLAIMS_ROOT" "$CLAIMS_TMP/catalog.json" "$errcodes")" ''
expect 'the messages are those of the code' "$("$CLAIMS_ROOT/scripts/error-messages" --compare "$errcodes" 2>&1)" ''
expect 'a fault of each kind is found' "$(python3 -B "$here/faults.py" "$CLAIMS_ROOT" "$CLAIMS_TMP/catalog.json" "$errcodes")" ''

# --- measurements ---------------------------------------------------------------------------------------------------

opening() { python3 -B "$CLAIMS_ROOT/bench/opening.py" "$1"; }
expect 'the measurements open with what their tables say' "$(opening "$CLAIMS_ROOT/bench/RESULTS.md")" ''
sed -E 's/^\| 1( +)\|  0\.[0-9]+ \|/| 1\1|  0.77 |/' "$CLAIMS_ROOT/bench/RESULTS.md" >"$CLAIMS_TMP/RESULTS.md"
expect 'another number is noticed' "$(opening "$CLAIMS_TMP/RESULTS.md" | grep -cE '\| 770 \||another plot')" 2

# --- examples for psql ----------------------------------------------------------------------------------------------

for name in script_documents_readme script_documents_quickstart; do
  sql postgres "DROP DATABASE IF EXISTS $name" 2>/dev/null
  sql postgres "CREATE DATABASE $name ENCODING 'UTF8' TEMPLATE template0"
done
sql postgres 'DROP ROLE IF EXISTS north, south, quickstart_north, quickstart_south'
python3 -B "$here/examples.py" "$CLAIMS_ROOT" --script >"$CLAIMS_TMP/readme.sql"
psql -Xqa -d script_documents_readme -f "$CLAIMS_TMP/readme.sql" 2>&1 | sed 's/^psql:[^ ]* //' >"$CLAIMS_TMP/readme.out"
expect "README's example" "$(python3 -B "$here/examples.py" "$CLAIMS_ROOT" <"$CLAIMS_TMP/readme.out")" ''
# Another outcome is noticed.
sed 's/LEASE_CREATING/ACTIVE/' "$CLAIMS_TMP/readme.out" >"$CLAIMS_TMP/other.out"
expect 'README prints something else' "$(python3 -B "$here/examples.py" "$CLAIMS_ROOT" <"$CLAIMS_TMP/other.out" | grep -c 'psql does not print: .*LEASE_CREATING')" 1

rc=0
psql -Xq -d script_documents_quickstart -f "$CLAIMS_ROOT/examples/psql/quickstart.sql" >"$CLAIMS_TMP/quickstart.out" 2>&1 || rc=$?
expect 'quickstart.sql ends well' "$rc" 0
expect 'quickstart.sql: one statement fails on purpose' "$(grep -c 'ERROR: ' "$CLAIMS_TMP/quickstart.out")" 1
expect 'quickstart.sql: a renamed group' "$(grep -cE '^ gitlab +\| ACTIVE +\| north' "$CLAIMS_TMP/quickstart.out")" 1

for name in script_documents script_documents_readme script_documents_quickstart; do sql postgres "DROP DATABASE $name"; done
sql postgres 'DROP ROLE north, south'
