-- Two cells and a name, in one minute.
-- Run as a superuser in an empty database:
--     createdb names && psql -d names -f examples/psql/quickstart.sql
-- One statement below fails on purpose. The two roles are dropped at the end; the database is yours to drop.

\set QUIET on
\set ON_ERROR_STOP on
CREATE EXTENSION claims;
CREATE ROLE quickstart_north;
CREATE ROLE quickstart_south;
DO $$ BEGIN
  PERFORM claims.register_cell(1, 'quickstart_north', 'north');
  PERFORM claims.register_cell(2, 'quickstart_south', 'south');
END $$;

\echo
\echo '1. North wants the route gitlab-org for its group 9970. The lease holds the name from now on.'
SET ROLE quickstart_north;
SELECT claims.begin_update(1, $$[{
         "bucket":  {"type": "ROUTES", "value": "gitlab-org"},
         "subject": {"type": "GROUP", "id": 9970},
         "source":  {"type": "RAILS_TABLE_ROUTES", "rails_primary_key_id": 1}}]$$) AS lease \gset
SELECT bucket_type, bucket_value, status, cell_name FROM claims.get_record('ROUTES', 'gitlab-org');

\echo '2. Meanwhile south asks for the same name: leased, which is temporary.'
SET ROLE quickstart_south;
SELECT jsonb_pretty(conflicts) AS conflicts FROM claims.try_begin_update(2, $$[{
         "bucket":  {"type": "ROUTES", "value": "gitlab-org"},
         "subject": {"type": "GROUP", "id": 7},
         "source":  {"type": "RAILS_TABLE_ROUTES", "rails_primary_key_id": 1}}]$$);

\echo '3. North has saved its row and commits the lease. Saying it twice does no harm.'
SET ROLE quickstart_north;
SELECT claims.commit_update(1, :'lease') AS committed_now;
SELECT claims.commit_update(1, :'lease') AS committed_now, claims.lease_outcome(1, :'lease') AS outcome;

\echo '4. South asks again: taken, which is for good. As an error, with what a program needs in DETAIL:'
SET ROLE quickstart_south;
\set ON_ERROR_STOP off
SELECT claims.begin_update(2, $$[{
         "bucket":  {"type": "ROUTES", "value": "gitlab-org"},
         "subject": {"type": "GROUP", "id": 7},
         "source":  {"type": "RAILS_TABLE_ROUTES", "rails_primary_key_id": 1}}]$$);
\set ON_ERROR_STOP on

\echo
\echo '5. North renames its group: one batch gives up the old name and takes the new one.'
SET ROLE quickstart_north;
SELECT claims.begin_update(1,
         create_records => $$[{
           "bucket":  {"type": "ROUTES", "value": "gitlab"},
           "subject": {"type": "GROUP", "id": 9970},
           "source":  {"type": "RAILS_TABLE_ROUTES", "rails_primary_key_id": 1}}]$$,
         destroy_records => '[{"bucket": {"type": "ROUTES", "value": "gitlab-org"}}]') AS lease \gset
SELECT claims.commit_update(1, :'lease') AS committed_now;
SELECT bucket_value, status, cell_name
  FROM claims.get_records('[{"type": "ROUTES", "value": "gitlab"}, {"type": "ROUTES", "value": "gitlab-org"}]');

\echo '6. Nothing contradicts itself: no row.'
RESET ROLE;
SELECT * FROM claims.check();

DROP OWNED BY quickstart_north, quickstart_south;
DROP ROLE quickstart_north, quickstart_south;
