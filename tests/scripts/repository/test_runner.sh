#!/usr/bin/env bash
# scripts/test itself, with tests of its own: it distinguishes tests that pass, differ, hang, crash the server or have no
# expected output, none affects another, and independent ones run in parallel.
# test: long
. "$(dirname "$0")/../common.bash"

root=$CLAIMS_TMP/root
mkdir -p "$root/scripts" "$root/tests/pg_regress/sql" "$root/tests/pg_regress/expected" "$root/tests/isolation/specs" "$root/tests/scripts/some"
cp "$CLAIMS_ROOT"/scripts/{test,lib.sh,lib-test.sh,new-system-identifier} "$root/scripts/"
printf '#!/bin/sh\n' >"$root/scripts/build" && chmod +x "$root/scripts/build"     # it is all built
cp "$CLAIMS_ROOT/tests/scripts/common.bash" "$root/tests/scripts/"
cp "$CLAIMS_ROOT/tests/pg_regress/psql" "$root/tests/pg_regress/"

# file NAME: makes a test of pg_regress from standard input. Its expected output is the test itself, and the text after `---`.
file() {
  local sql=$root/tests/pg_regress/sql/$1.sql
  sed '/^---$/,$d' >"$sql" <"$CLAIMS_TMP/in"
  [ "${2:-}" = unaccepted ] || { cat "$sql"; sed '1,/^---$/d' "$CLAIMS_TMP/in"; } >"$root/tests/pg_regress/expected/$1.out"
}
regress() { cat >"$CLAIMS_TMP/in"; file "$@"; }

regress setup <<'SQL'
CREATE TABLE seen (a int);
SQL
regress passes <<'SQL'
TABLE seen;
---
SQL
regress differs <<'SQL'
-- the label of what differs
\set a 1
\set a 1
\set a 1
\set a 1
INSERT INTO seen VALUES (1); SELECT 1 AS a;
---
2
SQL
regress differs_next <<'SQL'
TABLE seen;
---
SQL
regress unaccepted unaccepted <<'SQL'
SELECT 1;
SQL
regress hangs <<'SQL'
SET statement_timeout = 0;
SELECT pg_sleep(1000);
SQL
regress hangs_in_one_statement <<'SQL'
SELECT pg_sleep(1000);
SQL
regress crashes <<'SQL'
SELECT pg_backend_pid() AS pid \gset
\setenv PID :pid
\! kill -SEGV $PID
SELECT 1;
SQL
# The log lines of a PostgreSQL with assertions when one fails.
trap_line() { printf '\\! echo '"'"'TRAP: failed Assert("%s"), File: "x.c", Line: 7, PID: 99'"'"' >>"$PGHOST/log"\n' "$1"; }
trap_line known | regress known
trap_line new | regress new
regress zz_last <<'SQL'
TABLE seen;
---
SQL
echo 'TRAP: failed Assert("known"), File: "x.c", Line: 7' >"$CLAIMS_TMP/known"

# runner ARGUMENT...: runs scripts/test without a running cluster. Its output is in the file `out`.
runner() {
  env -u PGHOST -u PGPORT -u PGUSER -u PGDATABASE -u CLAIMS_CLUSTERS -u CLAIMS_CLUSTER_DIR -u CLAIMS_TMP \
    CARGO_TARGET_DIR="$CLAIMS_TMP/target" KNOWN_ASSERTIONS="$CLAIMS_TMP/known" TEST_LIMIT_SECONDS="${limit:-60}" TEST_KILL_SECONDS=1 \
    bash "$root/scripts/test" "$@" >"$CLAIMS_TMP/out" 2>&1 </dev/null
}
verdict() { sed -nE "s/^(ok|FAILED|known) +$1 .*/\1/p" "$CLAIMS_TMP/out"; }
# The details of a test that failed.
details() { sed -n "/^---- $1:\$/,/^----\$/p" "$CLAIMS_TMP/out"; }

code=0; limit=20 TEST_JOBS=1 runner regress || code=$?
expect 'setup is a test, and runs once' "$(verdict 'regress: setup')" ok
expect 'passes' "$(verdict 'regress: passes')" ok
expect 'differs' "$(verdict 'regress: differs') $(details 'regress: differs' | grep -c '^[-+][12]$')" 'FAILED 2'
expect 'under its label' "$(details 'regress: differs' | grep -c '^@@ .* -- the label of what differs$')" 1
expect 'the next one does not see what it left' "$(verdict 'regress: differs_next')" ok
expect 'no expected output' "$(verdict 'regress: unaccepted') $(details 'regress: unaccepted' | grep -c 'no expected output yet')" 'FAILED 1'
expect 'hangs: stopped' "$(verdict 'regress: hangs') $(details 'regress: hangs' | grep -c 'it did not end within 20 seconds')" 'FAILED 1'
expect 'hangs in one statement: it is named' "$(verdict 'regress: hangs_in_one_statement') $(details 'regress: hangs_in_one_statement' | grep -c '^+ERROR:  canceling statement due to statement timeout')" 'FAILED 1'
expect 'crashes: the log says how' "$(verdict 'regress: crashes') $(details 'regress: crashes' | grep -c 'signal 11')" 'FAILED 1'
expect 'a known assertion' "$(verdict 'regress: known')" known
expect 'another assertion' "$(verdict 'regress: new') $(details 'regress: new' | grep -c 'TRAP: failed Assert("new")')" 'FAILED 1'
expect 'after all that the next one finds what setup made' "$(verdict 'regress: zz_last')" ok
expect 'what failed is listed' "$(sed -n '/^failed:$/,/^$/p' "$CLAIMS_TMP/out" | tr -s '\n ' ' ')" \
  'failed: regress: crashes regress: differs regress: hangs regress: hangs_in_one_statement regress: new regress: unaccepted '
