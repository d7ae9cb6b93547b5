-- begin_first takes the first of several batches that has no conflict.
SELECT t.clean();
SELECT t.have(1, 'a', 'b', 'own'); SELECT t.have(2, 'c');
-- {"create_records": [...]} for each name
CREATE FUNCTION t.each(VARIADIC vals text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(jsonb_build_object('create_records', t.creates(v)) ORDER BY n) FROM unnest(vals) WITH ORDINALITY AS u(v, n)
$$;
-- begin_first leases the first batch that is free, and says which one
SELECT lease_uuid IS NOT NULL, chosen, conflicts FROM claims.begin_first(2, t.each('x', 'y'));
SELECT lease_uuid = t.u(9301), chosen, conflicts FROM claims.begin_first(2, t.each('a', 'b', 'z', 'free'), t.u(9301));
SELECT bucket_value, status FROM claims.list_records(2);
SELECT payload FROM claims.list_leases(2) WHERE lease_uuid = t.u(9301);
-- begin_first returns the conflicts of the last batch when all have some
SELECT lease_uuid, chosen, t.mask(conflicts) FROM claims.begin_first(2, t.each('a', 'x', 'b'));
SELECT lease_uuid, chosen, t.mask(conflicts) FROM claims.begin_first(2, t.each('a', 'x'));
-- begin_first with one batch behaves as try_begin_update
SELECT lease_uuid, chosen, t.mask(conflicts) FROM claims.begin_first(2, t.each('a'));
-- a batch is taken as a whole, with its destroys and replaced claims
SELECT chosen FROM claims.begin_first(1,
      jsonb_build_array(jsonb_build_object('create_records', t.creates('p', 'c')), jsonb_build_object('destroy_records', t.destroys('c')),
    jsonb_build_object('create_records', t.creates('p'), 'destroy_records', t.destroys('c')),
        jsonb_build_object('create_records', t.creates('own', 'q'), 'destroy_records', t.destroys('own', 'a'))), t.u(9302));
SELECT bucket_value, status FROM claims.list_records(1);
SELECT count(*) FROM claims.check();

-- a repeated begin_first returns the batch that was chosen before, also after the lease is settled
SELECT chosen FROM claims.begin_first(2, t.each('a', 'b', 'z', 'free'), t.u(9301));
SELECT claims.rollback_update(1, t.u(9302));
SELECT claims.commit_update(1, claims.begin_update(1, '[]', t.destroys('a')));
SELECT chosen FROM claims.begin_first(2, t.each('a', 'b', 'z', 'free'), t.u(9301));
SELECT claims.commit_update(2, t.u(9301));
SELECT chosen FROM claims.begin_first(2, t.each('a', 'b', 'z', 'free'), t.u(9301));
SELECT claims.commit_update(2, claims.begin_update(2, '[]', t.destroys('z')));
SELECT lease_uuid = t.u(9301), chosen FROM claims.begin_first(2, t.each('a', 'b', 'z', 'free'), t.u(9301));
SELECT count(*) FROM claims.get_record('ROUTES', 'a');
-- the same uuid with another array, order, xid, function or cell is refused
SELECT t.call($$SELECT * FROM claims.begin_first(2, t.each('a', 'b', 'z'), t.u(9301))$$);
SELECT t.call($$SELECT * FROM claims.begin_first(2, t.each('a', 'b', 'free', 'z'), t.u(9301))$$);
SELECT t.call($$SELECT * FROM claims.begin_first(2, t.each('a', 'b', 'z', 'free'), t.u(9301), '5')$$);
SELECT t.call($$SELECT claims.begin_update(2, t.creates('z'), lease_uuid => t.u(9301))$$);
SELECT t.call($$SELECT claims.begin_update(2, t.each('a', 'b', 'z', 'free'), lease_uuid => t.u(9301))$$);
SELECT t.call($$SELECT * FROM claims.begin_first(1, t.each('a', 'b', 'z', 'free'), t.u(9301))$$);
SELECT t.call($$SELECT * FROM claims.begin_first(1, t.each('a', 'b', 'z', 'free'), t.u(9302))$$);
-- begin_first with the uuid of a begin_update is refused
SELECT claims.begin_update(2, t.creates('m'), lease_uuid => t.u(9303)) = t.u(9303);
SELECT t.call($$SELECT * FROM claims.begin_first(2, t.each('m'), t.u(9303))$$);

-- a stored digest is that of this text in every version: a cell repeats its call after an upgrade, too
CREATE FUNCTION t.compared(creates text[], VARIADIC destroys text[] DEFAULT '{}') RETURNS text LANGUAGE sql AS $$
    SELECT format('{"create_records":[%s],"destroy_records":[%s]}',
        (SELECT string_agg(format('{"bucket":{"type":"ROUTES","value":"%s"},"subject":{"type":"GROUP","id":"1"},'
            '"source":{"type":"RAILS_TABLE_ROUTES","rails_primary_key_id":"1"}}', v), ',') FROM unnest(creates) AS v),
        (SELECT string_agg(format('{"bucket":{"type":"ROUTES","value":"%s"}}', v), ',') FROM unnest(destroys) AS v))
$$;
CREATE FUNCTION t.digest_is(n int, compared text, before bytea DEFAULT '\x00') RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT substr(request_digest, 1, 32) = sha256(before || convert_to(compared, 'UTF8')) FROM claims.claim_leases WHERE uuid = t.u(n));
END $$;
BEGIN; SELECT t.have(1, 'g8', 'g9');
SELECT claims.begin_update(1, t.creates('g1', 'g2'), t.destroys('g8', 'g9'), t.u(9311)) = t.u(9311),
       t.digest_is(9311, t.compared('{g1,g2}', 'g8', 'g9'));
