-- A stored payload has the bytes of the jsonb that PostgreSQL makes of its text, for any number of records; numbers of any size are read.
CREATE EXTENSION IF NOT EXISTS pageinspect;
SELECT t.clean();
-- t.stored() compares a stored payload with the one that PostgreSQL makes of its text: by bytes, by length, and by the place of each record
CREATE TEMP TABLE made (payload jsonb, again jsonb);
ALTER TABLE made ALTER payload SET STORAGE EXTERNAL, ALTER again SET STORAGE EXTERNAL;
CREATE FUNCTION t.value_of(n int) RETURNS text LANGUAGE sql AS $$ SELECT n || repeat('é', n % 37) || repeat('x', n % 5) $$;
CREATE FUNCTION t.stored(creates jsonb, destroys jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE lease uuid := claims.begin_update(1, creates, destroys); answer text;
BEGIN
    TRUNCATE made;
    INSERT INTO made SELECT payload #> '{}', payload::text::jsonb FROM claims.claim_leases WHERE uuid = lease;
    SELECT concat_ws(', ', (SELECT CASE WHEN i.t_attrs[1] = i.t_attrs[2] THEN 'the same' ELSE 'another' END
                              FROM heap_page_item_attrs(get_raw_page('made', 0), 'made', true) i),
               CASE WHEN pg_column_size(m.payload) = pg_column_size(m.again) THEN 'as long' ELSE 'of another length' END,
               (SELECT count(*) || ' by place' FROM generate_series(0, jsonb_array_length(creates) - 1) i
                 WHERE m.payload -> 'create_records' -> i -> 'bucket' ->> 'value' = creates -> i -> 'bucket' ->> 'value'
                   AND m.payload #> ARRAY['create_records', i::text] = m.again #> ARRAY['create_records', i::text]),
               (SELECT count(*) || ' by place' FROM generate_series(0, jsonb_array_length(destroys) - 1) i
                 WHERE m.payload -> 'destroy_records' -> i = m.again -> 'destroy_records' -> i))
      INTO answer FROM made m;
    PERFORM claims.rollback_update(1, lease);
    RETURN answer;
END $$;
CREATE FUNCTION t.many(count int) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', t.value_of(n)),
                         'subject', jsonb_build_object('type', 'GROUP', 'id', n * (10 ^ (n % 15))::bigint), 'source',
                           jsonb_build_object('type', 3, 'id', t.value_of(n))) ORDER BY n)
      FROM generate_series(1, count) n $$;
SELECT n, t.stored(t.many(n), '[]') FROM unnest('{1,2,31,32,33,34,63,64,65,97,2000}'::int[]) n;
-- destroys with and without subject and source
SELECT claims.commit_update(1, claims.begin_update(1, t.many(100)));
SELECT n, t.stored('[]',
      (SELECT jsonb_agg(CASE i % 4 WHEN 0 THEN r - 'subject' WHEN 1 THEN r - 'source' WHEN 2 THEN r - 'subject' - 'source' ELSE r END ORDER BY i)
                            FROM jsonb_array_elements(t.many(n)) WITH ORDINALITY AS e (r, i))) FROM unnest('{1,2,33,100}'::int[]) n;
SELECT t.stored((SELECT jsonb_agg(jsonb_set(r, '{source,id}', '"other"')) FROM jsonb_array_elements(t.many(40)) r), t.many(50));
-- names that were given in other forms
BEGIN;
SELECT claims.add_bucket_type(1960, 'LABELS', 'casefold');
SELECT t.stored((SELECT jsonb_agg(jsonb_set(r, '{bucket}',
          jsonb_build_object('type', 'LABELS', 'value', i || CASE WHEN i % 2 = 0 THEN 'Ä' ELSE 'ä' END)) ORDER BY i)
                   FROM jsonb_array_elements(t.many(70)) WITH ORDINALITY AS e (r, i)), '[]');
ROLLBACK;
-- numbers are read as jsonb prints them
CREATE FUNCTION t.numbers(VARIADIC numbers text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE number text; lease uuid;
BEGIN
    FOREACH number IN ARRAY numbers LOOP
        BEGIN
            lease := claims.begin_update(1,
              format('[{"bucket": {"type": 1, "value": "number"}, "subject": {"type": 2, "id": %s}, "source": {"type": 3, "id": %1$s}}]',
                number)::jsonb);
            RETURN NEXT (SELECT format('%s: %s, %s', number, subject_id, source_id) FROM claims.get_record('ROUTES', 'number'));
            PERFORM claims.rollback_update(1, lease);
        EXCEPTION WHEN invalid_parameter_value THEN
            RETURN NEXT format('%s: %s', number, SQLERRM);
        END;
    END LOOP;
END $$;
SELECT t.numbers('0', '-0', '1', '-1', '9999', '10000', '10001', '-10000', '99990000', '100000000', '1e3', '12e7', '1234567890123456',
      '9999999999999999', '-9999999999999999',
                 '10000000000000000', '12345678901234567', '9223372036854775807', '-9223372036854775808', '9223372036854775808', '1.0',
                   '1.5', '0.0001', '-0.5', '1e20', '1e-3', '1e400');
SELECT t.clean();
-- fields of a stored payload that are not read may hold anything
SELECT claims.begin_update(1, t.many(3), '[]', t.u(1961));
UPDATE claims.claim_leases SET payload = jsonb_set(payload, '{create_records,1,subject}',
      '{"deep": [[1, {"er": [null, true, false, -1.5, "x", {}, []]}], {"a": {}}]}') WHERE uuid = t.u(1961);
UPDATE claims.claim_leases SET payload = jsonb_set(payload, '{create_records,2,source}', 'false') WHERE uuid = t.u(1961);
SELECT claims.commit_update(1, t.u(1961));
SELECT bucket_value, status FROM claims.get_records(jsonb_build_array('{"type": 1, "value": "1éx"}'::jsonb,
        '{"type": 1, "value": "2ééxx"}'::jsonb, '{"type": 1, "value": "3éééxxx"}'::jsonb));
DROP FUNCTION t.stored, t.many, t.value_of, t.numbers;
SELECT t.clean();
SELECT count(*) FROM claims.check();
