-- The lease protocol done literally: what one writes from a description of it, in plpgsql, with the keys and indexes that
-- first come to mind. It makes none of the extension's further promises: it does not check the form of a request, does not
-- classify conflicts, may wait for other transactions, keeps no outcomes, and cannot be repeated. Types come as numbers.
CREATE SCHEMA literal;
GRANT USAGE ON SCHEMA literal TO PUBLIC;

CREATE TABLE literal.claim_leases (
  uuid       uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  creator_id bigint NOT NULL,
  payload    jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE literal.claims (
  uuid         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  bucket_type  int NOT NULL,
  bucket_value text COLLATE "C" NOT NULL,
  subject_type int NOT NULL,
  subject_id   text NOT NULL,
  source_type  int NOT NULL,
  source_id    text NOT NULL,
  creator_id   bigint NOT NULL,
  lease_uuid   uuid REFERENCES literal.claim_leases,
  status       smallint NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT now(),
  updated_at   timestamptz NOT NULL DEFAULT now(),
  UNIQUE (bucket_type, bucket_value)
);
CREATE INDEX ON literal.claims (lease_uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON literal.claim_leases, literal.claims TO PUBLIC;

CREATE FUNCTION literal.begin_update(cell_id bigint, create_records jsonb DEFAULT '[]', destroy_records jsonb DEFAULT '[]')
RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
  lease uuid;
  found_rows bigint;
BEGIN
  INSERT INTO literal.claim_leases (creator_id, payload)
  VALUES (cell_id, jsonb_build_object('create_records', create_records, 'destroy_records', destroy_records))
  RETURNING uuid INTO lease;

  IF create_records <> '[]' THEN
    -- A bucket that is taken ends the batch with 23505.
    INSERT INTO literal.claims
      (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, lease_uuid, status)
    SELECT (r -> 'bucket' ->> 'type')::int, r -> 'bucket' ->> 'value',
           (r -> 'subject' ->> 'type')::int, r -> 'subject' ->> 'id',
           (r -> 'source' ->> 'type')::int, r -> 'source' ->> 'rails_primary_key_id', cell_id, lease, 2
      FROM jsonb_array_elements(create_records) r;
  END IF;

  IF destroy_records <> '[]' THEN
    UPDATE literal.claims c SET lease_uuid = lease, status = 3, updated_at = now()
      FROM jsonb_array_elements(destroy_records) r
     WHERE c.bucket_type = (r -> 'bucket' ->> 'type')::int AND c.bucket_value = r -> 'bucket' ->> 'value'
       AND c.creator_id = cell_id AND c.status = 1
       AND (r -> 'subject' IS NULL OR (c.subject_type = (r -> 'subject' ->> 'type')::int AND c.subject_id = r -> 'subject' ->> 'id'))
       AND (r -> 'source' IS NULL
            OR (c.source_type = (r -> 'source' ->> 'type')::int AND c.source_id = r -> 'source' ->> 'rails_primary_key_id'));
    GET DIAGNOSTICS found_rows = ROW_COUNT;
    IF found_rows <> jsonb_array_length(destroy_records) THEN
      RAISE EXCEPTION 'not all claims can be destroyed' USING ERRCODE = '55P03';
    END IF;
  END IF;
  RETURN lease;
END $$;

CREATE FUNCTION literal.commit_update(cell_id bigint, lease uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM literal.claims WHERE lease_uuid = lease AND status = 3;
  UPDATE literal.claims SET lease_uuid = NULL, status = 1, updated_at = now() WHERE lease_uuid = lease;
  DELETE FROM literal.claim_leases WHERE uuid = lease AND creator_id = cell_id;
  RETURN FOUND;
END $$;
