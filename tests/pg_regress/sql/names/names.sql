-- Names: every function accepts every spelling, and the canonical form is stored.
SELECT t.clean();
SELECT unicode FROM claims.version();

-- a bucket type has a profile
SELECT t.call($$SELECT claims.add_bucket_type(110, 'HANDLES', 'username')$$);
SELECT t.call($$SELECT claims.add_bucket_type(111, 'TITLES', profile => 'casefold')$$);
SELECT t.call($$SELECT claims.add_bucket_type(112, 'HOSTS', 'domain')$$);
SELECT t.call($$SELECT claims.add_bucket_type(113, 'MAILS', 'email')$$);
SELECT t.call($$SELECT claims.add_bucket_type(114, 'TREES', 'path')$$);
SELECT t.call($$SELECT claims.add_bucket_type(115, 'TOKENS')$$);
-- adding a type again is accepted, with another profile it is refused
SELECT t.call($$SELECT claims.add_bucket_type(110, 'HANDLES', 'username')$$);
SELECT t.call($$SELECT claims.add_bucket_type(110, 'HANDLES')$$);
SELECT t.call($$SELECT claims.add_bucket_type(1, 'ROUTES', 'path')$$);
SELECT t.call($$SELECT claims.add_bucket_type(116, 'X', 'Username')$$);
SELECT t.call($$SELECT claims.add_bucket_type(116, 'X', NULL)$$);
SELECT t.call($$SELECT claims.add_bucket_type(116, 'X', 'exact', 'maybe')$$);
SELECT t.call($$SELECT claims.add_bucket_type(116, 'X', 'exact', NULL)$$);
SELECT name, profile, confusables FROM claims.list_types() WHERE profile <> 'exact' OR id = 115;
-- the types of the extension have the profile exact, and subject and source types have none
SELECT DISTINCT profile, confusables FROM claims.list_types() WHERE kind = 'bucket' AND id < 100;
SELECT DISTINCT profile IS NULL AND confusables IS NULL FROM claims.list_types() WHERE kind <> 'bucket';

-- canonical() returns the canonical form without a claim
SELECT claims.canonical(type, name)
  FROM (VALUES ('HANDLES', 'Ada'), ('110', 'ＡＤＡ'), ('TITLES', 'Straße'), ('HOSTS', 'Bücher.Example.'), ('MAILS', 'Ada.L+x@Bücher.example'),
    ('TREES', 'Gitlab-Org/GitLab'), ('TOKENS', 'Ada '), ('ROUTES', 'Ada')) AS n (type, name);
SELECT t.call(format('SELECT claims.canonical(%L, %L)', type, name))
  FROM (VALUES ('HANDLES', 'ada lovelace'), ('HANDLES', U&'ad\0378'), ('TITLES', U&'ad\0378'), ('TREES', 'a//b'),
    ('HOSTS', '-a.com'), ('MAILS', 'ada'), ('HANDLES', ''), ('ROUTES', ''), ('HANDLES', repeat('a', 1025)), ('TITLES', repeat('ß', 1000)),
      ('NOTHING', 'a'), (NULL, 'a'), ('ROUTES', NULL)) AS n (type, name);
-- the profile exact accepts every character
SELECT claims.canonical('TOKENS', U&'ad\0378') = U&'ad\0378';

-- claim, look up and destroy a name in any spelling
BEGIN;
SELECT claims.begin_update(1, jsonb_build_array(t.claim('Ada', 'HANDLES', 1), t.claim('ada', 'ROUTES', 2), t.claim('bob', 'HANDLES', 3)),
      lease_uuid => t.u(9101)) = t.u(9101);
SELECT bucket_type, bucket_value, display_value, status FROM claims.get_record('HANDLES', 'ＡＤＡ');
SELECT bucket_value, display_value
  FROM claims.get_records('[{"type": "HANDLES", "value": "ADA"}, {"type": "HANDLES", "value": "Bob"}, {"type": "ROUTES", "value": "Ada"},
      {"type": "ROUTES", "value": "ada"}]');
SELECT bucket_value, display_value FROM claims.list_records(1);
SELECT bucket_value, display_value FROM claims.records ORDER BY bucket_type, bucket_value;
-- the payload has the canonical form and the given one
SELECT payload -> 'create_records' -> 0 -> 'bucket' FROM claims.list_leases(1);
-- a repeat in another spelling is the same request
SELECT t.call($$SELECT claims.begin_update(1,
        jsonb_build_array(t.claim('ADA', 'HANDLES', 1), t.claim('ada', 'ROUTES', 2), t.claim('Bob', 'HANDLES', 3)), lease_uuid => t.u(9101))$$);
