-- NULL for every argument is refused before anything else is checked.
SELECT t.clean();
CREATE FUNCTION pg_temp.all_null() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT q.s || ' -> ' || c FROM (VALUES
        (1, 'SELECT claims.begin_update(NULL, t.creates(''a''))'),
        (2, 'SELECT claims.begin_update(1, NULL)'),
        (3, 'SELECT claims.begin_update(1, NULL, t.destroys(''a''))'),
        (4, 'SELECT claims.begin_update(1, t.creates(''a''), NULL)'),
        (5, 'SELECT claims.begin_update(NULL, NULL, NULL, NULL)'),
        (6, 'SELECT * FROM claims.try_begin_update(NULL, t.creates(''a''))'),
        (7, 'SELECT * FROM claims.try_begin_update(1, NULL)'),
        (8, 'SELECT * FROM claims.try_begin_update(1, t.creates(''a''), NULL)'),
        (9, 'SELECT claims.commit_update(NULL, t.u(2100))'),
        (10, 'SELECT claims.commit_update(1, NULL)'),
        (11, 'SELECT claims.rollback_update(NULL, t.u(2100))'),
        (12, 'SELECT claims.rollback_update(1, NULL)'),
        (13, 'SELECT claims.lease_outcome(NULL, t.u(2100))'),
        (14, 'SELECT claims.lease_outcome(1, NULL)'),
        (15, 'SELECT * FROM claims.settle_leases(NULL)'),
        (16, 'SELECT * FROM claims.settle_leases(1, NULL)'),
        (17, 'SELECT * FROM claims.settle_leases(1, ''{}'', NULL)'),
        (18, 'SELECT * FROM claims.settle_leases(1, ARRAY[NULL::uuid])'),
        (19, 'SELECT * FROM claims.settle_leases(1, ''{}'', ARRAY[NULL::uuid])'),
        (20, 'SELECT bucket_value FROM claims.get_record(NULL, ''a'')'),
        (21, 'SELECT bucket_value FROM claims.get_record(''ROUTES'', NULL)'),
        (22, 'SELECT bucket_value FROM claims.get_records(NULL)'),
        (23, 'SELECT * FROM claims.list_leases(1, max_results => NULL)'),
        (24, 'SELECT bucket_value FROM claims.list_records(NULL)'),
        (25, 'SELECT bucket_value FROM claims.list_records(1, max_results => NULL)'),
        (26, 'SELECT claims.register_cell(NULL, ''regress_claims_one'')'),
        (27, 'SELECT claims.register_cell(1, NULL)'),
        (28, 'SELECT claims.grant_read(NULL)'),
        (29, 'SELECT claims.add_bucket_type(NULL, ''X'')'),
        (30, 'SELECT claims.add_bucket_type(200, NULL)'),
        (31, 'SELECT claims.add_subject_type(NULL, ''X'')'),
        (32, 'SELECT claims.add_subject_type(200, NULL)'),
        (33, 'SELECT claims.add_source_type(NULL, ''X'')'),
        (34, 'SELECT claims.add_source_type(200, NULL)')) q(n, s), t.call(q.s) c ORDER BY n $$;
SELECT pg_temp.all_null();
-- arguments that may be NULL
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a'), '[]', NULL) IS NOT NULL$$);
SELECT t.call($$SELECT lease_uuid IS NOT NULL, conflicts FROM claims.try_begin_update(1, t.creates('b'), '[]', NULL)$$);
SELECT t.call($$SELECT count(*) FROM claims.list_leases(NULL, NULL, 100, NULL)$$);
SELECT t.call($$SELECT count(*) FROM claims.list_records(1, NULL, NULL, 1000, NULL, NULL)$$);
-- no NULL has fenced, registered or granted anything
SELECT t.leases();
SELECT t.call($$SELECT claims.begin_update(1, t.creates('c'), lease_uuid => t.u(2100))$$);
-- the error as the client sees it, and the next statement works
SELECT claims.commit_update(1, NULL);
SELECT 1;
