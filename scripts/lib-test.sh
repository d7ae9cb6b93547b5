# How tests of each kind are run and reported: sourced by scripts/test, not run.
#
# A worker has a cluster of its own and takes tests from a queue until it is empty. The cluster and databases are created when
# the first test needs them, and again after a failed test, so that it does not affect others.
#
# A test that measures times has the comment line `# test: timed` (`-- test: timed` in SQL), and runs after the others.
#
# Time limits: for a statement, so that the output shows which one hung; for the file or the step of a spec; for the
# program. CAMPAIGN_SECONDS and STRESS_SECONDS are added.

TEST_LIMIT_SECONDS=${TEST_LIMIT_SECONDS:-300}
PROGRAM_LIMIT=$((3 * TEST_LIMIT_SECONDS + ${CAMPAIGN_SECONDS:-0} + ${STRESS_SECONDS:-0}))
RUST_LIMIT=$((12 * TEST_LIMIT_SECONDS))      # cargo compiles
# A difference is printed under the label of its statements (`-- label`), or under its permutation.
export PG_REGRESS_DIFF_OPTS="-U3 -F '^-- \|^starting permutation'"
export PGISOLATIONTIMEOUT=$((TEST_LIMIT_SECONDS / 5)) PG_TEST_TIMEOUT_DEFAULT=$((TEST_LIMIT_SECONDS / 10))

now_ms() { date +%s%3N; }
# is_marked WORD FILE: whether the comment that begins the file of a test has the line `# test: WORD`, in SQL `-- test: WORD`.
is_marked() { awk -v mark="test: $1" '!/^(#|--)/ { exit } $0 == "# " mark || $0 == "-- " mark { found = 1; exit } END { exit !found }' "$2"; }

# --- reporting ---------------------------------------------------------------------------------------------------

# report VERDICT COUNT NAME MILLISECONDS [DETAILS]: prints one line and the file DETAILS, and writes a line for the summary. The
# verdict is ok, FAILED, known or skipped; COUNT is the number of tests in it.
report() {
  (
    flock 8
    printf '%-7s %-60s %7d.%d s\n' "$1" "$3" $(($4 / 1000)) $(($4 % 1000 / 100))
    printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$4" "$3" >>"$out/results"
    if [ -n "${5:-}" ]; then
      printf -- '---- %s:\n' "$3"
      cat "$5"
      printf -- '----\n'
    fi
  ) 8>"$out/lock"
}

# last_lines LOG: without what was as expected.
last_lines() { sed '/^ok: /d' "$1" | tail -n "${TEST_LOG_LINES:-60}"; }

# limited SECONDS LOG COMMAND...: runs a command and returns its exit code; 124 if it was ended at the limit. Ends the processes that the
# command leaves behind: timeout makes them a group, with its own number. A server is not among them: pg_ctl gives it a session of its own.
limited() {
  local limit=$1 log=$2 rc=0
  shift 2
  timeout --kill-after="${TEST_KILL_SECONDS:-30}" "$limit" "$@" >"$log" 2>&1 </dev/null &
  CHILD=$!          # a signal ends the wait, and the trap ends the child
  wait "$CHILD" 2>/dev/null || rc=$?
  kill -TERM -- "-$CHILD" 2>/dev/null || true
  CHILD=
  [ $rc != 137 ] || rc=124
  [ $rc != 124 ] || printf '\nstopped: it did not end within %s seconds\n' "$limit" >>"$log"
  return $rc
}

# run_step NAME LIMIT COMMAND...: one test that is one command; its output is shown when it fails.
run_step() {
  local name=$1 limit=$2 log started
  shift 2
  log=$out/log/$(tr -c 'A-Za-z0-9_.\n' '-' <<<"$name").log
  started=$(now_ms)
  if limited "$limit" "$log" "$@"; then
    report ok 1 "$name" $(($(now_ms) - started))
  else
    report FAILED 1 "$name" $(($(now_ms) - started)) <(last_lines "$log")
  fi
}

