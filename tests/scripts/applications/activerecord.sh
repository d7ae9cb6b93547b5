#!/usr/bin/env bash
# A Rails application in two cells in automatic mode: examples/activerecord, with Rails' own tests.
. "$(dirname "$0")/../applications.bash"

env -u RUBYOPT ruby -e 'require "active_record"; require "active_job"; require "minitest"; require "pg"' 2>/dev/null || skip 'ruby has no activerecord, activejob, minitest or pg'
start_application
in_each_cell make_tables
declare_names
make_alone psql -Xq -v ON_ERROR_STOP=1 -f "$CLAIMS_ROOT/examples/tickets.sql"
test_application env -u RUBYOPT ruby -W:no-deprecated "$CLAIMS_ROOT/examples/activerecord/application_test.rb"
test_application env -u RUBYOPT ruby -W:no-deprecated "$CLAIMS_ROOT/examples/activerecord/partitions_test.rb"
context_is_recorded
nothing_is_left
