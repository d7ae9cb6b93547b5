-- commit_update.
SELECT t.clean();
SELECT t.have(1, 'old', 'kept');
-- commit_update makes creates ACTIVE and deletes destroys
CREATE TEMP TABLE before AS SELECT * FROM claims.claims;
SELECT t.call($$SELECT claims.begin_update(1, t.creates('a', 'b'), t.destroys('old'), t.u(500))$$);
CREATE TEMP TABLE leased AS SELECT * FROM claims.claims;
SET SESSION AUTHORIZATION regress_claims_one;
SELECT claims.commit_update(1, t.u(500));
SELECT * FROM t.state();
SELECT t.leases();
-- a repeated commit returns false
SELECT claims.commit_update(1, t.u(500));
SELECT claims.commit_update(cell_id => 1, lease_uuid => t.u(500));
SELECT claims.lease_outcome(1, t.u(500));
RESET SESSION AUTHORIZATION;
-- a committed claim keeps its uuid and its time of creation
SELECT count(*) FROM claims.claims c JOIN leased USING (uuid, bucket_type, bucket_value, subject_type, subject_id,
    source_type, source_id, creator_id, created_at) WHERE c.status = 1 AND c.bucket_value IN ('a', 'b') AND c.updated_at > leased.updated_at;
SELECT count(*) FROM claims.claims JOIN before USING (uuid, created_at, updated_at) WHERE claims.bucket_value = 'kept';
-- rollback_update of a committed lease is refused
SELECT t.call($$SELECT claims.rollback_update(1, t.u(500))$$);
SELECT * FROM t.state();
-- commit_update of a rolled-back lease is refused
SELECT claims.begin_update(1, t.creates('c'), lease_uuid => t.u(501)), claims.rollback_update(1, t.u(501));
SELECT t.call($$SELECT claims.commit_update(1, t.u(501))$$);
SELECT claims.rollback_update(1, t.u(502));
SELECT t.call($$SELECT claims.commit_update(1, t.u(502))$$);
-- an unknown lease and every kind of another cell's lease get the same error
SELECT claims.begin_update(1, t.creates('d'), lease_uuid => t.u(503));
SELECT t.call($$SELECT claims.commit_update(2, t.u(599))$$);
SELECT replace(a, '000000000599', '') = replace(b, '000000000503', ''), replace(a, '000000000599', '') = replace(c, '000000000500', ''),
       replace(a, '000000000599', '') = replace(d, '000000000501', '')
  FROM (SELECT array_to_string(ARRAY(SELECT t.call($$SELECT claims.commit_update(2, t.u(599))$$)), '; ') a,
               array_to_string(ARRAY(SELECT t.call($$SELECT claims.commit_update(2, t.u(503))$$)), '; ') b,
               array_to_string(ARRAY(SELECT t.call($$SELECT claims.commit_update(2, t.u(500))$$)), '; ') c,
               array_to_string(ARRAY(SELECT t.call($$SELECT claims.commit_update(2, t.u(501))$$)), '; ') d) s;
SELECT * FROM t.state();
-- a commit that is rolled back leaves the lease outstanding
BEGIN;
SELECT claims.commit_update(1, t.u(503));
ROLLBACK;
SELECT claims.lease_outcome(1, t.u(503));
SELECT * FROM t.state();
SELECT claims.commit_update(1, t.u(503));
-- a commit that finds a damaged claim fails and changes nothing
SELECT claims.begin_update(1, t.creates('e', 'f'), t.destroys('a', 'b'), t.u(504));
BEGIN;
DELETE FROM claims.claims WHERE bucket_value IN ('e', 'a');
SELECT t.call($$SELECT claims.commit_update(1, t.u(504))$$);
SELECT * FROM t.state();
SELECT t.leases();
ROLLBACK;
SELECT claims.commit_update(1, t.u(504));
SELECT * FROM t.state();
SELECT count(*) FROM claims.check();
-- a commit settles only claims of its own lease, whatever types and values its batch repeats
SELECT t.clean();
SELECT claims.begin_update(1, jsonb_build_array(t.claim('x'), t.claim('y', 'USERNAMES')), lease_uuid => t.u(505)),
    claims.begin_update(1, t.creates('y'), lease_uuid => t.u(506));
SELECT t.call($$SELECT claims.commit_update(1, t.u(505))$$);
SELECT * FROM t.state();
SELECT claims.rollback_update(1, t.u(506));
SELECT * FROM t.state();
SELECT count(*) FROM claims.check();
SELECT t.clean();
SELECT t.have(1, 'b');
SELECT claims.begin_update(1, jsonb_build_array(t.claim('a'), t.claim('b', 'USERNAMES')), t.destroys('b'), t.u(507));
SELECT t.call($$SELECT claims.commit_update(1, t.u(507))$$);
SELECT * FROM t.state();
SELECT count(*) FROM claims.check();
SELECT t.have(1, 'c');
SELECT claims.begin_update(1, jsonb_build_array(t.claim('b'), t.claim('c', 'USERNAMES')), t.destroys('c'), t.u(508));
SELECT t.call($$SELECT claims.rollback_update(1, t.u(508))$$);
SELECT * FROM t.state();
SELECT count(*) FROM claims.check();