SELECT t.call($$SELECT claims.begin_update(1,
        jsonb_build_array(t.claim('ADA', 'HANDLES', 1), t.claim('Ada', 'ROUTES', 2), t.claim('Bob', 'HANDLES', 3)), lease_uuid => t.u(9101))$$);
SELECT lease_uuid = t.u(9101) FROM claims.lease_details(bucket_type => 'HANDLES', bucket_value => 'ADA');
-- another spelling conflicts, and the conflict names the canonical form
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, jsonb_build_array(t.claim('aDa', 'HANDLES')));
SELECT claims.commit_update(1, t.u(9101));
SELECT t.call($$SELECT claims.begin_update(2, jsonb_build_array(t.claim('ADA', 'HANDLES')))$$);
SELECT t.mask(conflicts) FROM claims.try_begin_update(2, '[]', '[{"bucket": {"type": "HANDLES", "value": "ADA"}}]');
SELECT t.mask(conflicts) FROM claims.try_begin_update(1, '[]', '[{"bucket": {"type": "HANDLES", "value": "Carol"}}]');
SELECT t.mask(conflicts)
  FROM claims.try_begin_update(1, '[]', '[{"bucket": {"type": "HANDLES", "value": "ADA"}, "source": {"type": "RAILS_TABLE_ROUTES", "id": 7}}]');
SELECT count(*) FROM claims.check();
-- destroyed in another spelling and rolled back, the claim keeps its display_value
SELECT claims.begin_update(1, '[]', '[{"bucket": {"type": "HANDLES", "value": "aDA"}}]', t.u(9102)) = t.u(9102);
SELECT count(*) FROM claims.check();
SELECT claims.rollback_update(1, t.u(9102));
SELECT bucket_value, display_value, status FROM claims.get_record('HANDLES', 'ada');
SELECT claims.commit_update(1, claims.begin_update(1, '[]', '[{"bucket": {"type": "HANDLES", "value": "aDA"}}]'));
SELECT count(*) FROM claims.get_record('HANDLES', 'Ada');
ROLLBACK;

-- two spellings of one name in a batch are one bucket
SELECT t.call($$SELECT claims.begin_update(1, jsonb_build_array(t.claim('Ada', 'HANDLES', 1), t.claim('ada', 'HANDLES', 2)))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]',
        '[{"bucket": {"type": "HANDLES", "value": "Ada"}}, {"bucket": {"type": "HANDLES", "value": "ada"}}]')$$);
-- a name in both lists is replaced and gets the new display_value
BEGIN;
SELECT claims.commit_update(1,
      claims.begin_update(1, jsonb_build_array(t.claim('Ada', 'HANDLES', 1), t.claim('Bob', 'HANDLES', 2), t.claim('Same', 'TOKENS', 3))));
SELECT claims.begin_update(1, jsonb_build_array(t.claim('ADA', 'HANDLES', 11), t.claim('bob', 'HANDLES', 12), t.claim('Same', 'TOKENS', 13)),
    '[{"bucket": {"type": "HANDLES", "value": "aDA"}}, {"bucket": {"type": "HANDLES", "value": "BOB"}},
      {"bucket": {"type": "TOKENS", "value": "Same"}}]', t.u(9103)) = t.u(9103);
SELECT bucket_value, display_value, source_id, status FROM claims.list_records(1);
SELECT count(*) FROM claims.check();
SELECT claims.commit_update(1, t.u(9103));
SELECT bucket_value, display_value, source_id, status FROM claims.list_records(1);
-- a create in the canonical form has no display_value
SELECT claims.commit_update(1,
      claims.begin_update(1, jsonb_build_array(t.claim('ada', 'HANDLES', 21)), '[{"bucket": {"type": "HANDLES", "value": "aDA"}}]'));
SELECT bucket_value, display_value, source_id FROM claims.get_record('HANDLES', 'ada');
ROLLBACK;

