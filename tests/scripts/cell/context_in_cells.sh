#!/usr/bin/env bash
# What a cell's session says about who acts reaches the service's audit log and change feed by every way to save, whoever settles the lease.
. "$(dirname "$0")/../cells.bash"

start_cells -c shared_preload_libraries=claims -c claims.databases=postgres
at shared "ALTER DATABASE postgres SET claims.audit = 'all'; ALTER DATABASE postgres SET claims.change_feed = on"
at cell1 "ALTER TABLE routes OWNER TO app"
as_app 1 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id')" >/dev/null
# said NAME [WHAT]: what the audit log has of a name's rows.
said() { at shared "SELECT string_agg(format('%s: %s, %s', what, coalesce(context, '-'), cell_role), '; ' ORDER BY at, id) FROM claims.audit_log WHERE bucket_values @> ARRAY['$1'] AND what ~ '${2:-.}'"; }
told() { at shared "SELECT string_agg(format('%s: %s, %s', op, coalesce(context, '-'), cell_role), '; ' ORDER BY id) FROM claims.changes WHERE bucket_value = '$1'"; }

# --- automatic mode: SET, SET LOCAL, and a session that says nothing ----------------------------------------------------------
as_app 1 "SELECT claims.automatic(1, 'service')" >/dev/null
as_app 1 "SET claims.context = 'user 42 via /admin'; INSERT INTO routes (name) VALUES ('automatic')"
expect 'a save' "$(wait_for 'committed: user 42 via /admin, app' said automatic)" 'committed: user 42 via /admin, app'
expect 'and its change' "$(told automatic)" 'create: user 42 via /admin, app'
as_app 1 "BEGIN; SET LOCAL claims.context = 'this transaction'; INSERT INTO routes (name) VALUES ('local'); COMMIT; INSERT INTO routes (name) VALUES ('later')"
expect 'the setting at the COMMIT' "$(wait_for 'committed: this transaction, app' said local)" 'committed: this transaction, app'
expect 'nothing said' "$(wait_for 'committed: -, app' said later)" 'committed: -, app'
as_app 1 "SET claims.context = 'a renaming'; UPDATE routes SET name = 'renamed' WHERE name = 'later'; DELETE FROM routes WHERE name = 'local'"
expect 'a renaming' "$(wait_for 'committed: a renaming, app' said renamed)" 'committed: a renaming, app'
expect 'a deletion' "$(wait_for 'committed: this transaction, app; committed: a renaming, app' said local)" 'committed: this transaction, app; committed: a renaming, app'
# A save that the service refuses, and a local rollback.
have_other() { as_cell 2 "SELECT claims.commit_update(2, claims.begin_update(2, '[$(claim other)]'))" >/dev/null; }
have_other
expect 'a refused save' "$(state_as_app 1 "SET claims.context = 'in vain'; INSERT INTO routes (name) VALUES ('other')")" 23505
expect 'is recorded with its context' "$(wait_for 'refused: in vain, app' said other refused)" 'refused: in vain, app'
as_app 1 "SET claims.context = 'given up'; BEGIN; INSERT INTO routes (name) VALUES ('undone'); SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK"
expect 'a local rollback' "$(wait_for 'rolled_back: given up, app' said undone)" 'rolled_back: given up, app'
# The longest context, with quotes, backslashes and other scripts.
longest="'\\\"{},é\$1 $(printf 'x%.0s' {1..240})"
as_app 1 "SET claims.context = $(printf "%s" "$longest" | sed "s/'/''/g; s/^/'/; s/\$/'/"); INSERT INTO routes (name) VALUES ('longest')"
expect 'every character' "$(wait_for "committed: $longest, app" said longest)" "committed: $longest, app"

# --- a lease that recovery settles for a session that died -------------------------------------------------------------------
open victim cell1 app
tell victim "SET claims.context = 'died before it settled'; BEGIN; INSERT INTO routes (name) VALUES ('orphan'); SET CONSTRAINTS ALL IMMEDIATE" >/dev/null
expect 'its lease' "$(at shared "SELECT context, cell_role FROM claims.list_leases(1)")" 'died before it settled|app'
crash cell1
resume cell1
expect 'is settled by recovery' "$(wait_for 'rolled_back: died before it settled, app' said orphan)" 'rolled_back: died before it settled, app'

# --- begin_pending, observed names, import, verification, names claimed for others ---------------------------------------------
as_app 1 "SELECT claims.automatic(NULL, NULL)" >/dev/null
as_app 1 "SET claims.context = 'by hand'; BEGIN; INSERT INTO routes (name) VALUES ('pending'); SELECT claims.begin_pending(1, 'service'); COMMIT" >/dev/null
expect 'begin_pending' "$(wait_for 'committed: by hand, app' said pending)" 'committed: by hand, app'
at cell1 "BEGIN; SELECT claims.skip_capture('a test'); INSERT INTO routes (name) VALUES ('found'), ('missed'); COMMIT" >/dev/null
( export PGOPTIONS='-c claims.context=the\ import'; as_app 1 "CALL claims.import_claims(1, 'service', 'RAILS_TABLE_ROUTES')" >/dev/null 2>&1 )
expect 'an import' "$(said found)" 'imported: the import, app'
at shared "DELETE FROM claims.claims WHERE bucket_value = 'missed'"
as_app 1 "SET claims.context = 'the audit of May'; SELECT corrected FROM claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', recent => '0 s', correct => true)" >/dev/null
expect 'a correction' "$(said missed corrected)" 'corrected: the audit of May, app'
# An observed save waits for the service only for a time, and this machine may be slow.
at cell1 "ALTER DATABASE postgres SET claims.observe_timeout = '60s'"
as_app 1 "SELECT claims.automatic(1, 'service'), claims.set_enforcement('routes', 'name', 'observe', 'a test')" >/dev/null
as_app 1 "SET claims.context = 'observed'; INSERT INTO routes (name) VALUES ('seen')"
expect 'an observed name' "$(wait_for 'committed: observed, app' said seen)" 'committed: observed, app'

# --- another role of the cell, and a context that another client chose: the word of the cell -----------------------------------
at cell1 "CREATE ROLE jobs LOGIN; GRANT app TO jobs"
( use_cluster cell1; export PGUSER=jobs; sql "SET ROLE app; SET claims.context = 'nightly'; INSERT INTO routes (name) VALUES ('nightly')" )
expect 'the role that has logged in' "$(wait_for 'committed: nightly, jobs' said nightly)" 'committed: nightly, jobs'
expect 'nothing is amiss' "$(at shared 'SELECT count(*) FROM claims.check()')" 0
