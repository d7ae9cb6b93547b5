#!/usr/bin/env bash
# The comparison of library and tables passes while a script of claims is running, and at no other time.
. "$(dirname "$0")/upgrade.bash"

trap 'rm -f "$EXTENSIONS"/*"$$"*; cleanup' EXIT
database=script_version_check
# A function whose tables are in both versions as they are.
look="SELECT count(*) FROM claims.held_expiring('any', 'anybody')"
refused='ERROR:  55000: extension "claims" is version'

make_database $database
sql $database "CREATE EXTENSION claims VERSION '$OLD'"
# One script that calls and then fails, one that calls and ends, and one of another extension.
echo "DO \$\$ BEGIN RAISE WARNING 'found %', ($look); END \$\$; SELECT 1 / 0;" >"$EXTENSIONS/claims--$OLD--98.0-failing$$.sql"
echo "DO \$\$ BEGIN RAISE WARNING 'found %', ($look); END \$\$;" >"$EXTENSIONS/claims--$OLD--98.0-ending$$.sql"
printf "default_version = '1'\nrelocatable = true\n" >"$EXTENSIONS/other$$.control"
echo "$look;" >"$EXTENSIONS/other$$--1.sql"

# answers STATEMENT...: in one session; each answer, or error with its SQLSTATE, in a line.
answers() { printf '%s;\n' "$@" | psql -XqAt -v VERBOSITY=verbose -d $database 2>&1 | grep -E '^(ERROR|WARNING|[0-9]+$)' | sed 's/ [^ ]*, but its library.*//'; }

expect 'before the upgrade a call is refused' "$(answers "$look")" "$refused"
expect 'a script may call; after its failure the session is refused again' \
  "$(answers "$look" "ALTER EXTENSION claims UPDATE TO '98.0-failing$$'" "$look")" \
  "$refused"$'\n''WARNING:  01000: found 0'$'\n''ERROR:  22012: division by zero'$'\n'"$refused"
expect 'and after its failure in a savepoint' \
  "$(answers 'BEGIN' 'SAVEPOINT s' "ALTER EXTENSION claims UPDATE TO '98.0-failing$$'" 'ROLLBACK TO s' "$look" 'ROLLBACK' "$look")" \
  'WARNING:  01000: found 0'$'\n''ERROR:  22012: division by zero'$'\n'"$refused"$'\n'"$refused"
expect 'a script of another extension is refused' "$(answers "CREATE EXTENSION other$$")" "$refused"
expect 'a call after the script, in its transaction, is compared' \
  "$(answers 'BEGIN' "ALTER EXTENSION claims UPDATE TO '98.0-ending$$'" "$look" 'ROLLBACK')" 'WARNING:  01000: found 0'$'\n'"$refused"
expect 'after the upgrade calls work' "$(answers "$look" 'ALTER EXTENSION claims UPDATE' "$look")" "$refused"$'\n'0
sql postgres "DROP DATABASE $database"