# --- a worker -------------------------------------------------------------------------------------------------------

# next_test QUEUE: the next line of the file, each to one worker.
next_test() {
  (
    flock 8
    taken=$(cat "$1.taken" 2>/dev/null || echo 0)
    line=$(sed -n "$((taken + 1))p" "$1")
    [ -n "$line" ] || exit 1
    echo $((taken + 1)) >"$1.taken"
    printf '%s\n' "$line"
  ) 8>"$1.lock"
}

# worker NUMBER QUEUE: runs in a shell of its own.
worker() {
  local line
  WORKER=test$1
  CHILD=
  declare -gA PREPARED=()
  CLUSTER_DIR=() CLUSTER_PORT=() CLAIMS_STAGE_COPY=       # forget those of the caller
  trap_cleanup
  trap 'cleanup; [ -z "${CLAIMS_TMP:-}" ] || rm -rf "$CLAIMS_TMP" "$CLAIMS_CLUSTERS"' EXIT
  trap '[ -z "$CHILD" ] || { kill -TERM "$CHILD"; wait "$CHILD"; } 2>/dev/null; exit 143' TERM
  while line=$(next_test "$2"); do
    # shellcheck disable=SC2086
    run_test $line
  done
}

# run_test KIND [NAME]
run_test() {
  case $1 in
    rust) run_rust ;;
    clients) run_clients ;;
    regress | isolation) run_regress "$1" "$2" ;;
    script) run_script "$2" ;;
    stress) run_stress ;;
  esac
}

# log_min_messages: tests provoke thousands of errors; a crash of a process is logged as LOG.
need_server() {
  [ -z "${CLUSTER_DIR[$WORKER]:-}" ] || return 0
  start_cluster "$WORKER" --fast -c log_min_messages=log
  PREPARED=()
}

# Has the next test get a cluster of its own, after one that hung or crashed the server or needs another one.
drop_server() {
  stop_cluster "$WORKER"
  PREPARED=()
}

# Prints the lines about crashes in the worker's server log, from byte MARK on; without kill -9, which tests use themselves.
server_log() { printf '%s/log' "${CLUSTER_DIR[$WORKER]}"; }
log_mark() { stat -c %s "$(server_log)"; }
crashes_since() {
  tail -c "+$(($1 + 1))" "$(server_log)" | grep -aE 'PANIC|TRAP:|terminated by signal' | grep -av 'terminated by signal 9: Killed' || true
}

# Prints one line for each kind of crash, with their number.
same_once() { sed -E 's/, PID: [0-9]+\)?$//; s/^.* LOG:  //; s/\(PID [0-9]+\) //' | sort | uniq -c; }

# judge RC CRASHES: prints ok, FAILED, or known if the only failure is an assertion of PostgreSQL that fails without this extension
# too (scripts/test-checked finds these, and puts them into KNOWN_ASSERTIONS).
judge() {
  if [ ! -s "$2" ]; then
    [ "$1" = 0 ] && echo ok || echo FAILED
  elif [ -n "${KNOWN_ASSERTIONS:-}" ] && ! unknown_crashes <"$2"; then
    echo known
  else
    echo FAILED
  fi
}

# Returns whether a crash is not a known one. An assertion that fails ends the process by SIGABRT.
unknown_crashes() {
  sed -E 's/.*(TRAP: .*), PID: [0-9]+\)?.*/\1/' | grep -av 'terminated by signal 6: Aborted' | grep -avxF -f "$KNOWN_ASSERTIONS" >/dev/null
}

# --- Rust -----------------------------------------------------------------------------------------------------------

run_rust() {
  # pgrx asks this pg_config when it is built outside cargo pgrx.
  PGRX_PG_CONFIG_PATH=$(find_pg_config)
  export PGRX_PG_CONFIG_PATH
  run_step 'rust: cargo fmt' $RUST_LIMIT cargo fmt --all --check
  # Enable the extension's feature for this PostgreSQL; cargo pgrx does that itself.
  run_step 'rust: cargo clippy' $RUST_LIMIT \
    cargo clippy --workspace --all-targets --no-default-features --features "claims/pg$PG_MAJOR" -- -D warnings
  run_cargo_tests
}

