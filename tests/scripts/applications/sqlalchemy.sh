#!/usr/bin/env bash
# An SQLAlchemy application in two cells in automatic mode: examples/sqlalchemy, with pytest.
. "$(dirname "$0")/../applications.bash"

needs_python sqlalchemy pytest psycopg2
cd "$CLAIMS_ROOT/examples/sqlalchemy"
start_application
in_each_cell "$PYTHON" models.py
declare_names
test_application "$PYTHON" -m pytest -q -p no:cacheprovider .
nothing_is_left
