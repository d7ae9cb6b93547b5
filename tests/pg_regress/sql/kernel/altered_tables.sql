-- Tables that their owner has altered, or written into: an error says so, and never an internal error.
SELECT t.clean();
SELECT t.have(1, 'a', 'b');
-- a NULL in a column that was NOT NULL
SELECT t.calls_after_change('ALTER TABLE claims.claims ALTER subject_id DROP NOT NULL; UPDATE claims.claims SET subject_id = NULL',
      $$SELECT count(*) FROM claims.get_record('ROUTES', 'a')$$);
SELECT t.calls_after_change('ALTER TABLE claims.claims ALTER subject_id DROP NOT NULL; UPDATE claims.claims SET subject_id = NULL',
      $$SELECT count(*) FROM claims.get_records('[{"type": 1, "value": "a"}]')$$);
SELECT t.calls_after_change('ALTER TABLE claims.claims ALTER subject_id DROP NOT NULL; UPDATE claims.claims SET subject_id = NULL',
      $$SELECT * FROM claims.try_begin_update(2, t.creates('a'))$$);
SELECT t.calls_after_change('ALTER TABLE claims.cells ALTER role DROP NOT NULL; UPDATE claims.cells SET role = NULL',
      $$SELECT claims.begin_update(1, t.creates('c'))$$);
SELECT t.calls_after_change('ALTER TABLE claims.bucket_types ALTER name DROP NOT NULL; UPDATE claims.bucket_types SET name = NULL WHERE id = 2',
      $$SELECT claims.begin_update(1, t.creates('c'))$$);
-- columns of other types
SELECT t.calls_after_change('ALTER EXTENSION claims DROP VIEW claims.records; ALTER EXTENSION claims DROP VIEW claims.quarantined_names;
      DROP VIEW claims.records, claims.quarantined_names;
      ALTER TABLE claims.claims ALTER subject_id TYPE bytea USING subject_id::bytea', $$SELECT count(*) FROM claims.get_record('ROUTES', 'a')$$);
SELECT t.calls_after_change('ALTER EXTENSION claims DROP VIEW claims.records; ALTER EXTENSION claims DROP VIEW claims.quarantined_names;
      DROP VIEW claims.records, claims.quarantined_names;
      ALTER TABLE claims.claims ALTER subject_id TYPE bytea USING subject_id::bytea',
      $$SELECT count(*) FROM claims.get_records('[{"type": 1, "value": "a"}]')$$);
SELECT t.calls_after_change('ALTER TABLE claims.captured_tables ALTER queue TYPE bytea USING queue::bytea; CREATE TABLE t.altered (id int);
      CREATE TRIGGER captured AFTER INSERT ON t.altered FOR EACH ROW EXECUTE FUNCTION claims.capture_change(''q'', ''id'');
      INSERT INTO claims.captured_tables VALUES (''t.altered'', ''q'', ''id'')', $$INSERT INTO t.altered VALUES (1) RETURNING 1$$);
-- NULLs in a captured table's cached description and in a request
SELECT t.calls_after_change('ALTER TABLE claims.requests ALTER entity DROP NOT NULL;
      INSERT INTO claims.requests (queue, request_type) VALUES (''altered'', ''update'')',
      $$SELECT count(*) FROM claims.take_requests('altered', t.u(1))$$);
SELECT t.calls_after_change('ALTER TABLE claims.captured_tables ALTER entity_column DROP NOT NULL; CREATE TABLE t.altered (id int);
      SELECT claims.capture_requests(''t.altered'', ''q'', ''id''); UPDATE claims.captured_tables SET entity_column = NULL',
      $$INSERT INTO t.altered VALUES (1) RETURNING 1$$);
-- columns that were dropped or renamed: the SQLSTATE of PostgreSQL or of the extension
SELECT left(x, 5)
  FROM t.calls_after_change('ALTER TABLE claims.lease_outcomes RENAME settled_at TO ended_at',
      $$SELECT claims.rollback_update(1, t.u(7100))$$) x LIMIT 1;
SELECT left(x, 5)
  FROM t.calls_after_change('ALTER TABLE claims.cells RENAME address TO url', $$SELECT count(*) FROM claims.get_record('ROUTES', 'a')$$) x LIMIT 1;
-- all changes were rolled back: reads work as before
SELECT subject_id, cell_id FROM claims.get_record('ROUTES', 'a');
-- check() accepts the unique index under another name; in another order it is no damage, but calls need statements
CREATE FUNCTION pg_temp.problems(change text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT * FROM t.calls_after_change(change, $c$SELECT string_agg(problem || ': ' || detail, '; ') FROM claims.check()$c$) $$;
SELECT pg_temp.problems('ALTER INDEX claims.claims_bucket RENAME TO by_another_name');
SELECT pg_temp.problems('ALTER TABLE claims.claims DROP CONSTRAINT claims_bucket;
      CREATE UNIQUE INDEX other ON claims.claims (bucket_type, bucket_value)');
-- check() reports a unique index that is missing, partial, deferrable, of another collation or of other columns
SELECT pg_temp.problems('ALTER TABLE claims.claims DROP CONSTRAINT claims_bucket');
SELECT pg_temp.problems('ALTER TABLE claims.claims DROP CONSTRAINT claims_bucket;
      CREATE UNIQUE INDEX claims_bucket ON claims.claims (bucket_value, bucket_type) WHERE status = 1');
SELECT pg_temp.problems('ALTER TABLE claims.claims DROP CONSTRAINT claims_bucket;
      CREATE UNIQUE INDEX claims_bucket ON claims.claims (bucket_value COLLATE "POSIX", bucket_type)');
SELECT pg_temp.problems('ALTER TABLE claims.claims DROP CONSTRAINT claims_bucket;
      CREATE UNIQUE INDEX claims_bucket ON claims.claims (lower(bucket_value), bucket_type)');
SELECT pg_temp.problems('ALTER TABLE claims.claims DROP CONSTRAINT claims_bucket;
      CREATE UNIQUE INDEX claims_bucket ON claims.claims (bucket_value, bucket_type, uuid)');
SELECT pg_temp.problems('ALTER TABLE claims.claims DROP CONSTRAINT claims_bucket;
      ALTER TABLE claims.claims ADD CONSTRAINT claims_bucket UNIQUE (bucket_value, bucket_type) DEFERRABLE');
-- an index of requests with another condition: check() reports it, and requests are found all the same
SELECT pg_temp.problems('DROP INDEX claims.requests_ready; CREATE INDEX requests_ready ON claims.requests (queue, id) WHERE status = ''error''');
SELECT t.after_change('DROP INDEX claims.requests_ready; CREATE INDEX requests_ready ON claims.requests (queue, id) WHERE status = ''error'';
      SELECT claims.enqueue_request(''altered'', ''e'', ''update'')', $$SELECT entity FROM claims.take_requests('altered', t.u(1))$$);
SELECT t.clean();
