#!/usr/bin/env bash
# make uninstall removes the extension's files and no others, says so where there are none, and leaves those of a package to apt.
. "$(dirname "$0")/../common.bash"

server=$CLAIMS_TMP/server
mkdir -p "$server/lib" "$server/share/extension" "$CLAIMS_TMP/stubs"
cat >"$server/pg_config" <<CONFIG
#!/bin/sh
case \$1 in --version) echo 'PostgreSQL $PG_MAJOR.1' ;; --pkglibdir) echo '$server/lib' ;; --sharedir) echo '$server/share' ;; esac
CONFIG
chmod +x "$server/pg_config"
others='lib/claims_more.so lib/plpgsql.so share/extension/claims_more--1.0.sql share/extension/plpgsql.control'
ours='lib/claims.so share/extension/claims.control share/extension/claims--1.2.0.sql share/extension/claims--1.1.0--1.2.0.sql'
fill() { (cd "$server" && touch $others $ours); }
files() { (cd "$server" && find lib share -type f | LC_ALL=C sort | tr '\n' ' '); }
uninstall() {
  local rc=0
  PATH=$CLAIMS_TMP/stubs:$PATH PG_CONFIG=$server/pg_config make -C "$CLAIMS_ROOT" --no-print-directory uninstall >"$CLAIMS_TMP/out" 2>&1 || rc=$?
  echo "$rc"
}

fill
expect 'removed' "$(uninstall)" 0
expect 'all of the extension, and nothing else' "$(files)" "$others "
expect 'each file is named' "$(grep -c "^==> removing $server/" "$CLAIMS_TMP/out")" 4
expect 'once more' "$(uninstall)" 0
expect 'nothing is there' "$(cat "$CLAIMS_TMP/out")" "==> the PostgreSQL of $server/pg_config does not have the extension"

fill
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "postgresql-%s-claims: $2"\n' "$PG_MAJOR" >"$CLAIMS_TMP/stubs/dpkg-query"
chmod +x "$CLAIMS_TMP/stubs/dpkg-query"
expect 'files of a package' "$(uninstall)" 2
expect 'apt removes them' "$(grep '^error' "$CLAIMS_TMP/out")" \
  "error: $server/lib/claims.so belongs to the package postgresql-$PG_MAJOR-claims: apt-get purge postgresql-$PG_MAJOR-claims removes it"
expect 'they stay' "$(files | wc -w)" 8
