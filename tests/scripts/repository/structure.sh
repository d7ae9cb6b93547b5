#!/usr/bin/env bash
# No two files of Rust import each other, directly or through others, nor do two folders. The tables are reached through their door only. Files
# are short, tests have labels, doc comments need no other comment, and only crates/pg is unsafe.
. "$(dirname "$0")/../common.bash"

expect 'every program of tests/scripts has a name of its own' "$(find "$CLAIMS_ROOT/tests/scripts" -name '*.sh' -printf '%f\n' | LC_ALL=C sort | uniq -d)" ''

# sourced_twice ROOT: the programs that source common.bash, and also a file that sources it.
sourced_twice() {
  (cd "$1/tests/scripts" && grep -lE '^\. .*/common\.bash"' ./*/*.sh | xargs grep -lE '^\. .*/(cells|citus|applications|documented|waiters|imports|disturb|upgrade)\.bash"') || true
}
expect 'a program sources only what it uses itself' "$(sourced_twice "$CLAIMS_ROOT")" ''

expect 'every part of an upgrade has a number of its own' "$(find "$CLAIMS_ROOT/sql/upgrade" -name '[0-9]*.sql' -printf '%h/%f\n' | sed -E 's/(.*\/[0-9]+)-.*/\1/' | LC_ALL=C sort | uniq -d)" ''

circles() { python3 -B "$CLAIMS_ROOT/tests/scripts/repository/structure.py" "$@"; }
expect 'no circle, and no number above its ceiling' "$(circles "$CLAIMS_ROOT" --ceilings)" ''

# with FILE LINE...: prints the problems of a copy of the tree whose FILE has these additional lines.
with() {
  rm -rf "$CLAIMS_TMP/tree"
  mkdir -p "$CLAIMS_TMP/tree/crates/pg" "$CLAIMS_TMP/tree/crates/model"
  cp -r "$CLAIMS_ROOT/src" "$CLAIMS_TMP/tree"
  cp -r "$CLAIMS_ROOT/crates/pg/src" "$CLAIMS_TMP/tree/crates/pg"
  cp -r "$CLAIMS_ROOT/crates/model/src" "$CLAIMS_TMP/tree/crates/model"
  printf '%s\n' "${@:2}" >>"$CLAIMS_TMP/tree/$1"
  circles "$CLAIMS_TMP/tree"
}
expect 'two files' "$(with crates/pg/src/table.rs 'use super::index::find;')" 'crates/pg/src: index uses table uses index'
expect 'in a list' "$(with crates/pg/src/table.rs 'use crate::{text, index::{self, find as found}};')" 'crates/pg/src: index uses table uses index'
expect 'without use' "$(with crates/pg/src/table.rs 'fn found() { crate::index::find() }')" 'crates/pg/src: index uses table uses index'
expect 'through others' "$(with src/kernel/error/access.rs 'use crate::service::low_water;' | grep -cE '^src: .* uses .* uses ')" 1
expect 'a higher module, by a file that nobody uses' "$(with src/kernel/error/higher.rs 'use crate::service::low_water;' | grep -cE '^src: .*kernel uses service')" 1
expect 'two folders, by files that do not import each other' "$(with src/cell/client/higher.rs 'use crate::cell::verify::digest;' | grep -cE '^src: cell::client uses cell::verify uses .*cell::client$')" 1
expect 'of another crate' "$(with crates/model/src/claim.rs 'use crate::batch::Batch;')" 'crates/model/src: batch uses claim uses batch'
expect 'comments and tests are none' "$(with crates/pg/src/table.rs '// use super::index::find;' '#[cfg(test)]' 'mod tests { use super::index::find; }')" ''

# --- numbers --------------------------------------------------------------------------------------------------------

# numbers LINE...: the numbers of a tree with one file of these lines that are not 0.
numbers() {
  rm -rf "$CLAIMS_TMP/numbers"
  mkdir -p "$CLAIMS_TMP/numbers/src"
  printf '%s\n' "$@" >"$CLAIMS_TMP/numbers/src/lib.rs"
  circles --numbers "$CLAIMS_TMP/numbers" | grep -vE '^0 | lines of code$' || true
}
expect 'the tables, in a function with generics' "$(numbers "fn one<T: Into<U>, F: Fn(i64) -> T>(tables: Tables) {}")" '1 functions that take the tables'
expect 'the tables and a connection' "$(numbers 'fn one(&self, tables: Tables, connection: &Connection) {}')" \
  $'1 functions that take the tables\n1 functions that take the tables and a connection'
expect 'six parameters; a comma within one is none between two' "$(numbers 'fn six(&self, a: (u8, u8), b: fn(u8) -> u8, c: u8, d: [u8; 2], e: u8) {}' 'fn five(a: T<u8, u8>, b: u8, c: u8, d: u8, e: u8) {}')" \
  '1 functions with six or more parameters'
expect 'an SQL function may have them' "$(numbers '#[pg_extern(schema = "claims")]' '#[search_path(pg_catalog, pg_temp)]' 'fn six(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) {}')" ''
expect 'a statement may, too' "$(numbers 'fn six(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) -> Vec<u8> = [Latest]' '    "SELECT :a";')" ''
expect 'the next function may not' "$(numbers '#[pg_extern]' 'fn one() {' '}' '' 'fn six(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) {}')" '1 functions with six or more parameters'
expect 'columns' "$(numbers 'fn one(row: Row) { (row.must(1), row.get::<i64>(2), row.must("name")) }')" '2 columns read by number'
expect 'parameters' "$(numbers 'const ONE: &str = "SELECT $1, $12"; // $3')" '2 parameters of statements by number'
expect 'statements' "$(numbers 'const ONE: &str = "INSERT INTO claims.claims SELECT";' 'const TWO: &str = "UPDATE claims.claims_2";')" '1 statements that write claims'
expect 'names' "$(numbers '' 'struct One;' 'pub enum One {' '}' 'pub(super) trait Two {' '    type Three;' '}' 'type Three = u8;')" '1 names of types declared more than once'
expect 'a number above its ceiling' "$(numbers >/dev/null; seq -f 'struct One; fn f%.0f(tables: Tables) {}' 999 >"$CLAIMS_TMP/numbers/src/lib.rs"; circles "$CLAIMS_TMP/numbers" --ceilings | grep -c '^999 functions that take the tables: the ceiling is ')" 1

# --- doc comments ---------------------------------------------------------------------------------------------------

openings() { python3 -B "$CLAIMS_ROOT/tests/scripts/repository/openings.py" "$1"; }
expect 'no doc comment begins with a word that needs another comment' "$(openings "$CLAIMS_ROOT")" ''

# opened LINE...: prints the problems of a file with these lines.
opened() {
  rm -rf "$CLAIMS_TMP/tree"
  mkdir -p "$CLAIMS_TMP/tree/src/holds"
  printf '%s\n' "$@" >"$CLAIMS_TMP/tree/src/holds/opened.rs"
  openings "$CLAIMS_TMP/tree"
}
for opening in 'The same' What Whose 'Of which' 'By whom' That; do
  expect "$opening" "$(opened "/// $opening for a batch." 'fn one() {}')" "src/holds/opened.rs:1: $opening for a batch."
done
expect 'of a module, and of a field' "$(opened '//! What it is.' '' 'struct One {' '    /// That it is.' '}')" $'src/holds/opened.rs:1: What it is.\nsrc/holds/opened.rs:4: That it is.'
expect 'a longer word, a later line, and another comment' "$(opened '/// Whatever it is.' '/// What else it is.' 'fn one() {' '    // That it is.' '}')" ''

# Each call asks once where the tables of the service are, where it begins.
expect 'a door below the SQL functions' "$(with src/service/admission.rs 'fn found() { tables::at_entry(); }')" 'src: service::admission chooses a door, and has no SQL function'
for handed in 'tables: Tables' 'call: &Call' 'call: &CellCall'; do
  expect "another door, with $handed" "$(with src/service/read/record.rs "fn found($handed) {" '    tables::at_entry();' '}')" \
    'src: service::read::record::found was handed a door, and chooses another one'
done
expect 'another call' "$(with src/service/read/record.rs 'fn found(call: &Call) {' '    CellCall::run(None, |call| Ok(()));' '}')" \
  'src: service::read::record::found was handed a door, and chooses another one'
expect 'past the door' "$(with src/service/admission.rs 'fn found() { layout::is_distributed(); }')" 'src: service::admission asks Citus, and not the door'

expect 'Citus outside of its folder' "$(with src/worker/citus_users.rs 'use crate::citus::layout;')" 'src: worker::citus_users knows what is behind the door'

# --- tests in SQL ---------------------------------------------------------------------------------------------------

for kind in pg_regress/sql isolation/specs; do
  expect "every test of $kind has a name of its own" "$(find "$CLAIMS_ROOT/tests/$kind" -type f -printf '%f\n' | LC_ALL=C sort | uniq -d)" ''
  expect "every test of $kind is in the folder of its slice" "$(find "$CLAIMS_ROOT/tests/$kind" -maxdepth 1 -type f ! -name 'setup.*')" ''
done
# The expected outputs of files that do not exist; an output may have variants with a number.
without_test() { (cd "$1/tests" && for output in $(find pg_regress/expected isolation/expected -name '*.out'); do
    file=$(sed -E 's#/expected/#/*/#; s#(_[0-9])?[.]out$##' <<<"$output"); compgen -G "$file.s*" >/dev/null || echo "$output"; done); }
expect 'every expected output has its test' "$(without_test "$CLAIMS_ROOT")" ''

# long_lines ROOT: the lines of pg_regress files and isolation specs that have more than 150 characters.
long_lines() { (cd "$1/tests" && LC_ALL=C.UTF-8 grep -rnoE '^.{151}' pg_regress/sql isolation/specs | cut -d: -f1,2) || true; }
expect 'no line of a test in SQL is too long' "$(long_lines "$CLAIMS_ROOT")" ''

mkdir -p "$CLAIMS_TMP/long/tests/pg_regress/sql" "$CLAIMS_TMP/long/tests/isolation/specs"
printf -- '-- %0148d\n' 0 >"$CLAIMS_TMP/long/tests/pg_regress/sql/long.sql"
printf '# é%0147d\n# é%0148d\n' 0 0 >"$CLAIMS_TMP/long/tests/isolation/specs/long.spec"
expect 'a long line of each kind; characters count' "$(long_lines "$CLAIMS_TMP/long")" $'pg_regress/sql/long.sql:1\nisolation/specs/long.spec:2'

# unlabelled ROOT: the groups of statements of pg_regress files, divided by blank lines, that have no label.
unlabelled() { (cd "$1/tests/pg_regress/sql" && find . -name '*.sql' -print0 | xargs -0 awk 'BEGIN { RS = "" } !/(^|\n)--/ { print FILENAME ": " substr($0, 1, index($0 "\n", "\n") - 1) }'); }
expect 'every group of statements has a label' "$(unlabelled "$CLAIMS_ROOT")" ''

mkdir -p "$CLAIMS_TMP/long/tests/pg_regress/"{sql/slice,expected/slice} "$CLAIMS_TMP/long/tests/isolation/expected/slice"
touch "$CLAIMS_TMP/long/tests/pg_regress/"{sql/slice/one.sql,expected/slice/one.out,expected/slice/one_1.out,expected/one.out}
expect 'an output in another folder than its test' "$(without_test "$CLAIMS_TMP/long")" 'pg_regress/expected/one.out'
rm -r "$CLAIMS_TMP/long/tests/pg_regress/"{sql/slice,expected}

printf -- '-- the label\nSELECT 1;\n\nSELECT 2;\nSELECT 3;\n' >"$CLAIMS_TMP/long/tests/pg_regress/sql/long.sql"
expect 'a group without a label' "$(unlabelled "$CLAIMS_TMP/long")" './long.sql: SELECT 2;'

# too_long_to_review ROOT: the expected outputs of isolation specs that have more than 500 lines.
too_long_to_review() { (cd "$1/tests/isolation/expected" && find . -name '*.out' -print0 | xargs -0 awk 'FNR == 501 { print FILENAME }'); }
expect 'somebody can review every expected output of a spec' "$(too_long_to_review "$CLAIMS_ROOT")" ''

mkdir -p "$CLAIMS_TMP/long/tests/isolation/expected"
seq 500 >"$CLAIMS_TMP/long/tests/isolation/expected/short.out"
seq 501 >"$CLAIMS_TMP/long/tests/isolation/expected/long.out"
expect 'a long one' "$(too_long_to_review "$CLAIMS_TMP/long")" './long.out'

# verdicts MARK LINE...: what is printed of these lines of the tester for a spec with two steps whose head has the mark.
verdicts() {
  printf '%s\n' '# two steps' "# $1" 'session s' 'step one { SELECT 1 AS a;' '  SELECT 2 AS b; }' 'step two { COMMIT; }' '' '# the label' 'permutation one two' \
    >"$CLAIMS_TMP/two.spec"
  printf '%s\n' 'Parsed test spec with 1 sessions' '' 'starting permutation: one two' "${@:2}" >"$CLAIMS_TMP/printed"
  "$CLAIMS_ROOT/tests/isolation/verdicts" cat "$CLAIMS_TMP/printed" <"$CLAIMS_TMP/two.spec" | sed '1,/^$/d'
}
one=('step one: SELECT 1 AS a;' '  SELECT 2 AS b;')
a=('a' '-' '1' '(1 row)' '') b=(' b|c' '--+-' ' 2|x' '30|y' '(2 rows)' '')
expect 'a verdict' "$(verdicts 'test: verdicts' "${one[@]}" "${a[@]}" "${b[@]}" 'step two: COMMIT;')" $'# the label\none [1] [2|x / 30|y] two'
expect 'a result without rows, and an error' "$(verdicts 'test: verdicts' "${one[@]}" 'a' '-' '(0 rows)' '' 'step two: COMMIT;' 'ERROR:  no')" \
  $'# the label\none [none] two [ERROR:  no]'
expect 'a step that waits' "$(verdicts 'test: verdicts' "${one[0]}" "${one[1]} <waiting ...>" 'step two: COMMIT;' 'step one: <... completed>' "${a[@]}")" \
  $'# the label\none <waiting ...> two one <... completed> [1]'
expect 'a notice stands before its step' "$(verdicts 'test: verdicts' "${one[@]}" "${a[@]}" 's: NOTICE:  so' 'DETAIL:  much' 'step two: COMMIT;')" \
  $'# the label\none [1] [s: NOTICE:  so DETAIL:  much] two'
expect 'other statements, and a step that is missing' "$(verdicts 'test: verdicts' 'step one: SELECT 3;' "${a[@]}")" \
  $'# the label\nstarting permutation: one two\nsetup [step one: SELECT 3;] [1]'
{ "$CLAIMS_ROOT/tests/isolation/verdicts" sh -c 'cat "$0"; kill -TERM $PPID; exec sleep 600' "$CLAIMS_TMP/printed" <"$CLAIMS_TMP/two.spec" || true; } >"$CLAIMS_TMP/hung"
expect 'a tester that hangs: what it has printed' "$(cat "$CLAIMS_TMP/hung")" "$(cat "$CLAIMS_TMP/printed")"
expect 'a spec that does not ask for it' "$(verdicts 'test: timed' "${one[@]}" 'step two: COMMIT;' | grep -c 'step one: SELECT 1 AS a;')" 1

# --- tests on distributed tables ----------------------------------------------------------------------------------------

# unexplained ROOT: the lines of the lists of tests left out on distributed tables that name no test, name one twice, or have no reason, and the
# expected differences without a reason.
unexplained() {
  (cd "$1/tests" && for list in citus/excluded.*; do
     folder=pg_regress/sql ending=sql
     [ "$list" != citus/excluded.isolation ] || folder=isolation/specs ending=spec
     while IFS= read -r line; do
       { [ -n "$(find "$folder" -name "${line%%:*}.$ending")" ] && [[ $line =~ ^[a-z0-9_]+:\ .{10} ]] && [ "$(grep -c "^${line%%:*}:" "$list")" = 1 ]; } || echo "$list: $line"
     done <"$list"
   done
   for patch in $(find citus/differences -name '*.patch'); do [[ $(head -1 "$patch") =~ ^[A-Za-z].{20} ]] || echo "$patch"; done)
}
expect 'what is left out on distributed tables has a reason' "$(unexplained "$CLAIMS_ROOT")" ''

mkdir -p "$CLAIMS_TMP/left/tests/"{pg_regress/sql,isolation/specs,citus/differences/regress}
touch "$CLAIMS_TMP/left/tests/pg_regress/sql/"{one,two,three}.sql
printf '%s\n' 'one: needs another kind of table' 'two:' 'three: needs another kind' 'three: of table, and says so' 'four: needs another kind of table' >"$CLAIMS_TMP/left/tests/citus/excluded.regress"
printf '%s\n' '--- a' '+++ b' >"$CLAIMS_TMP/left/tests/citus/differences/regress/one.patch"
expect 'what has none' "$(unexplained "$CLAIMS_TMP/left")" 'citus/excluded.regress: two:
citus/excluded.regress: three: needs another kind
citus/excluded.regress: three: of table, and says so
citus/excluded.regress: four: needs another kind of table
citus/differences/regress/one.patch'

# --- files ----------------------------------------------------------------------------------------------------------

# long_files ROOT: the files of code with 400 lines or more; tests/scripts/upgrade has dumps of released versions.
long_files() {
  (cd "$1" && find bench crates examples scripts sql/install sql/upgrade src tests -type f ! -path '*/node_modules/*' ! -name 'data-*.sql' \
    \( -name '*.rs' -o -name '*.py' -o -name '*.*sh' -o -name '*.sql' -o -name '*.spec' -o -path 'scripts/*' \) -exec awk 'FNR == 400 { print FILENAME }' {} + | LC_ALL=C sort)
}
expect 'no file is too long' "$(long_files "$CLAIMS_ROOT")" ''

mkdir -p "$CLAIMS_TMP/files/"{bench,crates,examples,scripts,sql/install,sql/upgrade,src,tests}
seq 399 >"$CLAIMS_TMP/files/src/short.rs"
for file in crates/long.rs scripts/long tests/long.bash tests/long.sh tests/data-1.0.0.sql; do seq 400 >"$CLAIMS_TMP/files/$file"; done
expect 'long files' "$(long_files "$CLAIMS_TMP/files")" $'crates/long.rs\nscripts/long\ntests/long.bash\ntests/long.sh'

# unsafe_places ROOT: the places outside of crates/pg, and of comments, where code is unsafe or may be. The compiler refuses it there, too.
unsafe_places() {
  (cd "$1" && grep -rnE --include='*.rs' '^[^/]*(\bunsafe\b|\b(allow|expect)\(.*unsafe_code)' src crates | grep -v '^crates/pg/' | cut -d: -f1,2 | LC_ALL=C sort) || true
}
expect 'only crates/pg is unsafe' "$(unsafe_places "$CLAIMS_ROOT")" ''

mkdir -p "$CLAIMS_TMP/files/crates/pg"
printf '%s\n' '// unsafe' 'fn one() { unsafe { two() } }' '#[allow(unsafe_code)]' | tee "$CLAIMS_TMP/files/crates/pg/pg.rs" >"$CLAIMS_TMP/files/src/one.rs"
expect 'an unsafe block, and a permission' "$(unsafe_places "$CLAIMS_TMP/files")" $'src/one.rs:2\nsrc/one.rs:3'

# Of this repository crates/pg uses the tokens of JSON, and nothing that knows claims.
expect 'what crates/pg is built on' "$(grep -oE '^claims-\w+' "$CLAIMS_ROOT/crates/pg/Cargo.toml")" claims-json