-- names that the profile refuses are reported with their place
SELECT t.call($$SELECT claims.begin_update(1, jsonb_build_array(t.claim('ok', 'HANDLES'), t.claim('not ok', 'HANDLES')))$$);
SELECT t.call($$SELECT claims.begin_update(1, '[]', '[{"bucket": {"type": "TREES", "value": "a/../b"}}]')$$);
SELECT t.call($$SELECT * FROM claims.try_begin_update(1, jsonb_build_array(t.claim(repeat('ß', 1000), 'TITLES')))$$);
SELECT t.call($$SELECT * FROM claims.try_begin_update(1, jsonb_build_array(t.claim(repeat('a', 1025), 'TITLES')))$$);
-- the length of the canonical form counts, not that of the given one
SELECT t.call($$SELECT claims.rollback_update(1, claims.begin_update(1, jsonb_build_array(t.claim(repeat('Ａ', 1024), 'HANDLES'))))$$);
SELECT t.call($$SELECT claims.begin_update(1, jsonb_build_array(t.claim(repeat('Ａ', 1024), 'ROUTES')))$$);
SELECT t.call($$SELECT * FROM claims.get_record('TREES', 'a//b')$$);
SELECT t.call($$SELECT * FROM claims.get_records('[{"type": "TREES", "value": "a"}, {"type": "TREES", "value": "a//b"}]')$$);
-- a name that is too long for a claim is not found, without an error
SELECT count(*) FROM claims.get_record('HANDLES', repeat('a', 1025)) a, claims.get_record('HANDLES', '') b;
SELECT count(*) FROM claims.get_records(jsonb_build_array(jsonb_build_object('type', 'HANDLES', 'value', repeat('a', 1025)),
        jsonb_build_object('type', 'HANDLES', 'value', '')));

-- verify_records compares canonical forms
BEGIN;
SELECT claims.commit_update(1, claims.begin_update(1, jsonb_build_array(t.claim('Ada', 'HANDLES', 1), t.claim('Bob', 'HANDLES', 2))));
SELECT discrepancy, bucket_value, outcome
  FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, jsonb_build_array(t.claim('ADA', 'HANDLES', 1), t.claim('boB', 'HANDLES', 2)), '0');
SELECT discrepancy, bucket_value, outcome, expected -> 'bucket'
  FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL,
      jsonb_build_array(t.claim('ADA', 'HANDLES', 3), t.claim('Cy', 'HANDLES', 4)), '0', true);
SELECT bucket_value, display_value, source_id FROM claims.list_records(1);
SELECT t.call($$SELECT * FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL,
        jsonb_build_array(t.claim('Cy', 'HANDLES', 3), t.claim('cY', 'HANDLES', 4)), '0')$$);
ROLLBACK;

-- cells and routers may call canonical(); other roles may not
BEGIN; SET LOCAL ROLE regress_claims_router; SELECT claims.canonical('HANDLES', 'Ada'); ROLLBACK;
BEGIN; SET LOCAL ROLE regress_claims_one; SELECT claims.canonical('HANDLES', 'Ada'); ROLLBACK;
BEGIN; SET LOCAL ROLE regress_claims_nobody; SELECT t.call($$SELECT claims.canonical('HANDLES', 'Ada')$$); ROLLBACK;

-- require_naming refuses a cell whose profiles or Unicode version differ
SELECT t.call(format('SELECT claims.require_naming(%L, %L, %L)', version, types, profiles))
  FROM (SELECT unicode AS version FROM claims.version()) v, (VALUES ('{HANDLES,ROUTES}', '{username,exact}'),
    ('{HANDLES,ROUTES}', '{exact,exact}'), ('{ROUTES}', '{username}'), ('{HANDLES}', '{casefold}'), ('{NOTHING}', '{casefold}'),
      ('{HANDLES}', '{"of no version"}'), (NULL, '{}')) AS n (types, profiles);
SELECT t.call($$SELECT claims.require_naming('15.1.0', '{HANDLES}', '{username}')$$);
SELECT t.call($$SELECT claims.require_naming('15.1.0', '{ROUTES}', '{exact}')$$);
-- nor may it be called in a security-restricted operation
SELECT t.call($$CREATE MATERIALIZED VIEW t.restricted AS SELECT claims.require_naming('15.1.0', '{ROUTES}', '{exact}') IS NULL AS answer$$);

-- cleans up
DELETE FROM claims.bucket_types WHERE id >= 100; DELETE FROM claims.type_names WHERE id >= 100;