SELECT claims.begin_update(1, t.creates('g3'), '[]', t.u(9312), cell_xid => '258') = t.u(9312),
       t.digest_is(9312, t.compared('{g3}'), '\x010000000000000102');
SELECT claims.begin_update(1, t.creates('g4'), t.destroys('gone'), t.u(9313), skip_missing => true) = t.u(9313),
       t.digest_is(9313, t.compared('{g4}', 'gone') || 'skip_missing');
SELECT chosen, t.digest_is(9314, '[' || t.compared('{g5}') || ']') FROM claims.begin_first(1, t.each('g5'), t.u(9314));
SELECT chosen, t.digest_is(9315, '[' || t.compared('{c}') || ',' || t.compared('{g6}') || ']')
  FROM claims.begin_first(1, t.each('c', 'g6'), t.u(9315));
ROLLBACK;
DROP FUNCTION t.compared, t.digest_is;

-- malformed arrays are refused
SELECT t.call(format('SELECT * FROM claims.begin_first(1, %L)', alternatives))
  FROM (VALUES ('[]'), ('{}'), ('[[]]'), ('[{}]'), ('[{"create_records": [], "destroy_records": []}]'), ('[{"create_records": {}}]'),
    ('[{"creates": []}]'), ('[{"create_records": [{}]}]'),
    ('[{"destroy_records": [{"bucket": {"type": "ROUTES", "value": "a"}}, {"bucket": {"type": "ROUTES", "value": "a"}}]}]'),
    ('[{"destroy_records": [{"bucket": {"type": "ROUTES", "value": "a"}}]}, {"destroy_records": [{"bucket": {"type": "ROUTES", "value": ""}}]}]'),
      ('null'), (NULL)) AS f (alternatives);
-- a NULL cell, more than 100 batches and batches above max_batch_size are refused
SELECT t.call($$SELECT * FROM claims.begin_first(NULL, t.each('a'))$$);
SELECT t.call($$SELECT *
      FROM claims.begin_first(1, (SELECT jsonb_agg(jsonb_build_object('create_records', t.creates('n' || n))) FROM generate_series(1, 101) n))$$);
BEGIN; SET LOCAL claims.max_batch_size = 2;
SELECT t.call($$SELECT * FROM claims.begin_first(1, jsonb_build_array(jsonb_build_object('create_records', t.creates('n1', 'n2', 'n3'))))$$);
SELECT t.call($$SELECT * FROM claims.begin_first(1,
        jsonb_build_array(jsonb_build_object('create_records', t.creates('n1', 'n2'), 'destroy_records', t.destroys('b'))))$$);
-- max_batch_size limits each batch by itself
SELECT chosen FROM claims.begin_first(1,
      jsonb_build_array(jsonb_build_object('create_records', t.creates('c', 'n2')), jsonb_build_object('create_records', t.creates('n3', 'n4'))));
ROLLBACK;
-- 100 batches are allowed, and their repeat is recognized
SELECT chosen FROM claims.begin_first(1, (SELECT jsonb_agg(jsonb_build_object('create_records', t.creates(CASE n WHEN 100 THEN 'n100' ELSE 'b' END)))
        FROM generate_series(1, 100) n), t.u(9304));
SELECT chosen FROM claims.begin_first(1, (SELECT jsonb_agg(jsonb_build_object('create_records', t.creates(CASE n WHEN 100 THEN 'n100' ELSE 'b' END)))
        FROM generate_series(1, 100) n), t.u(9304));

-- a cell may call begin_first for itself only; a router may not
BEGIN;
SET LOCAL ROLE regress_claims_one;
SELECT chosen FROM claims.begin_first(1, t.each('w'));
SELECT t.call($$SELECT * FROM claims.begin_first(2, t.each('w'))$$);
ROLLBACK;
BEGIN; SET LOCAL ROLE regress_claims_router; SELECT t.call($$SELECT * FROM claims.begin_first(1, t.each('w'))$$); ROLLBACK;
SELECT count(*) FROM claims.check();
DROP FUNCTION t.each;
SELECT t.clean();
