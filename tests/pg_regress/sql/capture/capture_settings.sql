-- What is captured is the same under all settings of the session, and what the other ways say of the row.
SELECT t.clean();
CREATE SCHEMA fixed;
CREATE EXTENSION cube SCHEMA fixed;
CREATE FUNCTION t.names_in(records jsonb) RETURNS text[] LANGUAGE sql AS $$
    SELECT array_agg(name #>> '{}' ORDER BY name #>> '{}') FROM jsonb_path_query(records, '$[*].bucket.value') name $$;
-- t.under(statement) is what capture says of it under each set of settings, and how many different answers these are
CREATE FUNCTION t.under(statement text) RETURNS TABLE (answers bigint, captured text[], as_expected boolean) LANGUAGE plpgsql AS $$
DECLARE
    settings text[];
    answer jsonb;
    all_answers jsonb[] = '{}';
    agrees boolean = true;
BEGIN
    FOREACH settings SLICE 1 IN ARRAY ARRAY[
        ['ISO, YMD', 'postgres', 'UTC', '1', 'hex', 'C', 'off', 'base64', 'C'],
        ['SQL, DMY', 'sql_standard', 'Asia/Tokyo', '-10', 'escape', 'C.UTF-8', 'on', 'hex', 'C.UTF-8'],
        ['German, MDY', 'iso_8601', 'America/Lima', '0', 'escape', 'C', 'on', 'hex', 'C']]
    LOOP
        BEGIN
            PERFORM set_config(name, settings[n], true) FROM unnest('{DateStyle,IntervalStyle,TimeZone,extra_float_digits,bytea_output,lc_monetary,
                quote_all_identifiers,xmlbinary,lc_numeric}'::text[]) WITH ORDINALITY s (name, n);
            EXECUTE statement;
            SELECT create_records INTO answer FROM claims.pending_batch();
            agrees = agrees AND t.names_in(answer) = t.names_in(claims.expected_records('RAILS_TABLE_ROUTES'))
                AND (SELECT count(*) FROM unnest('{DateStyle,TimeZone,extra_float_digits}'::text[], settings[1:1] || settings[3:4]) s (name, was)
                      WHERE current_setting(name) <> was) = 0;
            all_answers = all_answers || answer;
            RAISE EXCEPTION USING ERRCODE = 'T0001';
        EXCEPTION WHEN SQLSTATE 'T0001' THEN NULL;
        END;
    END LOOP;
    RETURN QUERY SELECT count(DISTINCT coalesce(a::text, '')),
        (SELECT t.names_in(b) FROM unnest(all_answers) b ORDER BY b::text LIMIT 1), agrees FROM unnest(all_answers) a;
END $$;

-- a type whose output function is IMMUTABLE by its own word
CREATE TABLE fixed.shapes (id bigint PRIMARY KEY, at fixed.cube UNIQUE);
SELECT t.call($$SELECT claims.claim_attribute('fixed.shapes', 'at', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES')$$);
SELECT * FROM t.under($$INSERT INTO fixed.shapes VALUES (1, '(0.1234567890123456, 1)'), (2, '(0.1, 2e-300)')$$);
SELECT claims.unclaim_attribute('fixed.shapes', 'at');

-- conditions over types whose text depends on settings: the literals too, and those that are read again with the plan
CREATE TABLE fixed.things (id bigint PRIMARY KEY, path text UNIQUE, at timestamptz, born date, f float8, span interval, raw bytea, price money,
    kind regclass, shape fixed.cube);
CREATE FUNCTION t.holds(condition text) RETURNS TABLE (answers bigint, captured text[], as_expected boolean, stored text)
LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL client_min_messages = error;
    PERFORM claims.claim_attribute('fixed.things', 'path', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', condition => condition);
    RESET client_min_messages;
    RETURN QUERY SELECT u.*, c.condition FROM t.under($i$INSERT INTO fixed.things VALUES
        (1, 'a', '2026-02-01 23:00Z', '2026-02-01', 0.30000000000000004, '-1 day -2 hours', '\x00ff', 1.5::numeric::money,
        'fixed.things', '(0.1234567890123456)'),
        (2, 'b', '2026-01-02 01:00Z', '2026-01-02', 0.3, '1 day', 'b', 2::numeric::money, 'pg_class', '(0.1)')$i$) u,
        claims.claimed_columns c WHERE c.table_name = 'fixed.things'::regclass;
    PERFORM claims.unclaim_attribute('fixed.things', 'path');
END $$;
SELECT * FROM t.holds($$at::text LIKE '2026-02-01%'$$);
SELECT * FROM t.holds($$at::date = '2026-02-01'$$);
SELECT * FROM t.holds($$at > '2026-01-15'$$);
SELECT * FROM t.holds($$born::text = '2026-02-01'$$);
SELECT * FROM t.holds($$f::text = '0.30000000000000004'$$);
SELECT * FROM t.holds($$f = 0.30000000000000004$$);
SELECT * FROM t.holds($$span::text = '-1 days -02:00:00'$$);
SELECT * FROM t.holds($$span = '-1 day -2 hours'$$);
SELECT * FROM t.holds($$raw::text = '\x00ff'$$);
SELECT * FROM t.holds($$price::text = '$1.50'$$);
SELECT * FROM t.holds($$kind::text = 'fixed.things'$$);
SELECT * FROM t.holds($$shape::text = '(0.1234567890123456)'$$);
SELECT * FROM t.holds($$to_char(f, '0D0') = ' 0.3'$$);

-- a condition is stored as every session reads it, whatever the settings were
BEGIN;
SET LOCAL DateStyle = 'SQL, DMY'; SET LOCAL TimeZone = 'Asia/Tokyo'; SET LOCAL extra_float_digits = -10; SET LOCAL IntervalStyle = 'sql_standard';
SELECT stored FROM t.holds($$at > '01/02/2026 09:00'$$);
SELECT stored FROM t.holds($$f = 0.30000000000000004::float8$$);
SELECT stored FROM t.holds($$span = '-1 2:00:00'$$);
ROLLBACK;
-- the settings are restored after an error
CREATE FUNCTION fixed.fails(text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE 'no: %', current_setting('DateStyle'); END $$;
SELECT t.call($$SELECT claims.claim_attribute('fixed.things', 'path', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES',
    condition => 'fixed.fails(path)')$$);
SET DateStyle = 'SQL, DMY';
SELECT t.call($$INSERT INTO fixed.things (id, path) VALUES (3, 'c')$$);
SHOW DateStyle;
RESET DateStyle;

-- cleans up
SELECT t.clean();
DROP FUNCTION t.holds, t.under, t.names_in;
SET client_min_messages = error; DROP SCHEMA fixed CASCADE; RESET client_min_messages;
