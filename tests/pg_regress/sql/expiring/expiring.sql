-- Expiring claims: the database's record and clock decide who holds a key, and until when.
DELETE FROM claims.expiring_claims;
ALTER SEQUENCE claims.expiring_tokens RESTART;
-- t.left() rounds the remaining seconds up to the next twenty, for slow machines
CREATE FUNCTION t.left(expires_at timestamptz) RETURNS numeric LANGUAGE sql AS $$
    SELECT ceil(extract(epoch FROM expires_at - clock_timestamp()) / 20) * 20
$$;
-- t.kept() lists the keys of a kind
CREATE FUNCTION t.kept(kind text) RETURNS TABLE (key text, claimant text, token bigint, held boolean, seconds numeric) LANGUAGE sql AS $$
    SELECT key, claimant, token, coalesce(expires_at > clock_timestamp(), false), t.left(expires_at)
      FROM claims.expiring_claims c WHERE c.kind = $1 ORDER BY key $$;

-- t.let_expire() brings a hold close to its end and waits for it
CREATE FUNCTION t.let_expire(key text) RETURNS void LANGUAGE sql AS $$
    UPDATE claims.expiring_claims c SET expires_at = clock_timestamp() + interval '100 ms' WHERE c.kind = 'service' AND c.key = $1;
    SELECT pg_sleep(0.2) $$;

-- add_expiring returns the number of new keys: duplicates and known keys do not count
SELECT claims.add_expiring('service', '{b,a,c,a}');
SELECT claims.add_expiring('service', '{a,b,c,d}');
SELECT claims.add_expiring('service', '{}');
SELECT claims.add_expiring('other', '{a}');
SELECT claims.remove_expiring('service', '{d,d,x}');
SELECT claims.remove_expiring('service', '{}');
SELECT kind, key, claimant, token, acquired_at, renewed_at, expires_at FROM claims.expiring_claims ORDER BY kind, key;

-- acquire_expiring returns up to max_results keys of the kind, each with a token
SELECT key, token, t.left(expires_at) FROM claims.acquire_expiring('service', 'one', '60 s', 2) ORDER BY key;
SELECT key, token FROM claims.acquire_expiring('service', 'two', '60 s', 0);
SELECT key, token FROM claims.acquire_expiring('service', 'two', '60 s');
SELECT key, token FROM claims.acquire_expiring('service', 'three', '60 s');
SELECT * FROM t.kept('service');
SELECT * FROM t.kept('other');
SELECT count(*) FROM claims.acquire_expiring('unknown', 'one', '60 s');
SELECT acquired_at = renewed_at AND expires_at = acquired_at + interval '60 s' FROM claims.expiring_claims WHERE kind = 'service';

-- renew_expiring extends the own holds, never shortens them, and changes no other claimant's
SELECT key, token, expires_at > clock_timestamp() FROM claims.held_expiring('service', 'one');
SELECT key, token FROM claims.held_expiring('service', 'nobody');
SELECT key, token, t.left(expires_at) FROM claims.renew_expiring('service', 'one', '100 s') ORDER BY key;
SELECT key, expires_at = renewed_at + interval '100 s' FROM claims.expiring_claims WHERE kind = 'service' AND claimant = 'one' ORDER BY key;
SELECT key, token, t.left(expires_at) FROM claims.renew_expiring('service', 'one', '1 s') ORDER BY key;
SELECT count(*) FROM claims.renew_expiring('service', 'nobody', '100 s');
SELECT * FROM t.kept('service');
SELECT key, renewed_at > acquired_at FROM claims.expiring_claims WHERE kind = 'service' ORDER BY key;

-- release_expiring frees some or all of the own keys at once
SELECT claims.release_expiring('service', 'one', '{b,c,x}');
SELECT claims.release_expiring('service', 'one', '{}');
SELECT claims.release_expiring('service', 'three');
SELECT key, held FROM t.kept('service');
SELECT expires_at <= clock_timestamp(), claimant FROM claims.expiring_claims WHERE kind = 'service' AND key = 'b';
SELECT key, token FROM claims.acquire_expiring('service', 'three', '60 s');
SELECT claims.release_expiring('service', 'one');
SELECT claims.release_expiring('service', 'one');

-- holds expire during a transaction, and an expired hold cannot be renewed
BEGIN;
SELECT key, token FROM claims.acquire_expiring('service', 'four', '60 s');
SELECT key FROM claims.held_expiring('service', 'four');
SELECT t.let_expire('a');
SELECT key FROM claims.held_expiring('service', 'four');
SELECT key FROM claims.renew_expiring('service', 'four', '60 s');
SELECT claims.release_expiring('service', 'four');
-- an expired key that its claimant acquires again has a larger token
SELECT key, token FROM claims.acquire_expiring('service', 'four', '60 s');
COMMIT;

