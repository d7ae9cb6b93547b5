-- begin_update repeated with the uuid of an earlier lease.
SELECT t.clean();
SELECT t.have(1, 'old');
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a', 'b'), t.destroys('old'), t.u(400))$$);
RESET SESSION AUTHORIZATION;
CREATE TEMP TABLE before AS SELECT c.*, xmin::text AS x FROM claims.claims c;
CREATE TEMP TABLE lease_before AS SELECT l.*, xmin::text AS x FROM claims.claim_leases l;
CREATE FUNCTION pg_temp.unchanged() RETURNS boolean LANGUAGE sql AS $$
    SELECT NOT EXISTS ((SELECT c.*, xmin::text FROM claims.claims c) EXCEPT SELECT * FROM before)
       AND NOT EXISTS (SELECT * FROM before EXCEPT (SELECT c.*, xmin::text FROM claims.claims c))
       AND NOT EXISTS ((SELECT l.*, xmin::text FROM claims.claim_leases l) EXCEPT SELECT * FROM lease_before)
       AND NOT EXISTS (SELECT * FROM lease_before EXCEPT (SELECT l.*, xmin::text FROM claims.claim_leases l)) $$;
SET SESSION AUTHORIZATION regress_claims_one;
-- an outstanding lease: the same request, also in other forms, returns the lease
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a', 'b'), t.destroys('old'), t.u(400))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[
    {"bucket": {"type": 1, "value": "a"}, "subject": {"type": 2, "id": "1"}, "source": {"type": 3, "railsPrimaryKeyId": "1"}},
    {"bucket": {"type": 1, "value": "b"}, "subject": {"type": 2, "id": "1"}, "source": {"type": 3, "id": 1}}]',
    '[{"bucket": {"type": 1, "value": "old"}}]', t.u(400))$$);
SELECT t.call($$SELECT lease_uuid, conflicts FROM claims.try_begin_update(1, t.creates('a', 'b'), t.destroys('old'), t.u(400))$$);
RESET SESSION AUTHORIZATION;
SELECT pg_temp.unchanged();
-- another request: more, fewer, reordered or changed records, or another list
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a', 'b', 'c'), t.destroys('old'), t.u(400))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a'), t.destroys('old'), t.u(400))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('b', 'a'), t.destroys('old'), t.u(400))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a', 'b'), lease_uuid => t.u(400))$$);
SELECT t.call($$SELECT claims.begin_update(1, jsonb_set(t.creates('a', 'b'), '{1,subject,id}', '2'), t.destroys('old'), t.u(400))$$);
SELECT t.call($$SELECT claims.begin_update(1, jsonb_set(t.creates('a', 'b'), '{1,subject,type}', '"USER"'), t.destroys('old'), t.u(400))$$);
SELECT t.call($$SELECT claims.begin_update(1, jsonb_set(t.creates('a', 'b'), '{0,source,rails_primary_key_id}', '2'), t.destroys('old'), t.u(400))$$);
SELECT t.call($$SELECT claims.begin_update(1, jsonb_set(t.creates('a', 'b'), '{0,bucket,type}', '3'), t.destroys('old'), t.u(400))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a', 'b', 'old'), '[]', t.u(400))$$);
SELECT t.call($$SELECT * FROM claims.try_begin_update(1, t.creates('a'), t.destroys('old'), t.u(400))$$);
-- another cell's uuid, with the same or another request
SELECT t.call($$SELECT claims.begin_update(2, t.creates('a', 'b'), t.destroys('old'), t.u(400))$$);
SELECT t.call($$SELECT claims.begin_update(2, t.creates('z'), lease_uuid => t.u(400))$$);
SELECT t.call($$SELECT * FROM claims.try_begin_update(2, t.creates('z'), lease_uuid => t.u(400))$$);
SELECT pg_temp.unchanged();

-- a committed lease: the same request returns it, another one is refused
SELECT t.call($$SELECT claims.commit_update(1, t.u(400))$$);
TRUNCATE before, lease_before;
INSERT INTO before SELECT c.*, xmin::text FROM claims.claims c;
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a', 'b'), t.destroys('old'), t.u(400))$$);
SELECT t.call($$SELECT lease_uuid, conflicts FROM claims.try_begin_update(1, t.creates('a', 'b'), t.destroys('old'), t.u(400))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('b', 'a'), t.destroys('old'), t.u(400))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('z'), lease_uuid => t.u(400))$$);
SELECT t.call($$SELECT claims.begin_update(2, t.creates('a', 'b'), t.destroys('old'), t.u(400))$$);
SELECT pg_temp.unchanged(), t.leases();
-- a committed lease whose claims were destroyed later
SELECT claims.commit_update(1, claims.begin_update(1, destroy_records => t.destroys('a', 'b')));
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a', 'b'), t.destroys('old'), t.u(400))$$);
SELECT * FROM t.state();
-- a committed lease whose bucket another cell owns now
SELECT t.have(2, 'a');
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a', 'b'), t.destroys('old'), t.u(400))$$);

-- a rolled-back lease cannot begin again
SELECT t.call($$SELECT claims.begin_update(1, t.creates('r'), lease_uuid => t.u(401))$$);
SELECT t.call($$SELECT claims.rollback_update(1, t.u(401))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('r'), lease_uuid => t.u(401))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('z'), lease_uuid => t.u(401))$$);
SELECT t.call($$SELECT * FROM claims.try_begin_update(1, t.creates('r'), lease_uuid => t.u(401))$$);
SELECT t.call($$SELECT claims.begin_update(2, t.creates('r'), lease_uuid => t.u(401))$$);
SELECT * FROM t.state();
-- a fenced uuid cannot begin
SELECT t.call($$SELECT claims.rollback_update(1, t.u(402))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('r'), lease_uuid => t.u(402))$$);
SELECT t.call($$SELECT claims.begin_update(2, t.creates('r'), lease_uuid => t.u(402))$$);
-- the local transaction's id is part of the request
SELECT t.call($$SELECT claims.begin_update(1, t.creates('c'), '[]', t.u(405), '700')$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('c'), '[]', t.u(405), '700')$$);
SELECT left(c, 5) FROM t.call($$SELECT claims.begin_update(1, t.creates('c'), '[]', t.u(405), '701')$$) c LIMIT 1;
SELECT left(c, 5) FROM t.call($$SELECT claims.begin_update(1, t.creates('c'), '[]', t.u(405))$$) c LIMIT 1;
SELECT cell_xid FROM claims.list_leases(1) WHERE lease_uuid = t.u(405);
SELECT claims.rollback_update(1, t.u(405));
-- two leases in one transaction, the second one repeated
BEGIN;
SELECT t.call($$SELECT claims.begin_update(1, t.creates('x'), lease_uuid => t.u(403))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('x'), lease_uuid => t.u(403))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('y'), lease_uuid => t.u(403))$$);
SELECT t.call($$SELECT claims.begin_update(1, t.creates('x'), lease_uuid => t.u(404))$$);
COMMIT;
SELECT * FROM t.state();
SELECT count(*) FROM claims.check();
