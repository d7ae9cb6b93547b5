#!/usr/bin/env bash
# One process has one libpq, the first that is loaded: the library names that of its PostgreSQL, as dblink does, also where that has a folder of its own.
. "$(dirname "$0")/../common.bash"

libpq_of() { ldd "$1" | awk '$1 ~ /^libpq/ { print $3 }' | xargs realpath; }
libraries=$(pg_config --pkglibdir)
expect 'the library and dblink have one libpq' "$(libpq_of "$libraries/claims.so")" "$(libpq_of "$libraries/dblink.so")"
expect 'a session has all that use it' "$(sqlstate "LOAD 'claims'; LOAD 'dblink'; LOAD 'postgres_fdw'; LOAD 'libpqwalreceiver'")" 00000
