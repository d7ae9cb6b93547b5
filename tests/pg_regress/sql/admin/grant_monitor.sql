-- Roles that monitor: what they can read, and how it is revoked.
SELECT t.clean();
-- pg_temp.rights() lists what a role may do that PUBLIC may not
CREATE FUNCTION pg_temp.rights(name) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(', ', CASE WHEN has_schema_privilege($1, 'claims', 'USAGE') THEN 'schema' END,
        (SELECT string_agg(p.proname, ', ' ORDER BY p.proname) FROM pg_proc p
          WHERE p.pronamespace = 'claims'::regnamespace AND has_function_privilege($1, p.oid, 'EXECUTE') AND p.proname <> 'canonical_form'),
        (SELECT string_agg(c.relname, ', ' ORDER BY c.relname) FROM pg_class c
            WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind IN ('r', 'v') AND has_table_privilege($1, c.oid, 'SELECT'))) $$;
BEGIN;
-- a monitoring role: its privileges, and what check() and the views show it
CREATE ROLE regress_claims_watch;
SELECT claims.grant_monitor('regress_claims_watch');
SELECT pg_temp.rights('regress_claims_watch');
SELECT claims.set_quarantine('ROUTES', '1 day', 'a test');
SELECT t.have(1, 'secret-kept', 'secret-odd'), claims.commit_update(1, claims.begin_update(1, '[]', t.destroys('secret-kept', 'secret-odd')));
UPDATE claims.claims SET given_up_by = NULL, available_at = '2100-01-01' WHERE bucket_value = 'secret-odd';
SET LOCAL claims.context = 'a secret of user 42';
SELECT claims.begin_update(1, t.creates('secret-a', 'secret-b'), lease_uuid => t.u(881501), cell_xid => '7');
UPDATE claims.claims SET subject_id = 'other' WHERE bucket_value = 'secret-a';
DELETE FROM claims.claims WHERE bucket_value = 'secret-b';
INSERT INTO claims.claim_leases (uuid, creator_id, payload) VALUES (t.u(881502), 1, '{"secret": 1}');
SELECT problem, bucket_type, bucket_value, detail FROM claims.check() ORDER BY problem COLLATE "C";
SET LOCAL SESSION AUTHORIZATION regress_claims_watch;
SELECT problem, bucket_type, bucket_value, detail FROM claims.check() ORDER BY problem COLLATE "C";
SELECT lease_uuid, cell_id, cell_name, age < '1 h' AS young, creates, destroys, cell_xid FROM claims.leases ORDER BY lease_uuid;
SELECT extension ~ '^[0-9]+[.][0-9]+[.][0-9]+$' AS is_version, protocol, library = extension FROM claims.version();
-- nothing that a monitoring role can read or call without arguments contains a name or a payload
CREATE FUNCTION pg_temp.tells() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE source text; told bigint;
BEGIN
    FOR source IN SELECT c.oid::regclass::text FROM pg_class c
      WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind IN ('r', 'v') AND has_table_privilege(c.oid, 'SELECT')
        UNION ALL SELECT p.oid::regproc || '()' FROM pg_proc p
          WHERE p.pronamespace = 'claims'::regnamespace AND p.pronargs = p.pronargdefaults AND has_function_privilege(p.oid, 'EXECUTE')
        ORDER BY 1
    LOOP
        EXECUTE format('SELECT count(*) FROM %s AS source WHERE source::text ILIKE ''%%secret%%''', source) INTO told;
        RETURN NEXT source || ' ' || told;
    END LOOP;
END $$;
SELECT pg_temp.tells();
SELECT t.call($$SELECT * FROM claims.claim_leases$$);
SELECT t.call($$SELECT * FROM claims.list_leases(1)$$);
SELECT t.call($$SELECT * FROM claims.get_record('ROUTES', 'secret-a')$$);
SELECT t.state_of(statement) FROM unnest(ARRAY[$$SELECT * FROM claims.quarantined_names$$, $$SELECT * FROM claims.subject_history('GROUP', '1')$$,
    $$SELECT * FROM claims.lease_details(t.u(881501))$$, $$SELECT * FROM claims.name_holders('ROUTES', '{secret-kept}')$$,
    $$SELECT claims.release_quarantine('ROUTES', '{secret-kept}', 'x')$$, $$SELECT claims.purge_quarantine()$$]) statement;