# The tests of all crates that need no server; each of them counts.
run_cargo_tests() {
  local log=$out/log/cargo-test.log started rc=0 passed line
  started=$(now_ms)
  limited $RUST_LIMIT "$log" cargo test --workspace --exclude claims --exclude claims-pg --no-fail-fast || rc=$?
  passed=$(sed -nE 's/^test result: .* ([0-9]+) passed.*/\1/p' "$log" | awk '{ n += $1 } END { print n + 0 }')
  while read -r line; do report FAILED 1 "rust: $line" 0; done < <(sed -nE 's/^test (.*) \.\.\. FAILED$/\1/p' "$log")
  if [ $rc = 0 ]; then
    report ok "$passed" "rust: cargo test ($passed tests)" $(($(now_ms) - started))
  else
    printf 'ok\t%s\t0\t\n' "$passed" >>"$out/results"
    report FAILED 1 "rust: cargo test" $(($(now_ms) - started)) <(last_lines "$log")
  fi
}

# Builds the programs of the stress run and the campaigns; not a test of its own.
run_clients() { run_step 'rust: build the clients' $RUST_LIMIT scripts/clients; }

# --- pg_regress and pg_isolation_regress ----------------------------------------------------------------------------

regress_dir() { case $1 in regress) echo tests/pg_regress ;; isolation) echo tests/isolation ;; esac; }
# regress_files KIND [NAME]: prints the files of all tests of a kind, or the one of that name. Each is in the folder of its slice; names are unique
# (tests/scripts/repository/structure.sh).
regress_files() {
  local name=${2:-*}
  case $1 in
    regress) find tests/pg_regress/sql -name "$name.sql" ;;
    isolation) find tests/isolation/specs -name "$name.spec" ;;
  esac | LC_ALL=C sort
}
# regress_expected FILE: prints the file with the expected output of a test.
regress_expected() { sed -E 's#/(sql|specs)/#/expected/#; s#[.][a-z]+$#.out#' <<<"$1"; }
regress_program() {
  local pgxs
  pgxs=$(dirname "$(dirname "$("$(find_pg_config)" --pgxs)")")
  case $1 in regress) echo "$pgxs/test/regress/pg_regress" ;; isolation) echo "$pgxs/test/isolation/pg_isolation_regress" ;; esac
}

# Prints the option that names what runs psql, or the tester of isolation specs: what all files have in common is set there.
regress_launcher() { echo "--launcher=$CLAIMS_ROOT/$(regress_dir "$1")/$(case $1 in regress) echo psql ;; isolation) echo verdicts ;; esac)"; }

# regress_names KIND [NAME | FOLDER/]...: prints the names of all tests of a kind, or of those that are named, and of those of a folder.
regress_names() {
  local kind=$1 name
  shift
  [ $# -gt 0 ] || set -- /
  for name in "$@"; do
    case $name in
      */) regress_files "$kind" | grep -F "/${name#/}" | sed -E 's#.*/(.*)[.][a-z]+$#\1#' | grep . || die "no test of $kind is in a folder ${name%/}" ;;
      *) [ -n "$(regress_files "$kind" "$name")" ] || die "no test of $kind has the name $name"
         echo "$name" ;;
    esac
  done
}

# The programs read a copy without folders, in which a test without expected output gets one that differs, so that it fails.
copy_regress() {
  local file expected folder=sql
  [ "$1" = regress ] || folder=specs
  rm -rf "${out:?}/$1" && mkdir -p "$out/$1/$folder" "$out/$1"/{expected,results,run}
  while read -r file; do
    cp "$file" "$out/$1/$folder/"
    expected=$(regress_expected "$file")
    if [ -e "$expected" ]; then
      cp "${expected%.out}"{,_[0-9]}.out "$out/$1/expected/" 2>/dev/null || [ -e "$out/$1/expected/${expected##*/}" ]
    else
      echo 'no expected output yet: read the result, then scripts/regress-accept' >"$out/$1/expected/${expected##*/}"
    fi
  done < <(regress_files "$1")
}

