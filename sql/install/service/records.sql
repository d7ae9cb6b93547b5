-- The view records: claims with names instead of numbers.

-- Two branches, so that a condition on the cell finds its claims by an index in either.
CREATE OR REPLACE VIEW claims.records AS
    SELECT c.uuid, bt.name AS bucket_type, c.bucket_value, st.name AS subject_type, c.subject_id,
           so.name AS source_type, c.source_id, c.cell_id,
           CASE c.status WHEN 1 THEN 'ACTIVE' WHEN 2 THEN 'LEASE_CREATING' WHEN 3 THEN 'LEASE_DESTROYING' WHEN 4 THEN 'TRANSFERRING'
                         ELSE 'UNSPECIFIED' END AS status,
           c.lease_uuid, c.created_at, c.updated_at, cell.name AS cell_name, cell.address AS cell_address,
           c.display_value
      FROM (SELECT c.uuid, c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id, c.creator_id AS cell_id,
                   c.status, c.lease_uuid, c.created_at, c.updated_at, c.display_value
              FROM claims.claims c WHERE c.status <> 4 AND c.creator_id <> -1
            UNION ALL
            SELECT c.uuid, c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id, t.cell_id,
                   c.status, c.lease_uuid, c.created_at, c.updated_at, c.display_value
              FROM claims.cell_transfers t JOIN claims.claims c ON c.lease_uuid = t.transfer_uuid AND c.creator_id = t.from_cell
             WHERE c.status = 4) c
      LEFT JOIN claims.bucket_types bt ON bt.id = c.bucket_type
      LEFT JOIN claims.subject_types st ON st.id = c.subject_type
      LEFT JOIN claims.source_types so ON so.id = c.source_type
      LEFT JOIN claims.cells cell ON cell.cell_id = c.cell_id;
COMMENT ON VIEW claims.records IS 'claims.claims with names instead of numbers, and with the owning cell''s name and address.';
