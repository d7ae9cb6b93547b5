#!/usr/bin/env bash
# What make install, make deb and make oci install first: what building needs, and nothing that only tests need. The programs that look for packages and
# install them are stubs here, on which nothing is installed yet.
. "$(dirname "$0")/../common.bash"

stubs=$CLAIMS_TMP/stubs
mkdir -p "$stubs" "$CLAIMS_TMP/pgrx"
stub() { printf '#!/usr/bin/env bash\n%s\n' "$2" >"$stubs/$1"; chmod +x "$stubs/$1"; }
stub dpkg-query 'exit 1'
stub apt-cache 'exit 0'
# shellcheck disable=SC2016
stub apt-get '[ "$1" != install ] || printf "%s\n" "$@" >"$INSTALLED"'
stub sudo 'exec "$@"'
stub pg_dropcluster 'exit 0'
stub cargo "echo cargo-pgrx $(sed -n 's/^PGRX_VERSION=//p' "$CLAIMS_ROOT/scripts/setup")"
echo "pg15 = '/usr/bin/pg_config'" >"$CLAIMS_TMP/pgrx/config.toml"

# installed STEP...: the packages that scripts/setup asks apt for.
installed() {
  (unset PG_CONFIG && PATH=$stubs:$PATH PG_MAJOR=15 PGRX_HOME=$CLAIMS_TMP/pgrx INSTALLED=$CLAIMS_TMP/installed "$CLAIMS_ROOT/scripts/setup" "$@" >/dev/null 2>&1)
  LC_ALL=C sort "$CLAIMS_TMP/installed"
}
only_tests='^(nodejs|npm|ruby.*|valgrind|faketime|python3-.*)$'
installed build >"$CLAIMS_TMP/build"
expect 'building needs the server, its headers and libpq' "$(grep -cxE 'postgresql-15|postgresql-server-dev-15|libpq-dev|libclang-dev' "$CLAIMS_TMP/build")" 4
expect 'and nothing that only tests need' "$(grep -E "$only_tests" "$CLAIMS_TMP/build")" ''
installed >"$CLAIMS_TMP/all"
expect 'tests need that too' "$(LC_ALL=C comm -23 "$CLAIMS_TMP/build" "$CLAIMS_TMP/all")" ''
expect 'and more' "$(grep -cxE 'ruby-pg|python3-psycopg|valgrind|faketime' "$CLAIMS_TMP/all")" 4
for target in install deb oci; do
  expect "make $target installs what building needs" "$(make -C "$CLAIMS_ROOT" --no-print-directory -n "$target" | grep -o 'scripts/setup.*')" 'scripts/setup build'
done
rm "$CLAIMS_TMP/installed"
expect 'cargo-cyclonedx alone needs no package' "$(installed sbom 2>/dev/null)" ''
