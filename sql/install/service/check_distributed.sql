-- check() for distributed tables.

-- The queries of claims.find_problems(), without those that do not apply. Citus joins rows of different nodes only after it has
-- fetched them, so each query of a distributed table is a WITH query of its own.
CREATE OR REPLACE FUNCTION claims.find_distributed_problems() RETURNS TABLE (problem text, lease_uuid uuid, bucket_type text, bucket_value text, detail text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off
    -- A hash join is right for any number of leases, whatever the statistics say, as in claims.find_problems().
    SET enable_nestloop = off SET enable_mergejoin = off SET enable_hashjoin = on SET enable_seqscan = on
AS $$
#variable_conflict use_column
DECLARE
    cell_ids bigint[];
    roles text[];
BEGIN
    -- EXECUTE plans it anew each time: Citus accepts no generic plan.
    RETURN QUERY EXECUTE $query$
    WITH types AS MATERIALIZED (
        SELECT n.kind, n.name, n.id, coalesce(b.name, s.name, o.name) AS shown
          FROM (SELECT n.kind, n.name, n.id FROM claims.type_names n
                UNION SELECT 'bucket', y.name, y.id FROM claims.bucket_types y
                UNION SELECT 'subject', y.name, y.id FROM claims.subject_types y
                UNION SELECT 'source', y.name, y.id FROM claims.source_types y) n
          LEFT JOIN claims.bucket_types b ON n.kind = 'bucket' AND b.id = n.id
          LEFT JOIN claims.subject_types s ON n.kind = 'subject' AND s.id = n.id
          LEFT JOIN claims.source_types o ON n.kind = 'source' AND o.id = n.id
    ), cells AS MATERIALIZED (
        SELECT c.cell_id FROM claims.cells c
    ), leases AS MATERIALIZED (
        SELECT l.uuid, l.creator_id, l.payload, l.created_at, l.updated_at, o.outcome
          FROM claims.claim_leases l LEFT JOIN claims.lease_outcomes o ON o.lease_uuid = l.uuid
    ), late_outcomes AS MATERIALIZED (
        SELECT o.lease_uuid, o.settled_at FROM claims.lease_outcomes o WHERE o.settled_at > $1
    ), named AS MATERIALIZED (
        SELECT l.uuid AS lease_uuid, part.status, t.id AS bucket_type,
               coalesce(t.shown, r.record #>> '{bucket,type}') AS type_name, r.record #>> '{bucket,value}' AS bucket_value,
               coalesce(s.shown, r.record #>> '{subject,type}') || ' ' || (r.record #>> '{subject,id}') AS subject,
               coalesce(o.shown, r.record #>> '{source,type}') || ' ' || (r.record #>> '{source,rails_primary_key_id}') AS source,
               row_number() OVER (PARTITION BY l.uuid, part.status, coalesce(t.shown, r.record #>> '{bucket,type}'),
                   r.record #>> '{bucket,value}') AS nth,
               max(part.status) OVER (PARTITION BY l.uuid, coalesce(t.shown, r.record #>> '{bucket,type}'), r.record #>> '{bucket,value}')
                   AS last_status
          FROM leases l
         CROSS JOIN (VALUES ('create_records', 2::smallint), ('destroy_records', 3::smallint)) AS part (list, status)
         CROSS JOIN LATERAL jsonb_array_elements(
                        CASE jsonb_typeof(l.payload -> part.list) WHEN 'array' THEN l.payload -> part.list ELSE '[]' END) AS r (record)
          LEFT JOIN types t ON t.kind = 'bucket' AND t.name = r.record #>> '{bucket,type}'
          LEFT JOIN types s ON s.kind = 'subject' AND s.name = r.record #>> '{subject,type}'
          LEFT JOIN types o ON o.kind = 'source' AND o.name = r.record #>> '{source,type}'
    ), held AS MATERIALIZED (
        SELECT * FROM named n WHERE n.status = n.last_status
    ), leased AS MATERIALIZED (
        SELECT c.bucket_type, c.bucket_value, c.lease_uuid, c.status, c.creator_id, c.created_at, c.updated_at, c.given_up_by, c.available_at,
               coalesce(t.name, c.bucket_type::text) AS type_name,
               coalesce(s.name, c.subject_type::text) || ' ' || c.subject_id AS subject,
               coalesce(o.name, c.source_type::text) || ' ' || c.source_id AS source
          FROM claims.claims c LEFT JOIN claims.bucket_types t ON t.id = c.bucket_type
          LEFT JOIN claims.subject_types s ON s.id = c.subject_type LEFT JOIN claims.source_types o ON o.id = c.source_type
         WHERE (c.lease_uuid IS NOT NULL OR c.status <> 1 OR c.created_at > $1 OR c.updated_at > $1)
           -- Names that are kept back in order: there may be a million.
           AND NOT (c.status = 5 AND c.lease_uuid IS NULL AND c.creator_id = -1 AND c.given_up_by IS NOT NULL AND c.available_at IS NOT NULL
                    AND c.created_at <= $1 AND c.updated_at <= $1)
           -- A transfer may hold a million claims: those that are in order are only counted, below.
           AND NOT (c.status = 4 AND c.created_at <= $1 AND c.updated_at <= $1
                    AND EXISTS (SELECT FROM claims.cell_transfers x
                                 WHERE x.transfer_uuid = c.lease_uuid AND x.from_cell = c.creator_id AND x.ended_at IS NULL))
    ), transfers AS MATERIALIZED (
        SELECT * FROM claims.cell_transfers x
    ), held_by_transfers AS MATERIALIZED (
        SELECT c.creator_id, c.lease_uuid, count(*) AS found FROM claims.claims c WHERE c.status = 4 GROUP BY c.creator_id, c.lease_uuid
    ), standing AS MATERIALIZED (
        SELECT c.bucket_type, c.bucket_value, c.status, c.lease_uuid
          FROM claims.claims c JOIN (SELECT DISTINCT h.bucket_type, h.bucket_value FROM held h) h
            ON c.bucket_value = h.bucket_value AND c.bucket_type = h.bucket_type
    ), owners AS MATERIALIZED (
        SELECT c.creator_id, count(*) AS claims FROM claims.claims c GROUP BY c.creator_id
    ), reserved AS MATERIALIZED (
        SELECT r.bucket_type, r.bucket_value, c.uuid IS NOT NULL AS is_held
          FROM claims.reservations r
          LEFT JOIN claims.claims c ON c.bucket_value = r.bucket_value AND c.bucket_type = r.bucket_type AND c.creator_id = -1
           AND c.status = 1
    ), kept AS MATERIALIZED (
        SELECT t.name AS type_name, t.confusables, c.bucket_type, c.bucket_value, c.status, c.available_at
          FROM claims.claims c JOIN claims.bucket_types t ON c.bucket_type = t.id WHERE c.creator_id = -1 AND c.status IN (5, 6)
    ), nobodys AS MATERIALIZED (
        SELECT c.bucket_type, c.bucket_value, c.uuid, r.bucket_value IS NOT NULL AS is_reserved
          FROM claims.claims c
          LEFT JOIN claims.reservations r ON r.bucket_value = c.bucket_value AND r.bucket_type = c.bucket_type
         WHERE c.creator_id = -1 AND c.status NOT IN (5, 6)
    ), alike AS MATERIALIZED (
        SELECT t.name AS type_name, c.bucket_type, c.bucket_value
          FROM claims.claims c JOIN claims.bucket_types t ON c.bucket_type = t.id
         WHERE t.confusables = 'reject' AND c.creator_id <> -1
    ), alike_reserved AS MATERIALIZED (
        SELECT t.name AS type_name, r.bucket_type, r.bucket_value
          FROM claims.reservations r JOIN claims.bucket_types t ON r.bucket_type = t.id
         WHERE t.confusables = 'reject'
    ), looks AS MATERIALIZED (
        SELECT s.bucket_type, s.bucket_value, s.successor, s.reserved FROM claims.skeletons s
    )
    SELECT p.problem, c.lease_uuid, c.type_name, c.bucket_value, p.detail
      FROM leased c
      LEFT JOIN leases l ON l.uuid = c.lease_uuid
      LEFT JOIN held h ON h.lease_uuid = c.lease_uuid AND h.bucket_type = c.bucket_type AND h.bucket_value = c.bucket_value AND h.nth = 1
     CROSS JOIN LATERAL (
         SELECT 'status and lease do not agree', format('Status is %s, lease is %s.', c.status, coalesce(c.lease_uuid::text, 'null'))
          WHERE (c.lease_uuid IS NULL) <> (c.status IN (1, 5))
         UNION ALL
         SELECT 'name is kept back for nobody, or without end',
                format('Its owner is %s; cell %s gave it up, and it is kept back until %s.', c.creator_id, coalesce(c.given_up_by::text, 'null'),
                       coalesce(c.available_at::text, 'null'))
          WHERE c.status IN (5, 6) AND (c.creator_id <> -1 OR c.given_up_by IS NULL OR c.available_at IS NULL)
             OR c.status NOT IN (5, 6) AND num_nonnulls(c.given_up_by, c.available_at) > 0
         UNION ALL
         SELECT 'claim is held by no outstanding lease of its cell',
                CASE WHEN l.uuid IS NULL THEN 'There is no such lease.'
                     ELSE format('The claim is cell %s''s, the lease cell %s''s.', c.creator_id, l.creator_id) END
          WHERE c.lease_uuid IS NOT NULL AND c.status <> 4
            -- A name that a lease reclaims is nobody's until it commits.
            AND (l.uuid IS NULL OR c.status <> 6 AND l.creator_id IS DISTINCT FROM c.creator_id)
         UNION ALL
         SELECT 'claim is held by no open transfer from its cell', format('The claim is cell %s''s.', c.creator_id)
          WHERE c.status = 4 AND c.lease_uuid IS NOT NULL
            AND NOT EXISTS (SELECT FROM transfers t
                             WHERE t.transfer_uuid = c.lease_uuid AND t.from_cell = c.creator_id AND t.ended_at IS NULL)
         UNION ALL
         SELECT 'claim is not in the payload of its lease', format('Status is %s.', c.status)
          WHERE l.uuid IS NOT NULL AND c.status <> 4 AND h.status IS DISTINCT FROM CASE c.status WHEN 6 THEN 2 ELSE c.status END
         UNION ALL
         SELECT 'claim is not what the payload of its lease says',
                format('It is %s of %s; the payload says %s of %s.', c.subject, c.source, coalesce(h.subject, 'any'), coalesce(h.source, 'any'))
          WHERE c.status <> 6 AND (c.subject <> h.subject OR c.source <> h.source)
         UNION ALL
         SELECT 'claim is dated in the future', format('Created at %s, updated at %s.', c.created_at, c.updated_at)
          WHERE c.created_at > $1 OR c.updated_at > $1
         LIMIT 1) AS p (problem, detail)
    UNION ALL
    SELECT 'lease does not hold a claim of its payload', h.lease_uuid, h.type_name, h.bucket_value,
           CASE WHEN c.status IS NULL THEN 'There is no such claim.'
                ELSE format('The claim''s status is %s, its lease %s.', c.status, coalesce(c.lease_uuid::text, 'null')) END
      FROM held h
      LEFT JOIN standing c ON c.bucket_type = h.bucket_type AND c.bucket_value = h.bucket_value
     WHERE h.nth = 1 AND c.lease_uuid IS DISTINCT FROM h.lease_uuid
       AND (c.status IS NULL OR (c.lease_uuid IS NULL) = (c.status IN (1, 5)))
    UNION ALL
    SELECT 'payload of a lease names a bucket twice', h.lease_uuid, h.type_name, h.bucket_value, 'It may stand once in each list.'
      FROM named h WHERE h.nth = 2
    UNION ALL
    SELECT 'payload of a lease names no claims', l.uuid, NULL, NULL, left(l.payload::text, 200)
      FROM leases l WHERE NOT EXISTS (SELECT FROM held h WHERE h.lease_uuid = l.uuid)
       -- A begin that has skipped all its destroys holds nothing.
       AND NOT (l.payload ? 'skipped_destroys' AND l.payload @> '{"create_records": [], "destroy_records": []}')
    UNION ALL
    SELECT 'lease is outstanding and settled', l.uuid, NULL, NULL, format('Its outcome is %s.', l.outcome)
      FROM leases l WHERE l.outcome IS NOT NULL
    UNION ALL
    SELECT 'lease is dated in the future', l.uuid, NULL, NULL, format('Created at %s, updated at %s.', l.created_at, l.updated_at)
      FROM leases l WHERE l.created_at > $1 OR l.updated_at > $1
    UNION ALL
    SELECT 'outcome is dated in the future', o.lease_uuid, NULL, NULL, format('Settled at %s.', o.settled_at) FROM late_outcomes o
    UNION ALL
    SELECT 'transfer does not hold the claims that it counts', t.transfer_uuid, NULL, NULL,
           format('It counts %s, there are %s.', t.held, coalesce(n.found, 0))
      FROM transfers t
      LEFT JOIN held_by_transfers n ON n.lease_uuid = t.transfer_uuid AND n.creator_id = t.from_cell
     WHERE t.ended_at IS NULL AND coalesce(n.found, 0) <> t.held
    UNION ALL
    SELECT 'transfer and its state do not agree', t.transfer_uuid, NULL, NULL,
           format('It is %s, at cell %s, and counts %s claims.', t.state, t.cell_id, t.held)
      FROM transfers t
     WHERE t.cell_id NOT IN (t.from_cell, t.to_cell)
        OR t.state = 'switched' AND t.cell_id <> t.to_cell
        OR t.state IN ('preparing', 'prepared', 'cancelled') AND t.cell_id <> t.from_cell
        OR (t.state IN ('finished', 'cancelled')) <> (t.ended_at IS NOT NULL)
        OR t.ended_at IS NOT NULL AND t.held <> 0
    UNION ALL
    SELECT 'transfer is dated in the future', t.transfer_uuid, NULL, NULL, format('Created at %s, updated at %s.', t.created_at, t.updated_at)
      FROM transfers t WHERE t.created_at > $1 OR t.updated_at > $1
    UNION ALL
    SELECT 'transfer of a cell that is not registered', t.transfer_uuid, NULL, NULL, format('It is from cell %s to cell %s.', t.from_cell, t.to_cell)
      FROM transfers t
     WHERE t.ended_at IS NULL AND (t.from_cell NOT IN (SELECT c.cell_id FROM cells c) OR t.to_cell NOT IN (SELECT c.cell_id FROM cells c))
    UNION ALL
    SELECT 'lease of a cell that is not registered', l.uuid, NULL, NULL, format('It is cell %s''s.', l.creator_id)
      FROM leases l WHERE l.creator_id NOT IN (SELECT c.cell_id FROM cells c)
    UNION ALL
    SELECT 'claims of a cell that is not registered', NULL, NULL, NULL, format('Cell %s has %s claims.', o.creator_id, o.claims)
      FROM owners o WHERE o.creator_id <> -1 AND o.creator_id NOT IN (SELECT c.cell_id FROM cells c)
    UNION ALL
    SELECT 'reserved name is not held', NULL,
           coalesce((SELECT t.shown FROM types t WHERE t.kind = 'bucket' AND t.id = r.bucket_type LIMIT 1), r.bucket_type::text),
           r.bucket_value, 'There is no such claim of nobody.'
      FROM reserved r WHERE NOT r.is_held
    UNION ALL
    SELECT 'name is held by nobody and not reserved', NULL,
           coalesce((SELECT t.shown FROM types t WHERE t.kind = 'bucket' AND t.id = n.bucket_type LIMIT 1), n.bucket_type::text),
           n.bucket_value, format('Its uuid is %s.', n.uuid)
      FROM nobodys n WHERE NOT n.is_reserved
    UNION ALL
    SELECT 'claim has no look', NULL, a.type_name, a.bucket_value, 'A name that looks like it could be claimed.'
      FROM alike a
     WHERE NOT EXISTS (SELECT FROM looks s WHERE s.bucket_type = a.bucket_type AND s.bucket_value = a.bucket_value AND s.reserved = '')
       AND NOT EXISTS (SELECT FROM looks s WHERE s.bucket_type = a.bucket_type AND s.successor = a.bucket_value)
    UNION ALL
    SELECT 'reserved name has no look', NULL, a.type_name, a.bucket_value, 'A name that looks like it could be claimed.'
      FROM alike_reserved a
     WHERE NOT EXISTS (SELECT FROM looks s WHERE s.bucket_type = a.bucket_type AND s.reserved = a.bucket_value)
    UNION ALL
    SELECT 'name that is kept back has no look', NULL, k.type_name, k.bucket_value, 'A name that looks like it could be claimed.'
      FROM kept k
     WHERE k.confusables = 'reject' AND k.status = 5 AND k.available_at > clock_timestamp()
       AND NOT EXISTS (SELECT FROM looks s WHERE s.bucket_type = k.bucket_type AND s.reserved = k.bucket_value)
    UNION ALL
    SELECT 'look is of a name that is not reserved', NULL,
           coalesce((SELECT t.shown FROM types t WHERE t.kind = 'bucket' AND t.id = s.bucket_type LIMIT 1), s.bucket_type::text),
           s.reserved, 'No name that looks like it can be claimed.'
      FROM looks s
     WHERE s.reserved <> '' AND NOT EXISTS (SELECT FROM reserved r WHERE r.bucket_type = s.bucket_type AND r.bucket_value = s.reserved)
       AND NOT EXISTS (SELECT FROM kept k WHERE k.bucket_type = s.bucket_type AND k.bucket_value = s.reserved)
    $query$ USING clock_timestamp() + interval '1 minute';
    EXECUTE 'SELECT array_agg(c.cell_id ORDER BY c.cell_id), array_agg(c.role_name::text ORDER BY c.cell_id) FROM claims.cells c'
       INTO cell_ids, roles;
    RETURN QUERY
    SELECT 'role of a cell does not exist', NULL::uuid, NULL::text, NULL::text,
           format('Cell %s belongs to role %s.', c.cell_id, coalesce(c.role, 'null'))
      FROM unnest(cell_ids, roles) AS c (cell_id, role) WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = c.role);
    -- Citus creates the extension on a new node as its own superuser. Nodes that do not answer are skipped.
    RETURN QUERY EXECUTE $query$
    WITH owners AS MATERIALIZED (
        SELECT n.groupid, n.nodename, n.nodeport, r.result AS owner
          FROM run_command_on_all_nodes($command$SELECT r.rolname FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner
                                           WHERE n.nspname = 'claims'$command$) r
          JOIN pg_dist_node n USING (nodeid)
         WHERE r.success AND r.result <> ''
    )
    SELECT 'objects on a node belong to another role', NULL::uuid, NULL::text, NULL::text,
           format('On node %s:%s they belong to %s, on the coordinator to %s.', o.nodename, o.nodeport, o.owner, c.owner)
      FROM owners o JOIN owners c ON c.groupid = 0 AND c.owner <> o.owner
    $query$;
END $$;
COMMENT ON FUNCTION claims.find_distributed_problems() IS
    'Internal: the rows of claims.check() on distributed tables, with all names. The nodes have no common snapshot: a transaction that is '
    'committing may look like a problem. Locks nothing.';
