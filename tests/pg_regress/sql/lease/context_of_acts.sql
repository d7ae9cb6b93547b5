-- claims.context of acts without a lease: it is the session that says it, in imports, corrections, releases, transfers and other profiles.
SELECT t.clean();
-- the first call of a session loads the library, which knows the settings
SELECT count(*) FROM claims.list_types() WHERE kind = 'none';
SET claims.change_feed = on; SET claims.audit = 'all';
SET claims.context = 'the admin';
SELECT count(*) FROM claims.import_records(1, t.creates('imported')::text);
SELECT DISTINCT outcome FROM claims.verify_records(1, 'RAILS_TABLE_ROUTES', NULL, NULL, t.creates('corrected'), '0 s', true) ORDER BY 1;
SELECT marked > 0 FROM claims.prepare_transfer(t.u(30), 1, 2, '[{"type": "GROUP", "ids": [1]}]', 'a test');
SELECT claims.switch_transfer(t.u(30), 'a test'), claims.reverse_transfer(t.u(30), 'a test');
SELECT released > 0 FROM claims.cancel_transfer(t.u(30), 'a test');
SELECT claims.release_records(1, 'a test') > 0;
SELECT DISTINCT what, context FROM claims.audit_log ORDER BY 1, 2;
SET claims.audit = 'off';
SELECT t.have(2, 'bulk'); SELECT claims.release_records(2, 'a test');
SELECT DISTINCT op, context FROM claims.changes WHERE lease_uuid IS NULL OR op = 'transfer' ORDER BY 1, 2;
SELECT claims.add_bucket_type(100, 'HANDLES');
SELECT t.clean();
SELECT claims.commit_update(1, claims.begin_update(1, jsonb_build_array(t.claim('Ada', 'HANDLES'))));
SELECT * FROM claims.set_profile('HANDLES', 'username', 'a test', dry_run => false);
SELECT op, bucket_value, context FROM claims.changes WHERE bucket_value ILIKE 'ada' ORDER BY id;
RESET claims.context;
