-- set_profile: another profile for a type that has names.
SELECT t.clean(); DELETE FROM claims.reservations; DELETE FROM claims.skeletons;
SELECT claims.add_bucket_type(110, 'HANDLES'), claims.add_bucket_type(111, 'OTHERS');
CREATE FUNCTION t.names(type text, VARIADIC vals text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(t.claim(v, type, n) ORDER BY n) FROM unnest(vals) WITH ORDINALITY AS u(v, n)
$$;
CREATE FUNCTION t.stored(type text DEFAULT 'HANDLES') RETURNS SETOF text LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY
      SELECT bucket_value || coalesce(' (' || display_value || ')', '') || ' of cell ' || creator_id FROM claims.claims
    WHERE bucket_type = (SELECT id FROM claims.bucket_types WHERE name = type) ORDER BY bucket_value COLLATE "C"; END $$;
CREATE FUNCTION t.profile() RETURNS text LANGUAGE sql AS $$ SELECT profile || ' ' || confusables FROM claims.bucket_types WHERE id = 110 $$;
SELECT claims.commit_update(1, claims.begin_update(1, t.names('HANDLES', 'Ada', 'bob', 'Straße')));
SELECT claims.commit_update(2, claims.begin_update(2, t.names('HANDLES', 'ada', 'ADA', 'Cy', 'no name') || t.names('OTHERS', 'Ada')));
SELECT claims.reserve_names('HANDLES', '{Root,BOB}', 'ours');

-- dry_run lists the names that become equal
SELECT canonical, bucket_values, cell_ids FROM claims.set_profile('HANDLES', 'casefold', 'people take them for the same');
SELECT canonical, bucket_values, cell_ids FROM claims.set_profile('HANDLES', 'username', 'people take them for the same');
-- dry_run writes nothing
BEGIN READ ONLY; SELECT count(*) FROM claims.set_profile('HANDLES', 'username', 'people take them for the same', 'reject'); ROLLBACK;
BEGIN READ ONLY; SELECT count(*) FROM claims.set_profile('OTHERS', 'username', 'people take them for the same', 'reject'); ROLLBACK;
SELECT count(*) FROM claims.admin_log WHERE action = 'set_profile';
SELECT t.call($$SELECT * FROM claims.set_profile('HANDLES', 'username', 'people take them for the same', dry_run => false)$$);
SELECT t.profile(); SELECT * FROM t.stored();
SELECT claims.unreserve_names('HANDLES', '{BOB}', 'in the way'),
    claims.commit_update(2, claims.begin_update(2, '[]', '[{"bucket": {"type": "HANDLES", "value": "ada"}},
        {"bucket": {"type": "HANDLES", "value": "ADA"}}, {"bucket": {"type": "HANDLES", "value": "no name"}}]'));

-- set_profile changes all names of the type
SELECT count(*) FROM claims.set_profile('HANDLES', 'casefold', 'people take them for the same');
SELECT t.profile();
SELECT count(*) FROM claims.set_profile('HANDLES', 'casefold', 'people take them for the same', dry_run => false);
SELECT t.profile(); SELECT * FROM t.stored(); SELECT * FROM t.stored('OTHERS');
SELECT bucket_value, display_value FROM claims.reserved_names;
SELECT action, arguments, reason FROM claims.admin_log WHERE action = 'set_profile';
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.names('HANDLES', 'aDA', 'ROOT'));
SELECT bucket_value, display_value, cell_id FROM claims.get_record('HANDLES', 'STRASSE');
SELECT count(*) FROM claims.check();
-- the profile that the type has changes nothing
SELECT count(*) FROM claims.set_profile('HANDLES', 'casefold', 'again', dry_run => false);
-- another profile starts from the given forms; `exact` restores them
SELECT count(*) FROM claims.set_profile('HANDLES', 'username', 'ß is a letter', dry_run => false);
SELECT t.profile(); SELECT * FROM t.stored();
SELECT count(*) FROM claims.set_profile('HANDLES', 'exact', 'bytes', dry_run => false);
SELECT t.profile(); SELECT * FROM t.stored();
SELECT bucket_value, display_value FROM claims.reserved_names;
SELECT count(*) FROM claims.check();

-- names that look alike are in the way of `reject`
SELECT claims.commit_update(2, claims.begin_update(2, t.names('HANDLES', U&'b\043Eb')));
SELECT canonical, array_length(bucket_values, 1), cell_ids FROM claims.set_profile('HANDLES', 'username', 'no look-alikes', 'reject');
SELECT left(r, 5) FROM t.call($$SELECT * FROM claims.set_profile('HANDLES', 'username', 'no look-alikes', 'reject', false)$$) r LIMIT 1;
SELECT claims.commit_update(2,
      claims.begin_update(2, '[]', jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'HANDLES', 'value', U&'b\043Eb')))));
