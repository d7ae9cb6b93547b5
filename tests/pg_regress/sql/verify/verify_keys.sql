-- Verification of keys that are no integers: both sides sort the same ids into a range; impossible ids are not extra.
SELECT t.clean();
CREATE SCHEMA keys;
SET client_min_messages = warning;
SELECT t.keep_caches_of_service();
DO $$ BEGIN
    EXECUTE format('CREATE SERVER regress_claims_keys FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
                   current_setting('unix_socket_directories'), current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR postgres SERVER regress_claims_keys OPTIONS (user 'postgres');
CREATE EXTENSION citext SCHEMA keys;
CREATE DOMAIN keys.ref AS uuid; CREATE DOMAIN keys.slug AS varchar(200); CREATE TYPE keys.mood AS ENUM ('good', 'Bad One', 'ugly');
CREATE COLLATION keys.alike (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
CREATE FUNCTION keys.verify(correct boolean DEFAULT false, batch int DEFAULT 10, max_runtime interval DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(key || ' ' || value, ', ' ORDER BY n)
      FROM claims.verify(1, 'regress_claims_keys', 'RAILS_TABLE_ROUTES', batch, '0', correct, max_runtime) v,
        LATERAL json_each_text(to_json(v)) WITH ORDINALITY AS c (key, value, n) WHERE value <> '0' $$;
CREATE FUNCTION keys.agree(gt text DEFAULT NULL, lte text DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN (e.records, e.digest) = (r.records, r.digest) THEN 'agree'
        ELSE format('differ from %s to %s: %s expected, %s there', gt, lte, e.records, r.records) END
      FROM claims.digest_expected('RAILS_TABLE_ROUTES', gt, lte) e, claims.digest_records(1, 'RAILS_TABLE_ROUTES', gt, lte) r $$;
-- keys.claimed() makes a claim that is two hours old
CREATE FUNCTION keys.claimed(bucket text, source text, subject text DEFAULT '1') RETURNS void LANGUAGE sql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id,
          status, created_at, updated_at)
    VALUES (1, bucket, 2, subject, 3, source, 1, 1, now() - interval '2 hours', now() - interval '2 hours') $$;
CREATE FUNCTION keys.claims_of(VARIADIC vals text[]) RETURNS SETOF text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('%s: source %s, subject %s', bucket_value, source_id, subject_id) FROM claims.claims
      WHERE bucket_value = ANY (vals) ORDER BY bucket_value COLLATE "C" $$;
-- keys.story() verifies a table with keys of type `kind`; `key` makes the key of number n, `bounds` are further bounds
CREATE PROCEDURE keys.story(kind text, key text, VARIADIC bounds text[]) LANGUAGE plpgsql AS $$
DECLARE
    ids text[]; first text; last text; middle text; k int := 0; step text; checked int := 0; bound text;
BEGIN
    EXECUTE format('CREATE TABLE keys.rows (id %s PRIMARY KEY, path text, grp text)', kind);
    INSERT INTO claims.claimed_attributes VALUES ('keys.rows', 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_ROUTES', 'id', NULL);
    COMMIT;
    RAISE NOTICE 'nothing here, nothing there: %', keys.verify(true);
    EXECUTE format('INSERT INTO keys.rows SELECT %s, ''p'' || n, n %% 7 FROM generate_series(1, 800) n', key);
    COMMIT;
    SET debug_discard_caches = 0; -- for 800 corrections
    RAISE NOTICE 'an empty service: %', keys.verify(true);
    RESET debug_discard_caches;
    RAISE NOTICE 'in order: %', keys.verify() || '; ' || keys.verify(batch => 1) || '; ' || keys.verify(batch => 10000);
    SELECT array_agg(source_id ORDER BY length(source_id), source_id COLLATE "C") INTO ids FROM claims.claims;
    IF ids IS DISTINCT FROM (SELECT array_agg(r #>> '{source,rails_primary_key_id}' ORDER BY n)
          FROM jsonb_array_elements(claims.expected_records('RAILS_TABLE_ROUTES')) WITH ORDINALITY r (r, n)) THEN
        RAISE NOTICE 'the cell has another order of ids';
    END IF;
    first := ids[1]; middle := ids[400]; last := ids[800];
    bounds := bounds || ARRAY[first, middle, last, middle || 'x', left(middle, -1), upper(middle), NULL];
    SET debug_discard_caches = 0; -- for hundreds of pairs
    RAISE NOTICE 'every range: %', (SELECT string_agg(DISTINCT keys.agree(a, b), '; ') FROM unnest(bounds) a, unnest(bounds) b
          WHERE (a <> '') IS NOT FALSE AND (b <> '') IS NOT FALSE);
    RESET debug_discard_caches;
    FOREACH bound IN ARRAY bounds LOOP
        CONTINUE WHEN bound = '' OR bound IS NULL;
        IF (SELECT records FROM claims.digest_expected('RAILS_TABLE_ROUTES', NULL, bound)) + (SELECT records
              FROM claims.digest_expected('RAILS_TABLE_ROUTES', bound)) <> 800 THEN
            RAISE NOTICE 'the ranges up to and above % are not the whole', bound;
        END IF;
    END LOOP;
    -- before the first, in the middle, behind the last
    DELETE FROM claims.claims WHERE source_id IN (first, middle, last);
    UPDATE claims.claims SET subject_id = '99' WHERE source_id IN (ids[2], ids[399], ids[799]);
    UPDATE claims.claims SET source_id = ids[5] WHERE source_id = ids[401];
    EXECUTE format('SELECT count(keys.claimed(''extra '' || n, (%s)::text)) FROM generate_series(2001, 2030) n', key);
    PERFORM keys.claimed('extra of ' || n, ids[n]) FROM unnest('{1,2,400,800}'::int[]) n;
    COMMIT;
    RAISE NOTICE 'damaged: %', keys.verify();
    LOOP
        k := k + 1;
        step := keys.verify(max_runtime => '0');
        COMMIT;
        checked := checked + coalesce(substring(step FROM 'checked (\d+)')::int, 0);
        EXIT WHEN k > 1000 OR step LIKE '%finished true';
    END LOOP;
    RAISE NOTICE 'in steps: checked %, %', checked, CASE WHEN k BETWEEN 3 AND 100 THEN 'several' ELSE k::text END;
    RAISE NOTICE 'put right: %', keys.verify(true);
    RAISE NOTICE 'then: %', keys.verify() || ', ' || keys.agree() || ', ' || (SELECT count(*) FROM claims.claims);
    DELETE FROM keys.rows WHERE id::text = middle;
    COMMIT;
    RAISE NOTICE 'a row less: %', keys.verify(true) || ', ' || keys.agree();
    DELETE FROM keys.rows;
    COMMIT;
    SET debug_discard_caches = 0;
    RAISE NOTICE 'an empty table: %', keys.verify(true) || ', ' || (SELECT count(*) FROM claims.claims);
    RESET debug_discard_caches;
    DELETE FROM claims.claimed_attributes; DROP TABLE keys.rows;
    PERFORM t.clean();
END $$;
SET client_min_messages = notice;
CALL keys.story('bigint', 'n - 300', '-5', '007', 'x', 'é');
-- uuid keys
CALL keys.story('uuid', 'md5(n::text)::uuid', 'é', '7fffffff-ffff-ffff-ffff-ffffffffffff', '7FFFFFFF-ffff-ffff-ffff-ffffffffffff',
      '7fffffff-ffff-ffff-ffff-fffffffffffg', '7fffffff+ffff-ffff-ffff-ffffffffffff', '7fffffff.ffff-ffff-ffff-ffffffffffff', '7fffffffé',
      '7fffffff-fff-ffff-ffff-fffffffffffé', '0000000/-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff',
      '{7fffffff-ffff-ffff-ffff-ffffffffffff}', repeat('x', 36), repeat('é', 36));
CALL keys.story('keys.ref', 'md5(n::text)::uuid', 'a');
-- text keys: lengths, scripts, upper and lower case; sorted by bytes and not by the collation
CALL keys.story('text', $$CASE n % 4 WHEN 0 THEN 'k' || n WHEN 1 THEN repeat('é', n % 100) || n WHEN 2 THEN upper(md5(n::text)) ELSE n
      || ' 🦀"''\ ' END$$, 'é', 'zz', 'ZZ', '500', repeat('z', 128), 'ä', '~');
CALL keys.story('varchar(128) COLLATE "tr-x-icu"', $$CASE n % 2 WHEN 0 THEN 'İ' || n ELSE 'i' || n END$$, 'I', 'ı9');
CALL keys.story('text COLLATE keys.alike', $$CASE n % 2 WHEN 0 THEN 'Key' || n ELSE 'key' || n END$$, 'KEY5', 'key6');
CALL keys.story('keys.slug', $$'slug-' || n$$, 'slug');
CALL keys.story('keys.citext', $$CASE n % 2 WHEN 0 THEN 'Key' || n ELSE 'key' || n END$$, 'KEY5', 'key6');
CALL keys.story('char(12)', $$'c' || n$$, 'c5 ', 'c');
CALL keys.story('numeric', $$n / 10.0$$, '1.5', '1.50');
SET client_min_messages = warning;
-- ids are compared as texts, whatever the key's type takes for equal
CREATE TABLE keys.folded (id keys.citext PRIMARY KEY, path text, grp int);
CREATE TABLE keys.alike (id text COLLATE keys.alike PRIMARY KEY, path text, grp int);
INSERT INTO claims.claimed_attributes SELECT c, 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_ROUTES', 'id', NULL
  FROM unnest('{keys.folded,keys.alike}'::regclass[]) c;
INSERT INTO keys.folded VALUES ('Foo', 'foo', 1); INSERT INTO keys.alike VALUES ('Bar', 'bar', 1);
SELECT keys.claimed('foo', 'foo'), keys.claimed('bar', 'bar'), keys.claimed('other', 'FOO'), keys.claimed('more', 'BAR');
SELECT keys.verify(true);
SELECT keys.claims_of('foo', 'bar', 'other', 'more');
DELETE FROM claims.claimed_attributes; DROP TABLE keys.folded, keys.alike; SELECT t.clean();
-- several tables of one source type: an id that no key can have is not extra
CREATE TABLE keys.ints (id int PRIMARY KEY, path text, grp uuid); CREATE TABLE keys.uuids (id uuid PRIMARY KEY, path text, grp uuid);
CREATE TABLE keys.moods (id keys.mood PRIMARY KEY, path text, grp uuid); CREATE TABLE keys.nums (id numeric PRIMARY KEY, path text, grp uuid);
INSERT INTO claims.claimed_attributes SELECT c, 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_ROUTES', 'id', NULL
  FROM unnest('{keys.ints,keys.uuids}'::regclass[]) c;
INSERT INTO keys.ints SELECT n, 'i' || n, md5('i')::uuid FROM generate_series(-50, 700) n;
INSERT INTO keys.uuids SELECT md5(n::text)::uuid, 'u' || n, md5('u')::uuid FROM generate_series(1, 700) n;
SELECT keys.verify(true), keys.verify(), keys.agree();
SELECT r #>> '{source,rails_primary_key_id}', r #>> '{subject,id}'
  FROM jsonb_array_elements(claims.expected_records('RAILS_TABLE_ROUTES', '698', '00ffffff-ffff-ffff-ffff-ffffffffffff')) r;
SELECT count(keys.claimed('extra ' || id, id))
  FROM unnest('{-51,-50,5,701,007,1.5,1.50,abc,Bad One,bad one,good,é,
    00000000-0000-0000-0000-000000000000,A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11,a0eebc999c0b4ef8bb6d6bb9bd380a11,99999999999999999999}'::text[]) id;
CREATE FUNCTION keys.extra() RETURNS SETOF text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT source_id FROM claims.claims WHERE bucket_value LIKE 'extra%' ORDER BY length(source_id), source_id $$;
SELECT keys.verify(true);
SELECT keys.extra();
-- enum and numeric keys: the type decides which ids are possible
INSERT INTO claims.claimed_attributes SELECT c, 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_ROUTES', 'id', NULL
  FROM unnest('{keys.moods,keys.nums}'::regclass[]) c;
INSERT INTO keys.moods VALUES ('good', 'm1', md5('m')::uuid), ('Bad One', 'm2', md5('m')::uuid);
INSERT INTO keys.nums VALUES (1.25, 'n1', md5('n')::uuid);
SELECT keys.verify(), keys.verify(true), keys.verify();
SELECT keys.extra();
SELECT keys.claims_of('m1', 'm2', 'n1');
-- a text key can have any id
ALTER TABLE keys.moods ALTER id TYPE text;
SELECT keys.verify(true), keys.verify(), keys.agree();
SELECT keys.extra();
-- a name that moves between rows with keys of different types is replaced
DELETE FROM keys.ints WHERE id = 7; UPDATE keys.uuids SET path = 'i7' WHERE path = 'u7';
SELECT keys.verify(true), keys.verify();
SELECT keys.claims_of('i7', 'u7');
DELETE FROM claims.claimed_attributes; DROP TABLE keys.ints, keys.uuids, keys.moods, keys.nums; SELECT t.clean();
-- rows with NULL, empty or too long keys are reported, do not stop the others, and bound no range
CREATE TABLE keys.rows (id text, path text, grp text);
INSERT INTO claims.claimed_attributes VALUES ('keys.rows', 'path', 'ROUTES', 'GROUP', 'grp', 'RAILS_TABLE_ROUTES', 'id', NULL);
INSERT INTO keys.rows SELECT id, coalesce(left(id, 3), 'null') || n, 'g'
  FROM generate_series(1, 300) n, unnest(ARRAY['', 'k' || n, repeat('x', 129), repeat('é', 128), NULL]) id;
SET client_min_messages = notice;
SELECT keys.verify(true, 1), keys.verify(batch => 1), keys.verify(batch => 10000);
DELETE FROM keys.rows WHERE id <> 'k5' OR id IS NULL;
INSERT INTO keys.rows VALUES ('k6', 'no id', ''), ('k7', 'long id', repeat('é', 129)), ('k8', 'fine', repeat('é', 128));
SELECT keys.verify(true);
SELECT claims.expected_records('RAILS_TABLE_ROUTES') #>> '{0,source}', jsonb_array_length(claims.expected_records('RAILS_TABLE_ROUTES'));
-- integer keys that are NULL
ALTER TABLE keys.rows ALTER id TYPE int USING substr(id, 2)::int; INSERT INTO keys.rows VALUES (NULL, 'no key', '1');
SELECT keys.verify(true);
SET client_min_messages = warning;
-- a type that refuses a text with an SQLSTATE of its own
CREATE EXTENSION ltree SCHEMA keys;
TRUNCATE keys.rows; ALTER TABLE keys.rows ALTER id TYPE keys.ltree USING 'a.b'::keys.ltree; SELECT t.clean();
INSERT INTO keys.rows VALUES ('a.b', 'tree', '1'); SELECT keys.claimed('no tree', 'a b'), keys.claimed('gone', 'a.c');
SELECT keys.verify(true); SELECT keys.claims_of('tree', 'no tree', 'gone');
DELETE FROM claims.claimed_attributes;
DROP SCHEMA keys CASCADE;
DROP SERVER regress_claims_keys CASCADE;
RESET client_min_messages;
SELECT t.clean();
