-- Claims as people read them.

CREATE OR REPLACE VIEW claims.records AS
    SELECT c.uuid, bt.name AS bucket_type, c.bucket_value, st.name AS subject_type, c.subject_id,
           so.name AS source_type, c.source_id, c.creator_id AS cell_id,
           CASE c.status WHEN 1 THEN 'ACTIVE' WHEN 2 THEN 'LEASE_CREATING' WHEN 3 THEN 'LEASE_DESTROYING'
                         ELSE 'UNSPECIFIED' END AS status,
           c.lease_uuid, c.created_at, c.updated_at, cell.name AS cell_name, cell.address AS cell_address,
           c.display_value
      FROM claims.claims c
      LEFT JOIN claims.bucket_types bt ON bt.id = c.bucket_type
      LEFT JOIN claims.subject_types st ON st.id = c.subject_type
      LEFT JOIN claims.source_types so ON so.id = c.source_type
      LEFT JOIN claims.cells cell ON cell.cell_id = c.creator_id
     WHERE c.creator_id <> -1;
COMMENT ON VIEW claims.records IS 'claims.claims with names instead of numbers, and with the owning cell''s name and address.';