SELECT count(*) FROM claims.set_profile('HANDLES', 'username', 'no look-alikes', 'reject', false);
SELECT t.profile(), (SELECT count(*) FROM claims.skeletons);
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.names('HANDLES', U&'b\043Eb', U&'r\043Eot'));
-- without the argument confusables the type keeps its value
SELECT count(*) FROM claims.set_profile('HANDLES', 'casefold', 'other', dry_run => false);
SELECT t.profile();
SELECT count(*) FROM claims.set_profile('HANDLES', 'casefold', 'other', 'allow', false);
SELECT t.profile(), (SELECT count(*) FROM claims.skeletons);
SELECT count(*) FROM claims.check();

-- a claim that looks like a reserved name: both stay, and the result lists them
SELECT claims.reserve_names('HANDLES', '{pace,cope}', 'ours');
SELECT claims.commit_update(2, claims.begin_update(2, t.names('HANDLES', U&'p\0430ce', U&'c\043Eve')));
SELECT claims.reserve_names('HANDLES', '{cove}', 'ours');
SELECT count(*) FROM claims.set_profile('HANDLES', 'username', 'no look-alikes', 'reject');
SELECT count(*) FROM claims.set_profile('HANDLES', 'username', 'no look-alikes', 'reject', false);
SELECT bucket_value, reserved FROM claims.skeletons WHERE left(bucket_value, 1) IN ('p', 'c') ORDER BY 1, 2;
SELECT count(*) FROM claims.check();
-- another profile keeps such a claim and the reservation
SELECT count(*) FROM claims.set_profile('HANDLES', 'casefold', 'no look-alikes', dry_run => false);
SELECT t.mask(conflicts) FROM claims.try_begin_update(1, t.names('HANDLES', U&'\0440\0430ce', U&'c\043Epe'));
SELECT count(*) FROM claims.check();
-- unreserved, the name conflicts with the claim; a destroyed claim leaves the reservation's skeleton
SELECT claims.unreserve_names('HANDLES', '{pace,cope}', 'no more');
SELECT t.mask(conflicts) FROM claims.try_begin_update(1, t.names('HANDLES', 'pace'));
SELECT claims.commit_update(2,
      claims.begin_update(2, '[]', jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'HANDLES', 'value', U&'c\043Eve')))));
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.names('HANDLES', U&'c\043Eve'));
SELECT claims.unreserve_names('HANDLES', '{cove}', 'no more');
SELECT claims.commit_update(2,
      claims.begin_update(2, '[]', jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'HANDLES', 'value', U&'p\0430ce')))));
SELECT bucket_value, reserved FROM claims.skeletons WHERE left(bucket_value, 1) IN ('p', 'c') ORDER BY 1, 2;
SELECT count(*) FROM claims.set_profile('HANDLES', 'casefold', 'other', 'allow', false);
SELECT t.profile(), (SELECT count(*) FROM claims.skeletons), (SELECT count(*) FROM claims.check());

-- names held by leases are in the way
SELECT claims.begin_update(1, t.names('HANDLES', 'Dora', 'eve'), '[{"bucket": {"type": "HANDLES", "value": "BOB"}}]', t.u(9501)) = t.u(9501);
-- names held by leases that do not change are not in the way
SELECT count(*) FROM claims.set_profile('HANDLES', 'path', 'other', dry_run => false);
SELECT t.profile();
SELECT t.call($$SELECT * FROM claims.set_profile('HANDLES', 'exact', 'other', dry_run => false)$$);
SELECT t.call($$SELECT * FROM claims.set_profile('HANDLES', 'path', 'other', 'reject', false)$$);
SELECT t.profile();
SELECT claims.commit_update(1, t.u(9501));
SELECT count(*) FROM claims.set_profile('HANDLES', 'exact', 'other', dry_run => false);
SELECT t.profile(); SELECT * FROM t.stored();
SELECT count(*) FROM claims.check();
-- a rollback restores the profile and the names
BEGIN;
SELECT count(*) FROM claims.set_profile('HANDLES', 'casefold', 'other', dry_run => false);
SELECT bucket_value FROM claims.get_record('HANDLES', 'ADA');
ROLLBACK;
SELECT t.profile(); SELECT count(*) FROM claims.get_record('HANDLES', 'ADA');