expect 'the last line, and the exit code' "$(tail -1 "$CLAIMS_TMP/out") $code" '4 passed, 6 failed 1'

runner regress passes zz_last || true
expect 'chosen by name' "$(grep -cE '^(ok|FAILED)' "$CLAIMS_TMP/out") $(tail -1 "$CLAIMS_TMP/out")" '3 3 passed, 0 failed'
runner regress nothing_of_this_name || true
expect 'a name that there is not' "$(tail -1 "$CLAIMS_TMP/out")" 'error: no test of regress has the name nothing_of_this_name'
mkdir -p "$root/tests/pg_regress/sql/slice" "$root/tests/pg_regress/expected/slice"
mv "$root/tests/pg_regress/sql/passes.sql" "$root/tests/pg_regress/sql/slice/"
mv "$root/tests/pg_regress/expected/passes.out" "$root/tests/pg_regress/expected/slice/"
runner regress slice/ || true
expect 'the tests of a folder' "$(grep -c 'regress: passes' "$CLAIMS_TMP/out") $(tail -1 "$CLAIMS_TMP/out")" '1 2 passed, 0 failed'
runner regress no_slice/ || true
expect 'a folder that there is not' "$(tail -1 "$CLAIMS_TMP/out")" 'error: no test of regress is in a folder no_slice'

# Programs: two that wait for each other pass only side by side; one that measures times runs after them.
for n in 1 2; do
  cat >"$root/tests/scripts/some/pair$n.sh" <<SH
touch $CLAIMS_TMP/here$n
for _ in \$(seq 1 1200); do [ -e $CLAIMS_TMP/here$((3 - n)) ] && break; sleep 0.1; done
test -e $CLAIMS_TMP/here$((3 - n)); sleep 0.5; touch $CLAIMS_TMP/gone$n
SH
done
cat >"$root/tests/scripts/some/measures.sh" <<SH
# test: timed
test -e $CLAIMS_TMP/gone1 && test -e $CLAIMS_TMP/gone2
SH
limit=60 TEST_JOBS=2 runner script || true
expect 'side by side, and after them' "$(verdict 'script: pair1') $(verdict 'script: pair2') $(verdict 'script: measures')" 'ok ok ok'
rm "$root"/tests/scripts/some/*.sh

# Without times of an earlier run, long ones begin first. What a program leaves behind when it fails is ended.
printf '%s\n' '# test: long' >"$root/tests/scripts/some/second.sh"
printf '%s\n' "sleep 1000 & echo \$! >$CLAIMS_TMP/left; exit 1" >"$root/tests/scripts/some/first.sh"
TEST_JOBS=1 runner script || true
expect 'a long one is first' "$(sed -nE 's/^(ok|FAILED) +script: ([a-z]+) .*/\2/p' "$CLAIMS_TMP/out" | paste -sd' ')" 'second first'
expect 'it had a process' "$([ -s "$CLAIMS_TMP/left" ] && echo yes)" yes
expect 'which is gone, too' "$(readlink "/proc/$(cat "$CLAIMS_TMP/left")/exe" || echo gone)" gone
rm "$root"/tests/scripts/some/*.sh

# A program that cannot be stopped leaves no server behind.
cat >"$root/tests/scripts/some/stubborn.sh" <<SH
. "\$(dirname "\$0")/../common.bash"
trap '' TERM
start_cluster stubborn --fast
head -1 "\${CLUSTER_DIR[stubborn]}/data/postmaster.pid" >$CLAIMS_TMP/postmaster
for _ in \$(seq 1 300); do sleep 1 & wait; done
SH
limit=10 runner script stubborn || true
expect 'a program that hangs' "$(verdict 'script: stubborn') $(details 'script: stubborn' | grep -c 'it did not end within 30 seconds')" 'FAILED 1'
expect 'it had a server' "$([ -s "$CLAIMS_TMP/postmaster" ] && echo yes)" yes
# Dead, and perhaps not yet buried.
expect 'which is gone' "$(readlink "/proc/$(cat "$CLAIMS_TMP/postmaster")/exe" || echo gone)" gone
