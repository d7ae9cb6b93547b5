#!/usr/bin/env bash
# The recipe for MySQL and MariaDB in contrib/cell/README.md, executed on MariaDB: mysql_cell.py has the calls and what must hold. Skipped where
# there is no MariaDB.
. "$(dirname "$0")/../cells.bash"

command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ] || skip 'MariaDB is missing'
python=$(for python in python3 /usr/bin/python3; do ! "$python" -c 'import psycopg, pymysql' 2>/dev/null || { echo "$python"; break; }; done)
[ -n "$python" ] || skip 'psycopg 3 or PyMySQL is missing'

start_cluster shared --fast
at shared "CREATE EXTENSION claims; CREATE ROLE cell_1 LOGIN; SELECT claims.register_cell(1, 'cell_1')" >/dev/null
new_directory mysql
PATH=/usr/sbin:$PATH "$python" -B "$(dirname "$0")/mysql_cell.py" "$CLAIMS_ROOT/contrib/cell/README.md" "${CLUSTER_DIR[mysql]}" \
  "$([ "$(id -u)" != 0 ] || echo "$SERVER_USER")" "host=${CLUSTER_DIR[shared]} port=${CLUSTER_PORT[shared]} dbname=postgres user=cell_1"
expect 'nothing is wrong at the service' "$(at shared 'SELECT count(*) FROM claims.check()')" 0