# pg_regress_run KIND NAME [OPTION...]: runs one test; its files are in $out/KIND/run/NAME.
pg_regress_run() {
  local kind=$1 name=$2 run=$out/$1/run/$WORKER-$2 rc=0
  shift 2
  rm -rf "$run" && mkdir -p "$run"
  # shellcheck disable=SC2046,SC2086
  PGOPTIONS="${PGOPTIONS:-} -c statement_timeout=$((TEST_LIMIT_SECONDS / 4))s" \
    limited "$TEST_LIMIT_SECONDS" "$run/log" "$(regress_program "$kind")" "$@" \
    --bindir="$CLAIMS_BINDIR" --inputdir="$out/$kind" --outputdir="$run" --dbname="claims_$kind" --encoding=UTF8 \
    --host="$PGHOST" --port="$PGPORT" --user="$PGUSER" $(regress_launcher "$kind") ${REGRESS_ARGS:-} "$name" || rc=$?
  cp "$run/results/$name"*.out "$out/$kind/results/" 2>/dev/null || true
  return $rc
}

# Makes the template database of a kind by the file `setup`. Each test gets a copy. `setup` is a test like the others, and counts
# once.
prepare_regress() {
  local kind=$1 started run=$out/$1/run/$WORKER-setup rc=0
  [ -z "${PREPARED[$kind]:-}" ] || return 0
  need_server
  started=$(now_ms)
  in_server -c "DROP DATABASE IF EXISTS claims_${kind}_model WITH (FORCE)"
  pg_regress_run "$kind" setup || rc=$?
  if [ $rc != 0 ]; then
    cat "$run/regression.diffs" >>"$run/log" 2>/dev/null || true
    report FAILED 1 "$kind: setup" $(($(now_ms) - started)) "$run/log"
    return 1
  fi
  in_server -c "ALTER DATABASE claims_$kind RENAME TO claims_${kind}_model"
  PREPARED[$kind]=yes
  if mkdir "$out/$kind/setup-passed" 2>/dev/null; then report ok 1 "$kind: setup" $(($(now_ms) - started)); fi
}

# Each test has a database of its own under the same name, so that no test sees rows of another. Roles belong to the cluster: a test
# that leaves one behind fails. Prints the roles that exist before.
fresh_database() {
  in_server -At -c "DROP DATABASE IF EXISTS claims_$1 WITH (FORCE)" -c "CREATE DATABASE claims_$1 TEMPLATE claims_${1}_model" -c "$ROLES"
}
ROLES="SELECT 'role ' || rolname FROM pg_roles ORDER BY rolname"
in_server() { PGOPTIONS='-c client_min_messages=warning' psql -Xq -v ON_ERROR_STOP=1 -d postgres "$@"; }