-- between two pages of a list
SELECT claims.add_bucket_type(112, 'PAGED');
SELECT claims.commit_update(1, claims.begin_update(1, jsonb_agg(t.claim(v, 'PAGED', id))))
  FROM (VALUES ('A', 50), ('m', 50), ('Ａb', 50), ('x', 60)) AS n (v, id);
CREATE FUNCTION t.page(after text, whole boolean) RETURNS TABLE (names text, cursor text) LANGUAGE sql AS $$
    SELECT string_agg(bucket_value, ' ' ORDER BY n), (array_agg(cursor ORDER BY n DESC))[1]
      FROM claims.list_records(1, after => after, max_results => 2, bucket_types => '{PAGED}', whole_sources => whole) WITH ORDINALITY AS r
           (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, cell_id, status, lease_uuid, created_at,
            updated_at, cursor, display_value, n) $$;
SELECT names, cursor AS page FROM t.page(NULL, false) \gset by_name_
SELECT names, cursor AS page FROM t.page(NULL, true) \gset whole_
SELECT :'by_name_names', :'whole_names';
SELECT count(*) FROM claims.set_profile('PAGED', 'username', 'other names, in another order', dry_run => false);
-- a page by name leaves out one that comes before the cursor now; whole sources leave out none
SELECT names FROM t.page(:'by_name_page', false);
SELECT names FROM t.page(:'whole_page', true);
DROP FUNCTION t.page;

-- invalid arguments and callers are refused
SELECT t.call(format('SELECT * FROM claims.set_profile(%L, %L, %L, %L, %L)', type, profile, reason, confusables, dry))
  FROM (VALUES ('HANDLES', 'path', NULL, NULL, 'true'), ('HANDLES', 'path', '', NULL, 'true'), (NULL, 'path', 'r', NULL, 'true'),
    ('HANDLES', NULL, 'r', NULL, 'true'), ('HANDLES', 'paths', 'r', NULL, 'true'),
    ('HANDLES', 'path', 'r', 'perhaps', 'true'), ('HANDLES', 'path', 'r', NULL, NULL), ('NOTHING', 'path', 'r', NULL, 'true'))
    AS n (type, profile, reason, confusables, dry);
BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT t.call($$SELECT * FROM claims.set_profile('HANDLES', 'path', 'r', dry_run => false)$$); ROLLBACK;
BEGIN; SET LOCAL ROLE regress_claims_one; SELECT t.call($$SELECT * FROM claims.set_profile('HANDLES', 'path', 'r')$$); ROLLBACK;

-- a type that comes with the extension starts as exact, and changes like any other
SELECT string_agg(DISTINCT profile || ' ' || confusables, ', ') FROM claims.bucket_types WHERE id < 100;
SELECT claims.commit_update(1, claims.begin_update(1, t.names('EMAILS', 'Two@example.com')));
SELECT count(*) FROM claims.set_profile('EMAILS', 'email', 'as mail servers compare them', dry_run => false);
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.names('EMAILS', 'two@Example.com'));
SELECT bucket_value, display_value, cell_id FROM claims.get_record('EMAILS', 'TWO@example.com');
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, t.names('ROUTES', 'Two@example.com'));
SELECT count(*) FROM claims.check();
-- a row of a dump sets the profile, and its name becomes another name of the type
BEGIN;
INSERT INTO claims.bucket_types VALUES (5, 'EMAILS', 'casefold'), (6, 'DUMPED', 'exact');
SELECT id, name, aliases, profile FROM claims.list_types() WHERE kind = 'bucket' AND id IN (5, 6);
INSERT INTO claims.type_names (kind, name, id, first) VALUES ('bucket', 'DUMPED', 6, true), ('bucket', 'DUMPED_TOO', 6, true);
SELECT name, first, seeded FROM claims.type_names WHERE kind = 'bucket' AND id = 6 ORDER BY name;
ROLLBACK;
-- it can be changed back
SELECT count(*) FROM claims.set_profile('EMAILS', 'exact', 'bytes', dry_run => false);
SELECT profile FROM claims.bucket_types WHERE name = 'EMAILS';

-- cleans up
SELECT t.clean(); DELETE FROM claims.reservations; DELETE FROM claims.skeletons;
DELETE FROM claims.bucket_types WHERE id >= 100; DELETE FROM claims.type_names WHERE id >= 100;
DROP FUNCTION t.names, t.stored, t.profile;
