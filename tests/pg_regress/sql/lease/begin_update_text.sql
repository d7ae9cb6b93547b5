-- begin_update_text takes its lists as text, with the leases, errors and repeats of begin_update.
SELECT t.clean();
SELECT t.have(1, 'old', 'kept');
SET SESSION AUTHORIZATION regress_claims_one;
-- escapes, whitespace and other spellings of keys are read as begin_update reads them
SELECT claims.begin_update_text(1, '[{"bucket": {"type": "ROUTES", "value": "n\u00e9w \"\\\\\" \ud83e\udd80"}, "subject": {"type": "GROUP",
      "id": 9970}, "source": {"type": 3, "railsPrimaryKeyId": "7"}}]',
    ' [ { "source" : { "type":"RAILS_TABLE_ROUTES","id":1 },"bucket":{"value":"old","type":1} } ] ', t.u(1970), '77');
SELECT bucket_value, subject_type, subject_id, source_type, source_id, status FROM claims.get_record('ROUTES', 'néw "\\" 🦀');
SELECT bucket_value, status FROM claims.get_record('ROUTES', 'old');
RESET SESSION AUTHORIZATION;
SELECT payload, cell_xid FROM claims.claim_leases;
-- a call of begin_update repeats one of begin_update_text
SELECT claims.begin_update(1, (SELECT payload -> 'create_records' FROM claims.claim_leases),
      (SELECT payload -> 'destroy_records' FROM claims.claim_leases), t.u(1970), '77');
SELECT t.call($$SELECT claims.begin_update_text(1, '[]', '[{"bucket": {"type": 1, "value": "old"}}]', t.u(1970), '77')$$);
SELECT claims.commit_update(1, t.u(1970));
-- text that is no JSON, and JSON that is no list of records
CREATE FUNCTION t.refused(creates text, destroys text DEFAULT '[]') RETURNS text LANGUAGE sql AS $$
    SELECT t.call(format('SELECT claims.begin_update_text(1, %L, %L)', creates, destroys)) $$;
SELECT t.refused(text) FROM unnest(ARRAY['', ' ', '[', '[{]', '[1, ]', '{"a" 1}', '[] []', '["\u0000"]', '["\ud83e"]', '[01]', 'nul', '{}',
        'null', '"x"', '1', '[1]', '[null]', '[true]', '[[]]', '[{}]']) text;
SELECT t.refused('[]', '[{"bucket": 5}');
SELECT t.refused(NULL), t.refused('[]', NULL);
SELECT t.refused('[]');
SELECT t.refused('[{"bucket": {"type": 1, "value": "x"}, "subject": {"type": 2, "id": 1e3}, "source": {"type": 3, "id": 1}}]');
SELECT t.refused('[{"bucket": {"type": 1, "value": "x"}, "subject": {"type": 2, "id": 1}, "source": {"type": 3, "id": 1}, "other": {"deep": [1,
      {"er": []}]}}]');
SELECT t.refused('[{"bucket": {"type": 1, "value": "kept"}, "subject": {"type": 2, "id": 1}, "source": {"type": 3, "id": 1}}]');
SELECT t.refused('[{"bucket": {"type": 1, "value": "x"}, "subject": {"type": 2, "id": 1}, "source": {"type": 3, "id": 1}},
      {"bucket": {"type": 1, "value": "x"}, "subject": {"type": 2, "id": 1}, "source": {"type": 3, "id": 1}}]');
SELECT t.refused('[' || repeat('[', 100000));
-- a batch above max_batch_size is refused before its records are read
SET claims.max_batch_size = 2;
SELECT t.refused('[1, 2, {"three": "and ]}, \"[{"}]');
RESET claims.max_batch_size;
-- only the cell's role may call begin_update_text
SET SESSION AUTHORIZATION regress_claims_two;
SELECT t.refused('[{"bucket": {"type": 1, "value": "x"}, "subject": {"type": 2, "id": 1}, "source": {"type": 3, "id": 1}}]');
RESET SESSION AUTHORIZATION;
DROP FUNCTION t.refused;
SELECT t.clean();
SELECT count(*) FROM claims.check();
