# Functions for the scripts that try an artefact on a bare machine, as root: sourced by scripts/try-*, and copied there with them (try_on_bare in
# lib-debian.sh). `major` is the version of PostgreSQL.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive

fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }
as_postgres() { (cd / && runuser -u postgres -- "$@"); }
sql() { as_postgres psql -XqAt -v ON_ERROR_STOP=1 -d "${database:-names}" -c "$1"; }

# answers WHAT STATEMENT WANTED
answers() {
  local got
  got=$(sql "$2") || fail "$1: the statement fails"
  [ "$got" = "$3" ] || fail "$1: $got, not $3"
  printf 'ok: %s\n' "$1"
}

# install PACKAGE...: prints apt's messages only if it fails.
install() {
  apt-get install -y -q --no-install-recommends "$@" >install.log 2>&1 || { cat install.log; fail "cannot be installed: $*"; }
}

# A running cluster with an empty UTF-8 database `names`.
start_server() {
  [ -e "/etc/postgresql/$major/main" ] || pg_createcluster "$major" main >/dev/null
  pg_ctlcluster "$major" main status >/dev/null 2>&1 || pg_ctlcluster "$major" main start
  as_postgres createdb -T template0 -E UTF8 names
}

# The example of README's minute, in the database `names`. try_on_bare compares minute.out with README.
run_example() {
  as_postgres psql -Xqa -d names <minute.sql >minute.out 2>&1 || { cat minute.out; fail 'the example cannot be run'; }
  answers 'the claim of the example is there' "SELECT bucket_value, status FROM claims.get_record('ROUTES', 'gitlab-org')" 'gitlab-org|ACTIVE'
  answers 'nothing is wrong' 'SELECT count(*) FROM claims.check()' 0
}

# list_files: prints the files that packages and builds install, to compare before and after. Left out: what apt, dpkg and the server write as they run.
list_files() {
  find / -xdev \( -path /proc -o -path /dev -o -path /sys -o -path /run -o -path /tmp -o -path /root -o -path /var/lib/apt -o -path /var/lib/dpkg \
    -o -path /var/cache -o -path /var/log -o -path /var/lib/postgresql \) -prune -o -print | LC_ALL=C sort
}

# nothing_is_left BEFORE: fails if there is a file that was not there when list_files wrote BEFORE, or one that no longer is.
nothing_is_left() {
  list_files >after
  diff "$1" after || fail 'these files are not as they were before it was installed'
  echo 'ok: nothing is left'
  answers 'without it the extension is not available' "SELECT count(*) FROM pg_available_extensions WHERE name = 'claims'" 0
  answers 'the server and its data are there' 'SELECT count(*) FROM claims.claims' 1
}
