-- digest_records, digest_expected and expected_records are equal exactly when the range has no discrepancy.
SELECT t.clean();
CREATE COLLATION t.alike (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
CREATE TABLE t.routes (id bigint PRIMARY KEY, path text COLLATE t.alike, name varchar(2000) COLLATE "tr-x-icu", owner_id int,
      hidden boolean NOT NULL DEFAULT false);
CREATE FUNCTION t.claims_column(of_table regclass, attribute name, bucket text, source text,
      condition text DEFAULT NULL, source_key name DEFAULT 'id')
RETURNS void LANGUAGE sql AS $$
    INSERT INTO claims.claimed_attributes VALUES (of_table, attribute, bucket, 'GROUP', 'owner_id', source, source_key, condition) $$;
SELECT t.claims_column('t.routes', 'path', 'ROUTES', 'RAILS_TABLE_ROUTES');
SELECT t.claims_column('t.routes', 'name', 'USERNAMES', 'RAILS_TABLE_ROUTES', 'NOT hidden');
-- t.claim_expected() claims what is expected; t.agree() compares both digests of a range
CREATE FUNCTION t.claim_expected(source text DEFAULT 'RAILS_TABLE_ROUTES') RETURNS bigint LANGUAGE sql AS $$
    SELECT count(*) FROM claims.verify_records(1, source, NULL, NULL, claims.expected_records(source), '0', true) $$;
CREATE FUNCTION t.agree(gt text DEFAULT NULL, lte text DEFAULT NULL, source text DEFAULT 'RAILS_TABLE_ROUTES') RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN (e.records, e.digest) = (r.records, r.digest) THEN format('%s claims agree', e.records)
                ELSE format('differ: %s expected, %s there', e.records, r.records) END
      FROM claims.digest_expected(source, gt, lte) e, claims.digest_records(1, source, gt, lte) r $$;
-- empty tables agree
SELECT records, digest FROM claims.digest_records(1, 'RAILS_TABLE_ROUTES');
SELECT claims.expected_records('RAILS_TABLE_ROUTES'), t.agree();
-- negative keys, zero, the smallest and the largest key, several scripts, NULLs, and a condition
INSERT INTO t.routes (id, path, name, owner_id, hidden) VALUES
    (-9223372036854775808, 'least', NULL, 1, false), (-10, 'minus ten', 'm', 2, false),
    (-9, 'minus nine', NULL, 2, false), (-1, 'minus', NULL, 3, true),
    (0, 'zero', 'z', 0, true), (1, 'Ärger', 'ö', -4, false), (2, '名前', '😀', 5, false), (9, 'İstanbul', 'ı', 5, false),
    (10, E'tab\there "quoted" \\ back', 'q''uote', 5, false),
    (99, 'a', repeat('😀', 650), 5, false), (100, NULL, NULL, 5, false), (9223372036854775807, 'most', 'x', 5, false);
SELECT r #>> '{bucket,type}', left(r #>> '{bucket,value}', 20), r #>> '{subject,type}', r #>> '{subject,id}', r #>> '{source,type}',
    r #>> '{source,rails_primary_key_id}'
  FROM jsonb_array_elements(claims.expected_records('RAILS_TABLE_ROUTES')) r;
SELECT t.agree();
SELECT t.claim_expected();
SELECT t.agree();
-- every range agrees, also with bounds that are no numbers
SELECT DISTINCT left(t.agree(a, b), 6) || ' ... ' || right(t.agree(a, b), 5)
  FROM unnest('{NULL,-9223372036854775808,-10,-9,-1,-0,0,1,2,9,10,11,99,100,0099,a,zz,é,9223372036854775807,9223372036854775808}'::text[]) a,
    unnest('{NULL,-9223372036854775808,-10,-9,-1,-0,0,1,2,9,10,11,99,100,0099,a,zz,é,9223372036854775807,9223372036854775808}'::text[]) b;
-- two adjacent ranges have the records of the whole
SELECT DISTINCT (SELECT records FROM claims.digest_expected('RAILS_TABLE_ROUTES', NULL, b)) + (SELECT records
      FROM claims.digest_expected('RAILS_TABLE_ROUTES', b))
  FROM unnest('{-9223372036854775808,-10,-9,-1,0,1,2,9,10,11,99,100,0099,a,zz,é,9223372036854775807}'::text[]) b;
-- a bound means the same at the service and in the cell
SELECT r #>> '{source,rails_primary_key_id}' FROM jsonb_array_elements(claims.expected_records('RAILS_TABLE_ROUTES', '-1', '10')) r;
-- every single difference changes the digest
CREATE FUNCTION t.after(change text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
    EXECUTE change;
    result := t.agree();
    RAISE EXCEPTION SQLSTATE 'P9999' USING MESSAGE = result;
EXCEPTION WHEN SQLSTATE 'P9999' THEN RETURN change || ': ' || SQLERRM;
END $$;
SELECT t.after($$UPDATE t.routes SET path = 'ärger' WHERE id = 1$$);
SELECT t.after($$UPDATE t.routes SET path = 'A' WHERE id = 99$$);
SELECT t.after($$UPDATE t.routes SET owner_id = 6 WHERE id = 10$$);
SELECT t.after($$UPDATE t.routes SET id = 12 WHERE id = 10$$);
SELECT t.after($$UPDATE t.routes SET path = name, name = path WHERE id = 10$$);
SELECT t.after($$UPDATE t.routes SET hidden = true WHERE id = 10$$);
SELECT t.after($$UPDATE t.routes SET hidden = false WHERE id = 0$$);
SELECT t.after($$DELETE FROM t.routes WHERE id = -10$$);
SELECT t.after($$INSERT INTO t.routes VALUES (11, 'a', NULL, 5)$$);
SELECT t.after($$UPDATE t.routes SET path = CASE id WHEN 1 THEN '名前' ELSE 'Ärger' END WHERE id IN (1, 2)$$);
SELECT t.after($$UPDATE claims.claims SET creator_id = 2 WHERE bucket_value = 'zero'$$);
SELECT t.after($$UPDATE claims.claims SET source_type = 5 WHERE bucket_value = 'zero'$$);
SELECT t.after($$UPDATE claims.claims SET subject_type = 3 WHERE bucket_value = 'zero'$$);
-- age, lease and uuid of a claim do not change the digest
SELECT t.after($$UPDATE claims.claims SET uuid = gen_random_uuid(), updated_at = now(), created_at = now()$$);
SELECT t.after($$SELECT claims.begin_update(1, '[]', '[{"bucket": {"type": "ROUTES", "value": "zero"}}]')$$);
-- settings of the session do not change the digest
SET DateStyle = 'German'; SET TimeZone = 'Asia/Tokyo'; SET bytea_output = escape; SET extra_float_digits = 0;
SELECT t.agree();
RESET DateStyle; RESET TimeZone; RESET bytea_output; RESET extra_float_digits;
-- type numbers may differ between databases: names count
BEGIN;
UPDATE claims.bucket_types SET id = id + 100 WHERE id > 0;
UPDATE claims.subject_types SET id = id + 100 WHERE id > 0;
UPDATE claims.source_types SET id = id + 100 WHERE id > 0;
UPDATE claims.claims SET bucket_type = bucket_type + 100, subject_type = subject_type + 100, source_type = source_type + 100;
SELECT t.agree();
ROLLBACK;
-- other column and key types, two tables of one source type, partitions, inheritance
DELETE FROM claims.claimed_attributes;
SELECT t.clean();
CREATE TABLE t.two (id smallint PRIMARY KEY, owner_id bigint, handle uuid, born date, at timestamptz, raw bytea, price float8, nr int,
      amount numeric(8,2), c char(5), n name);
CREATE TABLE t.parts (id int, owner_id smallint, path text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE t.part_one PARTITION OF t.parts FOR VALUES FROM (MINVALUE) TO (100);
CREATE TABLE t.part_two PARTITION OF t.parts FOR VALUES FROM (100) TO (MAXVALUE);
CREATE TABLE t.parent (id int PRIMARY KEY, owner_id int, path text);
CREATE TABLE t.heir () INHERITS (t.parent);
INSERT INTO t.two SELECT i, i, md5(i::text)::uuid, date '2020-01-01' + i, timestamptz '2020-01-01 00:00Z' + i * interval '1 h',
    decode(md5(i::text), 'hex'), i / 7.0, i, i, i, 'n' || i FROM generate_series(-3, 30) i;
INSERT INTO t.parts SELECT i, i, 'part ' || i FROM generate_series(-2, 200) i;
INSERT INTO t.parent SELECT i, i, 'parent ' || i FROM generate_series(1, 3) i;
INSERT INTO t.heir SELECT i, i, 'heir ' || i FROM generate_series(1, 3) i;
SELECT t.claims_column('t.two', c, 'EMAILS', 'RAILS_TABLE_USERS') FROM unnest('{handle,born,at,raw,price,amount,n}'::name[]) c;
SELECT t.claims_column('t.parts', 'path', 'ROUTES', 'RAILS_TABLE_USERS');
SELECT t.claims_column('t.parent', 'path', 'ROUTES', 'RAILS_TABLE_USERS');
SELECT t.claim_expected('RAILS_TABLE_USERS');
SELECT t.agree(source => 'RAILS_TABLE_USERS'), t.agree('-2', '150', source => 'RAILS_TABLE_USERS');
SET DateStyle = 'SQL, DMY'; SET TimeZone = 'America/Lima'; SET bytea_output = escape; SET extra_float_digits = -3;
SELECT t.agree(source => 'RAILS_TABLE_USERS');
RESET DateStyle; RESET TimeZone; RESET bytea_output; RESET extra_float_digits;
-- a child table that was not declared is not expected
SELECT count(*) FROM jsonb_array_elements(claims.expected_records('RAILS_TABLE_USERS')) r WHERE r #>> '{bucket,value}' LIKE 'heir%';
-- names that need quotes, and a condition that names its table
CREATE TABLE t."Odd ""Table" ("Key ""x" int PRIMARY KEY, owner_id int, "Val'ue" text);
INSERT INTO t."Odd ""Table" SELECT i, i, 'odd ' || i FROM generate_series(1, 4) i;
INSERT INTO claims.claimed_attributes VALUES
    ('t."Odd ""Table"', 'Val''ue', 'ROUTES', 'GROUP', 'owner_id', 'RAILS_TABLE_GROUPS', 'Key "x', '"Odd ""Table"."Key ""x" > 1 AND owner_id <> 3');
SELECT claims.expected_records('RAILS_TABLE_GROUPS');
SELECT t.call($$SELECT jsonb_array_length(claims.expected_records('RAILS_TABLE_GROUPS', '2'))$$);
-- expected_records refuses more records than one answer holds
SET debug_discard_caches = 0; INSERT INTO t."Odd ""Table" SELECT i, 1, 'many ' || i FROM generate_series(5, 100010) i; RESET debug_discard_caches;
SELECT t.call($$SELECT claims.expected_records('RAILS_TABLE_GROUPS')$$);
SELECT records FROM claims.digest_expected('RAILS_TABLE_GROUPS');
-- rows without a value, with a value that is too long, or without a subject are not expected
SELECT t.claims_column('t.routes', 'path', 'ROUTES', 'RAILS_TABLE_ROUTES');
TRUNCATE t.routes;
INSERT INTO t.routes VALUES (1, '', NULL, 1), (2, repeat('x', 1025), NULL, 1), (3, 'no subject', NULL, NULL), (4, 'fine', NULL, 1);
SELECT claims.expected_records('RAILS_TABLE_ROUTES'), (SELECT records FROM claims.digest_expected('RAILS_TABLE_ROUTES'));
-- invalid arguments are refused
SELECT t.call($$SELECT * FROM claims.digest_expected(NULL)$$);
SELECT t.call($$SELECT * FROM claims.digest_expected('no such')$$);
SELECT t.call($$SELECT claims.expected_records('RAILS_TABLE_ROUTES', '')$$);
SELECT t.call($$SELECT * FROM claims.digest_records(NULL, 'RAILS_TABLE_ROUTES')$$);
SELECT t.call($$SELECT * FROM claims.digest_records(1, NULL)$$);
SELECT t.call($$SELECT * FROM claims.digest_records(77, 'RAILS_TABLE_ROUTES')$$);
SELECT t.call($$SELECT * FROM claims.digest_records(1, 'RAILS_TABLE_ROUTES', repeat('1', 129))$$);
-- conditions and output functions run with the rights of the table's owner
CREATE ROLE regress_claims_owner;
GRANT CREATE, USAGE ON SCHEMA t TO regress_claims_owner;
SET ROLE regress_claims_owner;
CREATE TABLE t.mine (id int PRIMARY KEY, owner_id int, path text);
INSERT INTO t.mine VALUES (1, 1, 'mine');
CREATE FUNCTION t.who() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE '% in %', current_user, current_setting('search_path');
    RETURN true;
END $$;
CREATE FUNCTION t.escape() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN SET ROLE postgres; RETURN true; END $$;
RESET ROLE;
SELECT t.claims_column('t.mine', 'path', 'ROUTES', 'RAILS_TABLE_PROJECTS', 't.who()');
SELECT claims.expected_records('RAILS_TABLE_PROJECTS');
UPDATE claims.claimed_attributes SET condition = 't.escape()' WHERE table_name = 't.mine'::regclass;
SELECT t.call($$SELECT claims.expected_records('RAILS_TABLE_PROJECTS')$$);
SELECT current_user;
-- rows that a policy hides are an error
UPDATE claims.claimed_attributes SET condition = NULL WHERE table_name = 't.mine'::regclass;
ALTER TABLE t.mine ENABLE ROW LEVEL SECURITY; ALTER TABLE t.mine FORCE ROW LEVEL SECURITY;
SELECT t.call($$SELECT claims.expected_records('RAILS_TABLE_PROJECTS')$$);
-- only a cell's role may call these functions
SELECT has_function_privilege(r, f, 'EXECUTE'), r, f FROM unnest('{regress_claims_one,regress_claims_router,regress_claims_nobody}'::text[]) r,
    unnest('{"claims.digest_expected(text,text,text)","claims.expected_records(text,text,text)"}'::text[]) f;
SET client_min_messages = warning;
DELETE FROM claims.claimed_attributes;
DROP TABLE t.mine, t.routes, t.two, t.parts, t.parent, t."Odd ""Table" CASCADE;
DROP COLLATION t.alike;
DROP FUNCTION t.who(), t.escape();
DROP OWNED BY regress_claims_owner; DROP ROLE regress_claims_owner;
RESET client_min_messages;
SELECT t.clean();