-- acquire_expiring prefers keys that were never held, then those that expired first
SELECT claims.remove_expiring('service', '{a,b,c}');
SELECT claims.add_expiring('service', '{e1,e2,e3}');
SELECT key FROM claims.acquire_expiring('service', 'one', '60 s', 1);
SELECT key FROM claims.acquire_expiring('service', 'one', '60 s', 1);
SELECT t.let_expire('e2'), t.let_expire('e1');
SELECT claims.add_expiring('service', '{a9}');
SELECT key FROM claims.acquire_expiring('service', 'two', '60 s', 1);
SELECT key FROM claims.acquire_expiring('service', 'two', '60 s', 1);
SELECT a.key FROM claims.acquire_expiring('service', 'two', '60 s', 1) a;
SELECT a.key FROM claims.acquire_expiring('service', 'two', '60 s', 1) a;
SELECT a.key FROM claims.acquire_expiring('service', 'two', '60 s', 1) a;

-- a token never repeats, also after remove, add and rollback
CREATE TABLE t.tokens (token bigint UNIQUE);
INSERT INTO t.tokens SELECT token FROM claims.expiring_claims WHERE kind = 'service';
SELECT claims.remove_expiring('service', '{e1,e2,e3,a9}');
SELECT claims.add_expiring('service', '{e1,e2,e3,a9}');
SELECT token FROM claims.expiring_claims WHERE kind = 'service';
INSERT INTO t.tokens SELECT token FROM claims.acquire_expiring('service', 'one', '60 s');
SELECT claims.release_expiring('service', 'one');
BEGIN;
SELECT count(*) FROM claims.acquire_expiring('service', 'one', '60 s');
ROLLBACK;
INSERT INTO t.tokens SELECT token FROM claims.acquire_expiring('service', 'one', '60 s');
SELECT count(*) FROM t.tokens;

-- assert_held proves the hold until the end of the transaction
SELECT token AS token FROM claims.expiring_claims WHERE kind = 'service' AND key = 'e1' \gset
BEGIN;
SELECT claims.assert_held('service', 'e1', :token);
COMMIT;
SELECT t.call('SELECT claims.assert_held(''service'', ''e1'', 2)');
SELECT regexp_replace(c, 'token \d+', 'token <n>') FROM t.call(format('SELECT claims.assert_held(''service'', ''e1'', %s)', :token + 1)) c;
SELECT t.call('SELECT claims.assert_held(''service'', ''unknown'', 1)');
SELECT t.call('SELECT claims.assert_held(''nothing'', ''e1'', 1)');
SELECT claims.release_expiring('service', 'one', '{e1}');
SELECT t.state_of(format('SELECT claims.assert_held(''service'', ''e1'', %s)', :token));
SELECT token AS token FROM claims.acquire_expiring('service', 'one', '60 s') \gset
SELECT claims.assert_held('service', 'e1', :token);
SELECT t.let_expire('e1');
SELECT t.state_of(format('SELECT claims.assert_held(''service'', ''e1'', %s)', :token));

-- renewals are HOT updates
SELECT count(*) FROM (SELECT claims.add_expiring('hot', (SELECT array_agg('k' || n) FROM generate_series(1, 1000) n))) s;
SELECT count(*) FROM claims.acquire_expiring('hot', 'one', '60 s');
SELECT count(*) FROM claims.renew_expiring('hot', 'one', '61 s');
DO $$ BEGIN FOR i IN 1..20 LOOP PERFORM claims.renew_expiring('hot', 'one', interval '62 s' + i * interval '1 s'); COMMIT; END LOOP; END $$;
BEGIN; -- between transactions PostgreSQL may flush these counters
SELECT pg_stat_get_xact_tuples_updated('claims.expiring_claims'::regclass) AS updated,
    pg_stat_get_xact_tuples_hot_updated('claims.expiring_claims'::regclass) AS hot \gset
SELECT count(*) FROM claims.renew_expiring('hot', 'one', '2 min');
SELECT pg_stat_get_xact_tuples_updated('claims.expiring_claims'::regclass) - :updated,
    pg_stat_get_xact_tuples_hot_updated('claims.expiring_claims'::regclass) - :hot;
COMMIT;
SELECT claims.remove_expiring('hot', (SELECT array_agg(key) FROM claims.held_expiring('hot', 'one')));
DELETE FROM claims.expiring_claims;
