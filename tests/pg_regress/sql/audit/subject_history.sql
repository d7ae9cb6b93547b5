-- subject_history: what a subject has and has had; bucket_history without a change feed.
SELECT t.clean();
SET claims.audit = 'settled';
CREATE FUNCTION t.one(value text, subject text, source int, type text DEFAULT 'ROUTES') RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('bucket', jsonb_build_object('type', type, 'value', value),
        'subject', jsonb_build_object('type', split_part(subject, ' ', 1), 'id', split_part(subject, ' ', 2)),
        'source', jsonb_build_object('type', 'RAILS_TABLE_USERS', 'id', source)) $$;
-- t.batch() begins and commits under a context
CREATE FUNCTION t.batch(number int, said text, creates jsonb, destroys jsonb DEFAULT '[]') RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM claims.begin_update_text(1, creates::text, destroys::text, t.u(number), context => said, cell_role => 'app');
    RETURN claims.commit_update(1, t.u(number));
END $$;
CREATE FUNCTION t.history(type text, id text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', what, 'cell', cell_id, bucket_type, bucket_value, ltrim(right(lease_uuid::text, 4), '0'), cell_role, context)
      FROM claims.subject_history(type, id) $$;

-- arguments
SELECT t.call(statement) FROM unnest(ARRAY[
    $$SELECT * FROM claims.subject_history(NULL, '1')$$, $$SELECT * FROM claims.subject_history('USER', NULL)$$,
    $$SELECT * FROM claims.subject_history('NOBODY', '1')$$, $$SELECT * FROM claims.subject_history('USER', '')$$,
    $$SELECT * FROM claims.subject_history('USER', '1', 'x')$$, $$SELECT * FROM claims.subject_history('USER', '1', max_results => 0)$$]) statement;
SET ROLE regress_claims_one;
SELECT t.call($$SELECT * FROM claims.subject_history('USER', '1')$$);
RESET ROLE;
-- EXECUTE alone makes no administrator
BEGIN; GRANT EXECUTE ON FUNCTION claims.subject_history TO regress_claims_one; SET LOCAL ROLE regress_claims_one;
SELECT t.call($$SELECT * FROM claims.subject_history('USER', '1')$$); ROLLBACK;

-- what it has had: claimed, kept for another source, taken over by another subject, given up, moved to another cell
SELECT t.batch(1, 'signup', jsonb_build_array(t.one('a', 'USER 42', 1), t.one('b', 'USER 42', 2), t.one('c', 'USER 43', 3)));
SELECT t.batch(2, 'other row', jsonb_build_array(t.one('a', 'USER 42', 4)), t.destroys('a'));
SELECT t.batch(3, 'given to 43', jsonb_build_array(t.one('b', 'USER 43', 5)), t.destroys('b'));
SELECT t.batch(4, 'deleted', t.creates('unrelated'), t.destroys('a'));
SELECT t.batch(5, 'again', jsonb_build_array(t.one('e@example.com', 'USER 42', 6, 'EMAILS')));
SELECT t.history('USER', '42');
SELECT t.history('USER', '43');
-- another type with the same id, and an id that begins like it
SELECT count(*) FROM t.history('GROUP', '42'); SELECT count(*) FROM t.history('USER', '4');
-- a lease that was rolled back, or is outstanding, gave it nothing
SELECT claims.begin_update(1, jsonb_build_array(t.one('no', 'USER 42', 7)), lease_uuid => t.u(6)) IS NOT NULL,
    claims.rollback_update(1, t.u(6));
SELECT claims.begin_update(1, jsonb_build_array(t.one('later', 'USER 42', 7)), lease_uuid => t.u(7)) IS NOT NULL;
SELECT count(*) FROM t.history('USER', '42') h WHERE h LIKE '% no%' OR h LIKE '% later%';
-- a name that a lease is to destroy is still its name
SELECT claims.begin_update(1, '[]',
    jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'EMAILS', 'value', 'e@example.com'))), t.u(8)) IS NOT NULL;
SELECT h FROM t.history('USER', '42') h WHERE h LIKE 'holds%';
SELECT claims.rollback_update(1, t.u(7)), claims.rollback_update(1, t.u(8));
-- a renamed type
SELECT claims.rename_type('subject', 4, 'PERSON'), claims.rename_type('bucket', 5, 'MAILS');
SELECT t.history('PERSON', '42') EXCEPT SELECT t.history('USER', '42');
SELECT h FROM t.history('PERSON', '42') h LIMIT 2;
-- moved: the claim is at its new cell from the switch on
SELECT marked FROM claims.prepare_transfer(t.u(30), 1, 2, '[{"type": "USER", "ids": [42]}]', 'a test');
SELECT claims.switch_transfer(t.u(30), 'a test');
SELECT h FROM t.history('USER', '42') h LIMIT 2;
SELECT finished FROM claims.finish_transfer(t.u(30));
SELECT h FROM t.history('USER', '42') h LIMIT 2;

-- pages of every size return the same rows, also where many names have changed at one moment
SELECT t.batch(9, 'many', (SELECT jsonb_agg(t.one('p' || n, 'USER 50', n)) FROM generate_series(1, 25) n));
SELECT t.batch(10, 'fewer', '[]', (SELECT t.destroys(VARIADIC array_agg('p' || n)) FROM generate_series(1, 5) n));
CREATE FUNCTION t.pages(size int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text := ''; at text; r record; seen int;
BEGIN
    LOOP
        seen := 0;
        FOR r IN SELECT * FROM claims.subject_history('USER', '50', at, size) LOOP
            result := result || r.what || r.bucket_value; at := r.cursor; seen := seen + 1;
        END LOOP;
        IF seen = 0 THEN RETURN result; END IF;
        IF seen > size THEN RAISE 'a page of % has %', size, seen; END IF;
    END LOOP;
END $$;
SELECT count(DISTINCT t.pages(size)), max(length(t.pages(size))) > 0 FROM generate_series(1, 60) size;
SELECT what, count(*) FROM claims.subject_history('USER', '50') GROUP BY what ORDER BY what;
SELECT count(*) FROM (SELECT at, lag(at) OVER () AS before FROM claims.subject_history('USER', '50')) h WHERE at > before;

-- the log is searched by its index, whatever the statistics and the session's settings are
SET enable_bitmapscan = off;
SELECT count(*) FROM claims.subject_history('USER', '50');
SET enable_bitmapscan = on;
-- two values with one hash: the columns are compared
UPDATE claims.audit_log SET search_keys = search_keys || (SELECT search_keys FROM claims.audit_log WHERE lease_uuid = t.u(1))
 WHERE lease_uuid = t.u(9);
SELECT count(*) FROM t.history('USER', '42') h WHERE h LIKE '% p1 %';

-- bucket_history tells from the log what the feed does not have
SELECT op, cell_id, context, cell_role, since IS NOT NULL, until IS NOT NULL, actor = session_user FROM claims.bucket_history('ROUTES', 'a');
SELECT op, cell_id FROM claims.bucket_history('MAILS', 'e@example.com');
SET claims.change_feed = on;
SELECT t.batch(11, 'told', jsonb_build_array(t.one('a', 'USER 44', 8)));
SELECT op, cell_id, context FROM claims.bucket_history('ROUTES', 'a');
