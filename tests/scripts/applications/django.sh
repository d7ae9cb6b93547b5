#!/usr/bin/env bash
# A Django application in two cells in automatic mode: examples/django, with Django's own tests.
. "$(dirname "$0")/../applications.bash"

needs_python django psycopg2
manage() { "$PYTHON" "$CLAIMS_ROOT/examples/django/manage.py" "$@"; }
start_application
in_each_cell manage migrate --verbosity 0
declare_names
expect 'the models and the migrations agree' "$(in_each_cell manage makemigrations --check --dry-run | sort -u)" 'No changes detected'
make_alone manage migrate --verbosity 0
test_application manage test --keepdb names
context_is_recorded
nothing_is_left