SELECT labels, value FROM claims.metrics() WHERE name = 'claims_quarantined_names';
RESET SESSION AUTHORIZATION;
SELECT claims.revoke_monitor('regress_claims_watch');
SELECT pg_temp.rights('regress_claims_watch');
-- revoking one kind of privileges leaves those of another kind
SELECT claims.grant_read('regress_claims_watch'), claims.grant_worker('regress_claims_watch'), claims.grant_monitor('regress_claims_watch');
SELECT claims.revoke_worker('regress_claims_watch');
SELECT pg_temp.rights('regress_claims_watch');
SELECT claims.revoke_read('regress_claims_watch');
SELECT pg_temp.rights('regress_claims_watch');
SELECT claims.revoke_monitor('regress_claims_watch');
SELECT pg_temp.rights('regress_claims_watch');
-- refresh_grants() restores privileges that were revoked by hand
SELECT claims.grant_monitor('regress_claims_watch');
REVOKE EXECUTE ON FUNCTION claims.check(), claims.version() FROM regress_claims_watch;
SELECT claims.refresh_grants();
SELECT pg_temp.rights('regress_claims_watch');
SELECT claims.revoke_monitor('regress_claims_watch');
-- revoking twice does nothing
SELECT claims.revoke_read('regress_claims_watch'), claims.revoke_worker('regress_claims_watch'), claims.revoke_monitor('regress_claims_watch');
-- a cell keeps the privileges of cells
SELECT claims.register_cell(3, 'regress_claims_watch'), claims.grant_read('regress_claims_watch');
SELECT claims.revoke_read('regress_claims_watch');
SELECT has_function_privilege('regress_claims_watch', 'claims.get_record(text, text)', 'EXECUTE'),
    has_table_privilege('regress_claims_watch', 'claims.records', 'SELECT');
-- the owner keeps its own privileges
SELECT claims.revoke_read(r), claims.revoke_worker(r), claims.revoke_monitor(r) FROM CAST('postgres' AS name) r;
SELECT bool_and(EXISTS (SELECT FROM aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a
        WHERE a.grantee = c.relowner AND a.privilege_type = 'SELECT'))
  FROM pg_class c WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind IN ('r', 'v');
ROLLBACK;
SELECT t.call($$SELECT claims.grant_monitor(NULL)$$);
SELECT t.call($$SELECT claims.revoke_monitor('regress_claims_no_such_role')$$);
SET SESSION AUTHORIZATION regress_claims_one;
SELECT t.call($$SELECT claims.grant_monitor('regress_claims_one')$$);
SELECT t.call($$SELECT * FROM claims.check()$$);
SELECT protocol FROM claims.version();
RESET SESSION AUTHORIZATION;

-- further problems that check() finds
BEGIN;
SELECT claims.register_cell(3, 'regress_claims_nobody');
SELECT t.have(3, 'a', 'b');
SELECT claims.begin_update(3, t.creates('c'), lease_uuid => t.u(881503));
DELETE FROM claims.cells WHERE cell_id = 3;
SELECT problem, lease_uuid, detail FROM claims.check() ORDER BY problem COLLATE "C";
ROLLBACK;
BEGIN;
SELECT t.have(1, 'a', 'b');
SELECT claims.begin_update(1, t.creates('c'), lease_uuid => t.u(881504));
UPDATE claims.claims SET updated_at = clock_timestamp() + interval '50 s' WHERE bucket_value = 'a';
UPDATE claims.claim_leases SET created_at = clock_timestamp() + interval '50 s';
SELECT count(*) FROM claims.check();
UPDATE claims.claims SET updated_at = clock_timestamp() + interval '2 min' WHERE bucket_value = 'a';
UPDATE claims.claim_leases SET created_at = clock_timestamp() + interval '2 min';
UPDATE claims.lease_outcomes SET settled_at = clock_timestamp() + interval '2 min'
  WHERE lease_uuid IN (SELECT lease_uuid FROM claims.lease_outcomes LIMIT 1);
SELECT problem, bucket_value FROM claims.check() ORDER BY problem COLLATE "C";
ROLLBACK;