# run_regress KIND NAME
run_regress() {
  local kind=$1 name=$2 run=$out/$1/run/$WORKER-$2 started mark rc=0 verdict details
  [ "$name" != setup ] || { prepare_regress "$kind" || true; return 0; }
  if ! prepare_regress "$kind"; then
    report FAILED 1 "$kind: $name (setup failed)" 0
    drop_server
    return 0
  fi
  started=$(now_ms)
  mark=$(log_mark)
  fresh_database "$kind" >"$run.roles"
  pg_regress_run "$kind" "$name" --use-existing || rc=$?
  crashes_since "$mark" >"$run/crashes"
  if [ $rc = 0 ] && ! diff "$run.roles" <(in_server -Atc "$ROLES") >"$run/regression.diffs"; then
    sed -i '1i it left behind (>) or took away (<):' "$run/regression.diffs"
    rc=1
  fi
  verdict=$(judge $rc "$run/crashes")
  if [ "$verdict" = ok ]; then
    report ok 1 "$kind: $name" $(($(now_ms) - started))
    rm -rf "$run"
    return 0
  fi
  details=$run/details
  same_once <"$run/crashes" >"$details"
  if [ "$verdict" = FAILED ]; then
    if [ $rc = 124 ]; then last_lines "$run/results/$name.out" >>"$details" || true; fi
    if [ -s "$run/regression.diffs" ]; then cat "$run/regression.diffs" >>"$details"; else cat "$run/log" >>"$details"; fi
  fi
  report "$verdict" 1 "$kind: $name" $(($(now_ms) - started)) "$details"
  if [ $rc = 124 ] || [ -s "$run/crashes" ]; then drop_server; else unset "PREPARED[$kind]"; fi
}

# --- tests that are programs ----------------------------------------------------------------------------------------

# script_file NAME: prints the program of that name, in one of the folders; names are unique (tests/scripts/repository/structure.sh).
script_file() {
  local file
  for file in tests/scripts/*/"$1".sh; do echo "$file"; return; done
}

# Each program finds a running cluster in its environment, and starts more by scripts/lib.sh. CLAIMS_TMP is a fresh directory,
# CLAIMS_CLUSTERS the directory of its clusters: a program that is killed cannot stop them.
run_script() {
  local name=$1 file log=$out/log/script-$1.log started mark rc=0 verdict
  file=$(script_file "$1")
  need_server
  CLAIMS_TMP=$(mktemp -d /tmp/claims-test.XXXXXX)
  CLAIMS_CLUSTERS=$(cd /tmp && as_server mktemp -d /tmp/claims-clusters.XXXXXX)
  export CLAIMS_TMP CLAIMS_CLUSTERS
  started=$(now_ms)
  mark=$(log_mark)
  limited $PROGRAM_LIMIT "$log" bash "$file" || rc=$?
  { crashes_since "$mark"; cat "$CLAIMS_TMP/crashes" 2>/dev/null || true; } >"$log.crashes"
  verdict=$(judge $rc "$log.crashes")
  [ "$verdict" != known ] || : >"$log"
  # Skipped: its last line says what is missing.
  [ $rc != 77 ] || [ -s "$log.crashes" ] || verdict=skipped
  same_once <"$log.crashes" >>"$log"
  if [ "$verdict" = ok ]; then
    report ok 1 "script: $name" $(($(now_ms) - started))
  elif [ "$verdict" = skipped ]; then
    report skipped 1 "script: $name ($(tail -1 "$log" | sed 's/^skipped: //'))" $(($(now_ms) - started))
  else
    report "$verdict" 1 "script: $name" $(($(now_ms) - started)) <(last_lines "$log")
    stop_abandoned "$CLAIMS_CLUSTERS"
    drop_server
  fi
  rm -rf "$CLAIMS_TMP" "$CLAIMS_CLUSTERS" "$log.crashes"
  unset CLAIMS_TMP CLAIMS_CLUSTERS
}

# Sixteen connections that want the same names, and a check of their answers.
run_stress() {
  local seconds=${STRESS_SECONDS:-20} mark
  # Where the library is preloaded, calls wait for names in an order.
  drop_server
  start_cluster "$WORKER" --fast -c log_min_messages=log -c shared_preload_libraries=claims
  mark=$(log_mark)
  run_step 'stress: build the client' $RUST_LIMIT scripts/clients
  run_step "stress: $seconds seconds" $PROGRAM_LIMIT "$CLAIMS_CLIENTS/stress" --seconds "$seconds"
  crashes_since "$mark" >"$out/log/stress-crashes"
  [ ! -s "$out/log/stress-crashes" ] || report FAILED 1 'stress: the server crashed' 0 "$out/log/stress-crashes"
  drop_server
}
