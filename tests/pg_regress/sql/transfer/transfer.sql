-- Transfers: claims of some subjects move to another cell. Transfers and leases 61xx.
SELECT t.clean();
-- t.own() claims names for a subject id
CREATE FUNCTION t.own(cell bigint, id bigint, VARIADIC vals text[]) RETURNS void LANGUAGE sql AS $$
    SELECT claims.commit_update(cell, claims.begin_update(cell, (SELECT jsonb_agg(t.claim(v, id => own.id)) FROM unnest(vals) v))) $$;
-- t.reads() shows a claim in every way of reading, and t.digests() the digests of both cells
CREATE FUNCTION t.reads(name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE said text[] := '{}'; one text;
BEGIN
    SELECT format('%s at %s %s', r.status, r.cell_id, r.cell_name) INTO one FROM claims.get_record('ROUTES', name) r; said := said || one;
    SELECT format('%s at %s', r.status, r.cell_id) INTO one
      FROM claims.get_records(jsonb_build_array(jsonb_build_object('type', 'ROUTES', 'value', name))) r;
    said := said || one;
    SELECT format('%s at %s', r.status, r.cell_id) INTO one FROM claims.records r WHERE r.bucket_value = name; said := said || one;
    SELECT string_agg(r.cell_id::text, ',') INTO one FROM claims.records r WHERE r.cell_id IN (1, 2) AND r.bucket_value = name; said := said || one;
    SELECT string_agg(format('listed %s by %s', l.bucket_value, c), ', ') INTO one
      FROM unnest('{1,2}'::bigint[]) c, claims.list_records(c) l WHERE l.bucket_value = name AND l.cell_id = c;
    said := said || one;
    SELECT string_agg(format('ranged by %s', c), ', ') INTO one
      FROM unnest('{1,2}'::bigint[]) c, claims.list_records(c, 'RAILS_TABLE_ROUTES', source_id_lte => '99999') l WHERE l.bucket_value = name;
    said := said || one;
    SELECT string_agg(format('whole by %s', c), ', ') INTO one
      FROM unnest('{1,2}'::bigint[]) c, claims.list_records(c, whole_sources => true, max_results => 3) l WHERE l.bucket_value = name;
    said := said || one;
    RETURN array_to_string(said, ' ');
END $$;
CREATE FUNCTION t.digests() RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(format('%s: %s %s', c, d.records, left(encode(d.digest, 'hex'), 4)), ', ')
      FROM unnest('{1,2}'::bigint[]) c, claims.digest_records(c, 'RAILS_TABLE_ROUTES', NULL, NULL) d $$;
CREATE FUNCTION t.transfer() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT format('%s from %s %s to %s, at %s: %s subjects, holds %s, skipped %s, moved %s%s%s%s%s, %s', state, from_cell, from_name,
          to_cell, cell_id, subjects, held, skipped, moved,
                  ', prepared' || left(prepared_at::text, 0), ', switched' || left(switched_at::text, 0),
                  ', reversed' || left(reversed_at::text, 0), ', ended' || left(ended_at::text, 0), reason)
      FROM claims.transfers ORDER BY transfer_uuid $$;
CREATE FUNCTION t.groups(VARIADIC ids bigint[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_array(jsonb_build_object('type', 'GROUP', 'ids', ids))
$$;

-- the claims before the transfer
SELECT t.own(1, 9970, 'acme', 'acme/one', 'acme/two'), t.own(1, 7, 'other'), t.own(2, 5, 'theirs'),
    t.own(1, 9971, 'acme-sub'), t.own(2, 9970, 'acme-there');
SELECT t.reads('acme'), t.digests();

-- prepare: all ACTIVE claims of the subjects become TRANSFERRING, and stay with the old cell
SELECT * FROM claims.prepare_transfer(t.u(6100), 1, 2,
      '[{"type": "GROUP", "ids": [9970]}, {"type": "NAMESPACE", "ids": ["9971", 12345, 9970]}]', 'they moved');
SELECT * FROM t.state();
SELECT t.transfer();
SELECT t.reads('acme'), t.digests();
SELECT t.reads('other');
SELECT lease_uuid FROM claims.get_record('ROUTES', 'acme');
SELECT count(*) FROM claims.check();
-- both cells get `leased`, a third cell `not_owner`
SELECT t.call($$SELECT claims.begin_update(1, t.creates('acme'))$$);
SELECT t.call($$SELECT claims.begin_update(2, t.creates('acme'))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', t.destroys('acme'))$$);
SELECT t.call($$SELECT claims.begin_update(2, '[]', t.destroys('acme'))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('acme'), t.destroys('acme'))$$);
BEGIN;
SELECT claims.register_cell(3, 'regress_claims_two');
SELECT t.call($$SELECT claims.begin_update(3, '[]', t.destroys('acme'))$$);
SELECT t.call($$SELECT claims.begin_update(3, t.creates('acme'))$$);
ROLLBACK;
SELECT t.call($$SELECT claims.reserve_names('ROUTES', '{acme}', 'x')$$);
-- other claims of both cells can be changed
SELECT claims.commit_update(1, claims.begin_update(1, t.creates('unrelated'), t.destroys('other')));
-- a repeated prepare changes nothing; other spellings and orders of the subjects are the same request
SELECT * FROM claims.prepare_transfer(t.u(6100), 1, 2, '[{"type": 2, "ids": ["12345", 9971, "9970"]}]', 'again');
-- new claims of the subjects are marked by the next prepare
SELECT t.own(1, 9970, 'acme/three');
SELECT t.reads('acme/three');
SELECT * FROM claims.prepare_transfer(t.u(6100), 1, 2, '[{"type": 2, "ids": ["12345", 9971, "9970"]}]', 'again');

-- switch updates one row, and every read returns the new cell
SELECT ctid AS before FROM claims.claims WHERE bucket_value = 'acme' \gset
SELECT claims.switch_transfer(t.u(6100), 'now');
SELECT ctid = :'before' FROM claims.claims WHERE bucket_value = 'acme';
SELECT t.reads('acme'), t.digests();
SELECT t.reads('acme/three');
SELECT t.reads('unrelated');
SELECT t.transfer();
SELECT count(*) FROM claims.check();
SELECT claims.switch_transfer(t.u(6100), 'now');
SELECT t.call($$SELECT claims.begin_update(1, t.creates('acme'))$$);
SELECT t.call($$SELECT claims.begin_update(2, t.creates('acme'))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', t.destroys('acme'))$$);
SELECT t.call($$SELECT claims.begin_update(2, '[]', t.destroys('acme'))$$);
-- prepare after the switch marks nothing
SELECT t.own(1, 9970, 'acme/late');
SELECT * FROM claims.prepare_transfer(t.u(6100), 1, 2, '[{"type": 2, "ids": ["12345", 9971, "9970"]}]', 'again');
SELECT t.reads('acme/late');

-- reverse switches back, and switch forth again
SELECT claims.reverse_transfer(t.u(6100), 'not yet');
SELECT t.reads('acme'), t.digests();
SELECT t.transfer();
SELECT count(*) FROM claims.check();
SELECT claims.reverse_transfer(t.u(6100), 'not yet');
SELECT * FROM claims.prepare_transfer(t.u(6100), 1, 2, '[{"type": 2, "ids": ["12345", 9971, "9970"]}]', 'again');
SELECT claims.switch_transfer(t.u(6100), 'now');

-- finish makes the claims ACTIVE in the new cell, with their uuids and ages
SELECT uuid, created_at FROM claims.claims WHERE bucket_value = 'acme' \gset
SELECT * FROM claims.finish_transfer(t.u(6100));
SELECT * FROM t.state();
SELECT t.transfer();
SELECT t.reads('acme'), t.digests();
SELECT uuid = :'uuid', created_at = :'created_at', updated_at > created_at FROM claims.claims WHERE bucket_value = 'acme';
SELECT count(*) FROM claims.check();
SELECT * FROM claims.finish_transfer(t.u(6100));
SELECT claims.switch_transfer(t.u(6100), 'repeat');
SELECT * FROM claims.prepare_transfer(t.u(6100), 1, 2, '[{"type": 2, "ids": ["12345", 9971, "9970"]}]', 'repeat');
-- the new cell can destroy the claims; the old one cannot
SELECT t.call($$SELECT claims.begin_update(1, '[]', t.destroys('acme'))$$);
SELECT claims.commit_update(2, claims.begin_update(2, t.creates('acme'), t.destroys('acme', 'acme/two')));
SELECT * FROM t.state();
SELECT action, arguments, reason FROM claims.admin_log WHERE arguments ->> 'transfer_uuid' = t.u(6100)::text ORDER BY id;

-- cancel before the switch, and after a reversed one
SELECT * FROM claims.prepare_transfer(t.u(6101), 2, 1, t.groups(9970, 1), 'back');
SELECT * FROM claims.cancel_transfer(t.u(6101), 'they stay');
SELECT * FROM claims.cancel_transfer(t.u(6101), 'they stay');
SELECT * FROM t.state();
SELECT * FROM claims.prepare_transfer(t.u(6102), 2, 1, t.groups(9970, 1), 'back');
SELECT claims.switch_transfer(t.u(6102), 'x');
SELECT claims.reverse_transfer(t.u(6102), 'x');
SELECT * FROM claims.cancel_transfer(t.u(6102), 'they stay');
-- finish after a reverse leaves the claims with the old cell
SELECT * FROM claims.prepare_transfer(t.u(6103), 2, 1, t.groups(9970, 1), 'back');
SELECT claims.switch_transfer(t.u(6103), 'x');
SELECT claims.reverse_transfer(t.u(6103), 'x');
SELECT * FROM claims.finish_transfer(t.u(6103));
SELECT claims.reverse_transfer(t.u(6103), 'repeat');
SELECT t.transfer();
SELECT * FROM t.state();
SELECT count(*) FROM claims.check();

-- claims held by leases or another transfer are skipped and taken by a later prepare
SELECT t.clean();
SELECT t.own(1, 9970, 'a', 'b', 'c', 'd'), t.own(1, 1, 'own');
SELECT claims.begin_update(1, jsonb_build_array(t.claim('new', id => 9970)), t.destroys('b'), t.u(6110));
SELECT * FROM claims.prepare_transfer(t.u(6111), 1, 2, t.groups(9970), 'x');
SELECT * FROM t.state();
SELECT t.call($$SELECT claims.switch_transfer(t.u(6111), 'x')$$);
SELECT * FROM claims.prepare_transfer(t.u(6112), 1, 2, t.groups(9970, 1), 'x');
SELECT claims.commit_update(1, t.u(6110));
SELECT * FROM claims.prepare_transfer(t.u(6111), 1, 2, t.groups(9970), 'x');
SELECT t.call($$SELECT claims.switch_transfer(t.u(6112), 'x')$$);
SELECT claims.switch_transfer(t.u(6111), 'x');
-- each claim belongs to its own transfer
SELECT bucket_value, cell_id FROM claims.records ORDER BY 1;
SELECT * FROM claims.finish_transfer(t.u(6111));
SELECT * FROM claims.prepare_transfer(t.u(6112), 1, 2, t.groups(9970, 1), 'x');
SELECT claims.switch_transfer(t.u(6112), 'x');
SELECT bucket_value, cell_id, status FROM claims.records ORDER BY 1;
SELECT * FROM claims.finish_transfer(t.u(6112));
-- a transfer without claims
SELECT * FROM claims.prepare_transfer(t.u(6113), 1, 2, t.groups(404), 'x');
SELECT claims.switch_transfer(t.u(6113), 'x');
SELECT * FROM claims.finish_transfer(t.u(6113));
SELECT count(*) FROM claims.check();

-- a transfer is rolled back with its transaction and its savepoint
BEGIN;
SELECT * FROM claims.prepare_transfer(t.u(6114), 2, 1, t.groups(9970), 'x');
SAVEPOINT s;
SELECT claims.switch_transfer(t.u(6114), 'x');
SELECT cell_id FROM claims.get_record('ROUTES', 'a');
ROLLBACK TO s;
SELECT cell_id, status FROM claims.get_record('ROUTES', 'a');
ROLLBACK;
SELECT cell_id, status FROM claims.get_record('ROUTES', 'a');
SELECT count(*) FROM claims.transfers WHERE transfer_uuid = t.u(6114);

-- max_runtime 0 marks one step of 25,000 claims a call; a call without limit marks the rest
SELECT t.clean();
INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status)
    SELECT 1, 'many ' || n, 2, 5 + n % 2, 3, n / 3, 1, 1 FROM generate_series(1, 25000) n;
-- skipped claims prevent the switch until a later pass has taken them
SELECT claims.begin_update(1, '[]', t.destroys('many 2'), t.u(6122));
SELECT * FROM claims.prepare_transfer(t.u(6123), 1, 2, t.groups(5), 'x', '0');
SELECT * FROM claims.prepare_transfer(t.u(6123), 1, 2, t.groups(5), 'x', '0');
SELECT * FROM claims.prepare_transfer(t.u(6123), 1, 2, t.groups(5), 'x', '0');
SELECT state, held, skipped FROM claims.transfers WHERE transfer_uuid = t.u(6123);
SELECT t.call($$SELECT claims.switch_transfer(t.u(6123), 'x')$$);
SELECT claims.rollback_update(1, t.u(6122));
SELECT * FROM claims.prepare_transfer(t.u(6123), 1, 2, t.groups(5), 'x');
SELECT * FROM claims.cancel_transfer(t.u(6123), 'x');
-- prepare, one step a call
SELECT * FROM claims.prepare_transfer(t.u(6120), 1, 2, t.groups(5), 'x', '0');
SELECT state, held FROM claims.transfers WHERE transfer_uuid = t.u(6120);
SELECT count(*) FROM claims.check();
SELECT * FROM claims.prepare_transfer(t.u(6120), 1, 2, t.groups(5), 'x', '0');
SELECT * FROM claims.prepare_transfer(t.u(6120), 1, 2, t.groups(5), 'x', '0');
SELECT claims.switch_transfer(t.u(6120), 'x');
-- pages of list_records of both cells have all their claims in order, before and after the switch
CREATE FUNCTION t.paged(cell bigint, size int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE at text; n bigint; bad bigint; last text := ''; total bigint := 0; wrong bigint := 0;
BEGIN
    LOOP
        SELECT count(*), count(*) FILTER (WHERE p.cell_id <> cell OR p.before >= p.name), (array_agg(p.cursor ORDER BY p.nth DESC))[1],
            (array_agg(p.name ORDER BY p.nth DESC))[1]
          INTO n, bad, at, last
          FROM (SELECT r.*, coalesce(lag(r.name) OVER (ORDER BY r.nth), last) AS before
                  FROM (SELECT l.cell_id, l.cursor, l.ordinality AS nth, (lpad(l.source_id, 9) || l.bucket_value) COLLATE "C" AS name
                          FROM claims.list_records(cell, after => at, max_results => size) WITH ORDINALITY l) r) p;
        EXIT WHEN n = 0;
        total := total + n;
        wrong := wrong + bad;
    END LOOP;
    RETURN format('%s rows, %s wrong', total, wrong);
END $$;
SELECT t.paged(1, 999), t.paged(2, 999);
SELECT * FROM claims.finish_transfer(t.u(6120), '0');
SELECT state, held, moved FROM claims.transfers WHERE transfer_uuid = t.u(6120);
SELECT t.call($$SELECT claims.reverse_transfer(t.u(6120), 'x')$$);
SELECT t.paged(1, 999), t.paged(2, 999);
SELECT count(*) FROM claims.check();
SELECT * FROM claims.finish_transfer(t.u(6120));
SELECT t.paged(1, 9999), t.paged(2, 9999);
-- a cancel in steps; in between the transfer can be prepared again
SELECT * FROM claims.prepare_transfer(t.u(6121), 2, 1, t.groups(5), 'x');
SELECT * FROM claims.cancel_transfer(t.u(6121), 'x', '0');
SELECT t.call($$SELECT claims.switch_transfer(t.u(6121), 'x')$$);
SELECT * FROM claims.prepare_transfer(t.u(6121), 2, 1, t.groups(5), 'x');
SELECT * FROM claims.cancel_transfer(t.u(6121), 'x', '0');
SELECT * FROM claims.cancel_transfer(t.u(6121), 'x');
SELECT state, held, moved FROM claims.transfers WHERE transfer_uuid = t.u(6121);
SELECT count(*), count(lease_uuid) FROM claims.claims WHERE creator_id = 2 AND status = 1;
SELECT count(*) FROM claims.check();

SELECT t.clean();
DELETE FROM claims.cell_transfers;
DELETE FROM claims.transfer_subjects;
DROP FUNCTION t.own, t.reads, t.digests, t.transfer, t.groups, t.paged;
-- dead rows of this test are removed, for later tests would read them
VACUUM claims.claims, claims.claim_leases;
