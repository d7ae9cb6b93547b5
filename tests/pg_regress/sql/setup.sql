-- The extension, the cells with their roles, and the helpers that all other files use.
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_claims_one, regress_claims_two, regress_claims_router, regress_claims_nobody,
    regress_claims_admin;
RESET client_min_messages;

-- the extension, without any problem
CREATE EXTENSION claims;
SELECT extname, nspname, extrelocatable FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace
 WHERE extname = 'claims';
SELECT count(*) FROM claims.check();

-- the roles of cells, of a reader, of nobody in particular, and of an administrator
CREATE ROLE regress_claims_one;
CREATE ROLE regress_claims_two;
CREATE ROLE regress_claims_router;
CREATE ROLE regress_claims_nobody;
CREATE ROLE regress_claims_admin;
GRANT postgres TO regress_claims_admin;

-- the cells, and the right to read
SELECT claims.register_cell(1, 'regress_claims_one', 'Cell One', 'https://one.example');
SELECT claims.register_cell(2, 'regress_claims_two');
SELECT claims.grant_read('regress_claims_router');

-- the schema of the helpers
CREATE SCHEMA t;
GRANT USAGE ON SCHEMA t TO PUBLIC;

-- t.call() returns `ok` and the first row of a statement, or SQLSTATE, message, DETAIL and HINT. Ages vary, and are masked.
CREATE FUNCTION t.call(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    r record;
    state text; message text; detail text; hint text;
BEGIN
    BEGIN
        EXECUTE statement INTO r;
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
            detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
        RETURN NEXT state || ': ' || message;
        IF detail <> '' THEN
            RETURN NEXT '  DETAIL: ' || regexp_replace(detail, '("lease_age_seconds": ?)[0-9.e-]+', '\1<age>', 'g');
        END IF;
        IF hint <> '' THEN
            RETURN NEXT '  HINT: ' || hint;
        END IF;
        RETURN;
    END;
    RETURN NEXT CASE WHEN r IS NULL THEN 'ok' ELSE 'ok ' || r::text END;
END $$;

-- t.mask() masks the ages of conflicts.
CREATE FUNCTION t.mask(conflicts jsonb) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT regexp_replace(c::text, '("lease_age_seconds": ?)[0-9.e-]+', '\1<age>', 'g')
      FROM jsonb_array_elements(conflicts) c $$;

-- Batches: one claim, a list of creates, a list of destroys.
CREATE FUNCTION t.claim(value text, type text DEFAULT 'ROUTES', id bigint DEFAULT 1) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_build_object('bucket', jsonb_build_object('type', type, 'value', value),
        'subject', jsonb_build_object('type', 'GROUP', 'id', id),
        'source', jsonb_build_object('type', 'RAILS_TABLE_ROUTES', 'rails_primary_key_id', id)) $$;
CREATE FUNCTION t.creates(VARIADIC vals text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(t.claim(v) ORDER BY n) FROM unnest(vals) WITH ORDINALITY AS u(v, n) $$;
CREATE FUNCTION t.destroys(VARIADIC vals text[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', v)) ORDER BY n)
      FROM unnest(vals) WITH ORDINALITY AS u(v, n) $$;

-- Fixed lease uuids.
CREATE FUNCTION t.u(n int) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid $$;

-- The rows of the tables, whatever the caller's privileges.
CREATE FUNCTION t.state() RETURNS TABLE (claim text, cell bigint, status int, lease text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT bucket_type || ' ' || bucket_value, creator_id, status,
           CASE WHEN lease_uuid IS NULL THEN '-'
                WHEN lease_uuid::text LIKE '00000000-0000-4000-8000-%' THEN 'lease ' || ltrim(right(lease_uuid::text, 12), '0')
                ELSE 'some lease' END
      FROM claims.claims ORDER BY bucket_type, bucket_value COLLATE "C" $$;
CREATE FUNCTION t.leases() RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ SELECT count(*) FROM claims.claim_leases $$;

-- t.have() begins and commits claims in one transaction.
CREATE FUNCTION t.have(cell bigint, VARIADIC vals text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM claims.commit_update(cell, claims.begin_update(cell, t.creates(VARIADIC vals)));
END $$;

-- t.clean() deletes claims and leases; most files begin with it. Outcomes stay: files have lease numbers of their own.
CREATE FUNCTION t.clean() RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM claims.claims;
    DELETE FROM claims.claim_leases $$;

-- t.pending() lists the pending batch of the current transaction: + or -, bucket, subject, source.
CREATE FUNCTION t.pending() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT r.op || ' ' || (r.c #>> '{bucket,type}') || ' ' || (r.c #>> '{bucket,value}') || ' of ' || (r.c #>> '{subject,type}')
           || ' ' || coalesce(r.c #>> '{subject,id}', 'null') || ' in ' || (r.c #>> '{source,type}') || ' '
           || coalesce(r.c #>> '{source,rails_primary_key_id}', 'null')
      FROM claims.pending_batch() p,
           LATERAL (SELECT '+', e FROM jsonb_array_elements(p.create_records) e
                    UNION ALL SELECT '-', e FROM jsonb_array_elements(p.destroy_records) e) r (op, c) $$;
-- t.state_of() returns the SQLSTATE of a statement
CREATE FUNCTION t.state_of(statement text) RETURNS text LANGUAGE sql AS $$ SELECT left(c, 5) FROM t.call(statement) c LIMIT 1 $$;
-- t.after_change() makes a change, returns the rows of statements after it, and undoes all
CREATE FUNCTION t.after_change(change text, VARIADIC statements text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    statement text;
    line text;
BEGIN
    BEGIN
        EXECUTE change;
        FOREACH statement IN ARRAY statements LOOP
            FOR line IN EXECUTE statement LOOP RETURN NEXT line; END LOOP;
        END LOOP;
        RAISE EXCEPTION USING ERRCODE = 'PT001';
    EXCEPTION WHEN SQLSTATE 'PT001' THEN NULL;
    END;
END $$;
-- t.calls_after_change() is t.after_change() with t.call() of each statement
CREATE FUNCTION t.calls_after_change(change text, VARIADIC statements text[]) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT * FROM t.after_change(change, VARIADIC ARRAY(
        SELECT format('SELECT * FROM t.call(%L)', s.statement) FROM unnest(statements) WITH ORDINALITY AS s (statement, n) ORDER BY s.n)) $$;

-- t.take() returns the requests that process 1, 2, ... takes, in their order
CREATE FUNCTION t.take(queue text, process int, after bigint DEFAULT 0, hold interval DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(format('%s %s %s%s', id, request_type, entity, ' ' || payload::text), ', ')
      FROM claims.take_requests(queue, t.u(process), after, hold) $$;
CREATE FUNCTION t.requests(queue text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT concat_ws(' ', id, request_type, entity, status, 'attempts ' || attempts, 'process ' || ltrim(right(process_id::text, 12), '0'), error,
                     CASE WHEN (settled_at IS NOT NULL) <> (status IN ('complete', 'error'))
                     OR (hold_until IS NOT NULL) <> (status = 'in-progress') THEN 'STATE' END)
      FROM claims.requests r WHERE r.queue = $1 ORDER BY id $$;
-- t.work() takes and settles until nothing is left, one transaction after another
CREATE PROCEDURE t.work(queue text, process int) LANGUAGE plpgsql AS $$
DECLARE got text;
BEGIN
    FOR round IN 1..1000 LOOP
        got := t.take(queue, process);
        IF got IS NULL THEN RETURN; END IF;
        RAISE INFO '%', got;
        PERFORM claims.settle_requests(t.u(process));
        COMMIT;
    END LOOP;
    RAISE 'work without end';
END $$;
-- The cell's side: tracked leases and fences.
CREATE FUNCTION t.tracked() RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(string_agg(ltrim(right(uuid::text, 12), '0'), ' ' ORDER BY uuid), '-') FROM claims.cells_outstanding_leases $$;
CREATE FUNCTION t.fences() RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(string_agg(ltrim(right(lease_uuid::text, 12), '0'), ' ' ORDER BY lease_uuid), '-') FROM claims.lease_fences $$;
CREATE FUNCTION t.no_leases() RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM claims.cells_outstanding_leases; DELETE FROM claims.lease_fences $$;
CREATE FUNCTION t.listed(age interval, VARIADIC numbers int[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(jsonb_build_object('lease_uuid', t.u(n), 'created_at', clock_timestamp() - age) ORDER BY p)
      FROM unnest(numbers) WITH ORDINALITY AS u(n, p) $$;
CREATE FUNCTION t.verdicts(leases jsonb, stale_after interval DEFAULT '10 minutes') RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(ltrim(right(lease_uuid::text, 12), '0') || ' ' || verdict, ', ' ORDER BY n)
      FROM claims.judge_leases(leases, stale_after) WITH ORDINALITY AS j(lease_uuid, verdict, n) $$;
-- With debug_discard_caches = 1 the service answers later than a cell waits: sessions that begin after t.keep_caches_of_service()
-- keep their caches.
CREATE FUNCTION t.keep_caches_of_service() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    EXECUTE format('ALTER DATABASE %I SET debug_discard_caches = 0', current_database()); END $$;
