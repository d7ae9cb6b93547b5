-- check(): finds violations of the rules that the tables must always keep.

-- The three look-ups below read by an index and never join. They are functions of their own because claims.find_problems() plans all other
-- statements without nested loops.
CREATE OR REPLACE FUNCTION claims.find_claims_on(bucket_type int, bucket_value text) RETURNS TABLE (status smallint, lease_uuid uuid)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_indexscan = on SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
    SELECT c.status, c.lease_uuid FROM claims.claims c
     WHERE c.bucket_type = find_claims_on.bucket_type AND c.bucket_value = find_claims_on.bucket_value
$$;
COMMENT ON FUNCTION claims.find_claims_on(int, text) IS
    'Internal: the claims on a bucket, for claims.find_problems(): one, unless the unique index is gone. Locks nothing.';

CREATE OR REPLACE FUNCTION claims.find_settled_leases() RETURNS TABLE (lease_uuid uuid, outcome text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_indexscan = on SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
    SELECT l.uuid, o.outcome FROM claims.claim_leases l
     CROSS JOIN LATERAL (SELECT o.outcome FROM claims.lease_outcomes o WHERE o.lease_uuid = l.uuid OFFSET 0) o
$$;
COMMENT ON FUNCTION claims.find_settled_leases() IS
    'Internal: leases that are outstanding and have an outcome, for claims.find_problems(). Locks nothing.';

CREATE OR REPLACE FUNCTION claims.find_unknown_owners() RETURNS TABLE (cell_id bigint, claims bigint)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_indexscan = on SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
    -- There may be millions of claims of each cell: one step through the index leads to the next cell.
    WITH RECURSIVE hop AS (
        (SELECT c.creator_id FROM claims.claims c ORDER BY c.creator_id LIMIT 1)
        UNION ALL
        SELECT (SELECT c.creator_id FROM claims.claims c WHERE c.creator_id > hop.creator_id ORDER BY c.creator_id LIMIT 1)
          FROM hop WHERE hop.creator_id IS NOT NULL)
    SELECT h.creator_id, (SELECT count(*) FROM claims.claims c WHERE c.creator_id = h.creator_id)
      FROM hop h
     WHERE h.creator_id <> -1 AND NOT EXISTS (SELECT FROM claims.cells c WHERE c.cell_id = h.creator_id OFFSET 0)
$$;
COMMENT ON FUNCTION claims.find_unknown_owners() IS
    'Internal: the cells that own claims and are not registered, for claims.find_problems(). Locks nothing.';

CREATE OR REPLACE FUNCTION claims.find_problems() RETURNS TABLE (problem text, lease_uuid uuid, bucket_type text, bucket_value text, detail text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off
    -- claim_leases is mostly empty when it is analyzed, and may have 100,000 rows a moment later. A nested loop planned for no rows
    -- is quadratic then. A hash join is right for any number, and spills to disk.
    SET enable_nestloop = off SET enable_mergejoin = off SET enable_hashjoin = on SET enable_seqscan = on
AS $$
#variable_conflict use_column
DECLARE
    -- Clocks of servers differ a little.
    future timestamptz := clock_timestamp() + interval '1 minute';
BEGIN
    PERFORM claims.require_tables_here();
    -- jit is off: the planner expects long payloads, and compiling would take longer than the query.
    RETURN QUERY
    WITH types AS MATERIALIZED (
        -- Every name of every type, and the name that is shown.
        SELECT n.kind, n.name, n.id, coalesce(b.name, s.name, o.name) AS shown
          FROM (SELECT n.kind, n.name, n.id FROM claims.type_names n
                UNION SELECT 'bucket', y.name, y.id FROM claims.bucket_types y
                UNION SELECT 'subject', y.name, y.id FROM claims.subject_types y
                UNION SELECT 'source', y.name, y.id FROM claims.source_types y) n
          LEFT JOIN claims.bucket_types b ON n.kind = 'bucket' AND b.id = n.id
          LEFT JOIN claims.subject_types s ON n.kind = 'subject' AND s.id = n.id
          LEFT JOIN claims.source_types o ON n.kind = 'source' AND o.id = n.id
    ), named AS MATERIALIZED (
        -- The records in the payloads of outstanding leases. A bucket may occur once in each list: then it is replaced.
        SELECT r.uuid AS lease_uuid, r.status, t.id AS bucket_type,
               coalesce(t.shown, r.record #>> '{bucket,type}') AS type_name, r.record #>> '{bucket,value}' AS bucket_value,
               coalesce(s.shown, r.record #>> '{subject,type}') || ' ' || (r.record #>> '{subject,id}') AS subject,
               coalesce(o.shown, r.record #>> '{source,type}') || ' ' || (r.record #>> '{source,rails_primary_key_id}') AS source,
               row_number() OVER (PARTITION BY r.uuid, r.status, coalesce(t.shown, r.record #>> '{bucket,type}'), r.record #>> '{bucket,value}')
                   AS nth,
               max(r.status) OVER (PARTITION BY r.uuid, coalesce(t.shown, r.record #>> '{bucket,type}'), r.record #>> '{bucket,value}') AS last_status
          FROM (SELECT l.uuid, part.status, r.record
                  FROM claims.claim_leases l
                 CROSS JOIN (VALUES ('create_records', 2::smallint), ('destroy_records', 3::smallint)) AS part (list, status)
                 CROSS JOIN LATERAL jsonb_array_elements(
                                CASE jsonb_typeof(l.payload -> part.list) WHEN 'array' THEN l.payload -> part.list ELSE '[]' END) AS r (record)
                OFFSET 0) AS r
          LEFT JOIN types t ON t.kind = 'bucket' AND t.name = r.record #>> '{bucket,type}'
          LEFT JOIN types s ON s.kind = 'subject' AND s.name = r.record #>> '{subject,type}'
          LEFT JOIN types o ON o.kind = 'source' AND o.name = r.record #>> '{source,type}'
    ), held AS MATERIALIZED (
        -- The claims that the leases hold, and the status in which they must be.
        SELECT * FROM named n WHERE n.status = n.last_status
    ), leased AS MATERIALIZED (
        SELECT c.*, coalesce(t.name, c.bucket_type::text) AS type_name,
               coalesce(s.name, c.subject_type::text) || ' ' || c.subject_id AS subject,
               coalesce(o.name, c.source_type::text) || ' ' || c.source_id AS source,
               x.transfer_uuid IS NOT NULL AS has_transfer
          FROM claims.claims c LEFT JOIN claims.bucket_types t ON t.id = c.bucket_type
          LEFT JOIN claims.subject_types s ON s.id = c.subject_type LEFT JOIN claims.source_types o ON o.id = c.source_type
          LEFT JOIN claims.cell_transfers x ON x.transfer_uuid = c.lease_uuid AND x.from_cell = c.creator_id AND x.ended_at IS NULL
         WHERE (c.lease_uuid IS NOT NULL OR c.status <> 1 OR c.created_at > future OR c.updated_at > future)
           -- Names that are kept back in order: there may be a million.
           AND NOT (c.status = 5 AND c.lease_uuid IS NULL AND c.creator_id = -1 AND c.given_up_by IS NOT NULL AND c.available_at IS NOT NULL
                    AND c.created_at <= future AND c.updated_at <= future)
           -- A transfer may hold a million claims: those that are in order are only counted, below.
           AND NOT (c.status = 4 AND c.created_at <= future AND c.updated_at <= future AND x.transfer_uuid IS NOT NULL)
    )
    -- One row for each claim: its first problem.
    SELECT p.problem, c.lease_uuid, c.type_name, c.bucket_value, p.detail
      FROM leased c
      LEFT JOIN claims.claim_leases l ON l.uuid = c.lease_uuid
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
          WHERE c.status = 4 AND c.lease_uuid IS NOT NULL AND NOT c.has_transfer
         UNION ALL
         SELECT 'claim is not in the payload of its lease', format('Status is %s.', c.status)
          WHERE l.uuid IS NOT NULL AND c.status <> 4 AND h.status IS DISTINCT FROM CASE c.status WHEN 6 THEN 2 ELSE c.status END
         UNION ALL
         SELECT 'claim is not what the payload of its lease says',
                format('It is %s of %s; the payload says %s of %s.', c.subject, c.source, coalesce(h.subject, 'any'), coalesce(h.source, 'any'))
          WHERE c.status <> 6 AND (c.subject <> h.subject OR c.source <> h.source)
         UNION ALL
         SELECT 'claim is dated in the future', format('Created at %s, updated at %s.', c.created_at, c.updated_at)
          WHERE c.created_at > future OR c.updated_at > future
         LIMIT 1) AS p (problem, detail)
    UNION ALL
    -- Only existing claims that are not reported above. One index look-up for each claim that its lease does not hold.
    SELECT 'lease does not hold a claim of its payload', h.lease_uuid, h.type_name, h.bucket_value,
           CASE WHEN c.status IS NULL THEN 'There is no such claim.'
                ELSE format('The claim''s status is %s, its lease %s.', c.status, coalesce(c.lease_uuid::text, 'null')) END
      FROM (SELECT h.lease_uuid, h.bucket_type, h.type_name, h.bucket_value FROM held h
             WHERE h.nth = 1
               AND NOT EXISTS (SELECT FROM leased c WHERE c.bucket_type = h.bucket_type AND c.bucket_value = h.bucket_value
                                  AND c.lease_uuid = h.lease_uuid)
            OFFSET 0) AS h
      LEFT JOIN LATERAL claims.find_claims_on(h.bucket_type, h.bucket_value) AS c ON true
     WHERE c.lease_uuid IS DISTINCT FROM h.lease_uuid
       AND (c.status IS NULL OR (c.lease_uuid IS NULL) = (c.status IN (1, 5)))
    UNION ALL
    SELECT 'payload of a lease names a bucket twice', h.lease_uuid, h.type_name, h.bucket_value, 'It may stand once in each list.'
      FROM named h WHERE h.nth = 2
    UNION ALL
    SELECT 'payload of a lease names no claims', l.uuid, NULL, NULL, left(l.payload::text, 200)
      FROM claims.claim_leases l WHERE NOT EXISTS (SELECT FROM held h WHERE h.lease_uuid = l.uuid)
       -- A begin that has skipped all its destroys holds nothing.
       AND NOT (l.payload ? 'skipped_destroys' AND l.payload @> '{"create_records": [], "destroy_records": []}')
    UNION ALL
    SELECT 'lease is outstanding and settled', s.lease_uuid, NULL, NULL, format('Its outcome is %s.', s.outcome)
      FROM claims.find_settled_leases() s
    UNION ALL
    SELECT 'lease is dated in the future', l.uuid, NULL, NULL, format('Created at %s, updated at %s.', l.created_at, l.updated_at)
      FROM claims.claim_leases l WHERE l.created_at > future OR l.updated_at > future
    UNION ALL
    SELECT 'outcome is dated in the future', o.lease_uuid, NULL, NULL, format('Settled at %s.', o.settled_at)
      FROM claims.lease_outcomes o WHERE o.settled_at > future
    UNION ALL
    -- One more scan of the claims, if a transfer is open.
    SELECT 'transfer does not hold the claims that it counts', t.transfer_uuid, NULL, NULL,
           format('It counts %s, there are %s.', t.held, coalesce(n.found, 0))
      FROM claims.cell_transfers t
      LEFT JOIN (SELECT c.creator_id, c.lease_uuid, count(*) AS found FROM claims.claims c WHERE c.status = 4
                  GROUP BY c.creator_id, c.lease_uuid) AS n
        ON n.creator_id = t.from_cell AND n.lease_uuid = t.transfer_uuid
     WHERE t.ended_at IS NULL AND coalesce(n.found, 0) <> t.held
    UNION ALL
    SELECT 'transfer and its state do not agree', t.transfer_uuid, NULL, NULL,
           format('It is %s, at cell %s, and counts %s claims.', t.state, t.cell_id, t.held)
      FROM claims.cell_transfers t
     WHERE t.cell_id NOT IN (t.from_cell, t.to_cell)
        OR t.state = 'switched' AND t.cell_id <> t.to_cell
        OR t.state IN ('preparing', 'prepared', 'cancelled') AND t.cell_id <> t.from_cell
        OR (t.state IN ('finished', 'cancelled')) <> (t.ended_at IS NOT NULL)
        OR t.ended_at IS NOT NULL AND t.held <> 0
    UNION ALL
    SELECT 'transfer is dated in the future', t.transfer_uuid, NULL, NULL, format('Created at %s, updated at %s.', t.created_at, t.updated_at)
      FROM claims.cell_transfers t WHERE t.created_at > future OR t.updated_at > future
    UNION ALL
    SELECT 'transfer of a cell that is not registered', t.transfer_uuid, NULL, NULL, format('It is from cell %s to cell %s.', t.from_cell, t.to_cell)
      FROM claims.cell_transfers t
     WHERE t.ended_at IS NULL AND (SELECT count(*) FROM claims.cells c WHERE c.cell_id IN (t.from_cell, t.to_cell)) < 2
    UNION ALL
    SELECT 'lease of a cell that is not registered', l.uuid, NULL, NULL, format('It is cell %s''s.', l.creator_id)
      FROM claims.claim_leases l WHERE NOT EXISTS (SELECT FROM claims.cells c WHERE c.cell_id = l.creator_id)
    UNION ALL
    -- One row for all of a cell's claims: there may be millions.
    SELECT 'claims of a cell that is not registered', NULL, NULL, NULL, format('Cell %s has %s claims.', o.cell_id, o.claims)
      FROM claims.find_unknown_owners() o
    UNION ALL
    -- A reserved name is also a claim of nobody (creator_id -1): the unique index on the bucket keeps cells from claiming it.
    SELECT 'reserved name is not held', NULL, coalesce(t.name, r.bucket_type::text), r.bucket_value, 'There is no such claim of nobody.'
      FROM claims.reservations r LEFT JOIN claims.bucket_types t ON t.id = r.bucket_type
     WHERE NOT EXISTS (SELECT FROM claims.claims c
                        WHERE c.bucket_type = r.bucket_type AND c.bucket_value = r.bucket_value AND c.creator_id = -1 AND c.status = 1)
    UNION ALL
    SELECT 'name is held by nobody and not reserved', NULL, coalesce(t.name, c.bucket_type::text), c.bucket_value, format('Its uuid is %s.', c.uuid)
      FROM claims.claims c LEFT JOIN claims.bucket_types t ON t.id = c.bucket_type
     WHERE c.creator_id = -1 AND c.status NOT IN (5, 6) AND NOT EXISTS (SELECT FROM claims.reservations r
                                                WHERE r.bucket_type = c.bucket_type AND r.bucket_value = c.bucket_value)
    UNION ALL
    -- Skeletons of types that refuse look-alikes. A skeleton of a name that nobody has claimed does no harm: the next begin takes it over.
    SELECT 'claim has no look', NULL, t.name, c.bucket_value, 'A name that looks like it could be claimed.'
      FROM claims.bucket_types t JOIN claims.claims c ON c.bucket_type = t.id
     WHERE t.confusables = 'reject' AND c.creator_id <> -1
       AND NOT EXISTS (SELECT FROM claims.skeletons s WHERE s.bucket_type = c.bucket_type AND s.bucket_value = c.bucket_value AND s.reserved = '')
       AND NOT EXISTS (SELECT FROM claims.skeletons s WHERE s.bucket_type = c.bucket_type AND s.successor = c.bucket_value)
    UNION ALL
    SELECT 'reserved name has no look', NULL, t.name, r.bucket_value, 'A name that looks like it could be claimed.'
      FROM claims.bucket_types t JOIN claims.reservations r ON r.bucket_type = t.id
     WHERE t.confusables = 'reject'
       AND NOT EXISTS (SELECT FROM claims.skeletons s WHERE s.bucket_type = r.bucket_type AND s.reserved = r.bucket_value)
    UNION ALL
    SELECT 'name that is kept back has no look', NULL, t.name, c.bucket_value, 'A name that looks like it could be claimed.'
      FROM claims.bucket_types t JOIN claims.claims c ON c.bucket_type = t.id
     WHERE t.confusables = 'reject' AND c.creator_id = -1 AND c.status = 5 AND c.available_at > clock_timestamp()
       AND NOT EXISTS (SELECT FROM claims.skeletons s WHERE s.bucket_type = c.bucket_type AND s.reserved = c.bucket_value)
    UNION ALL
    SELECT 'look is of a name that is not reserved', NULL, coalesce(t.name, s.bucket_type::text), s.reserved,
           'No name that looks like it can be claimed.'
      FROM claims.skeletons s LEFT JOIN claims.bucket_types t ON t.id = s.bucket_type
     WHERE s.reserved <> ''
       AND NOT EXISTS (SELECT FROM claims.reservations r WHERE r.bucket_type = s.bucket_type AND r.bucket_value = s.reserved)
       AND NOT EXISTS (SELECT FROM claims.claims c
                        WHERE c.bucket_type = s.bucket_type AND c.bucket_value = s.reserved AND c.creator_id = -1 AND c.status IN (5, 6))
    UNION ALL
    -- Readers would not get these changes before such a transaction exists. An index look-up, like the next one.
    SELECT 'changes are of a transaction that has not been', NULL, NULL, NULL, format('The transaction is %s.', s.xid)
      FROM (SELECT s.xid FROM claims.change_sets s WHERE s.xid >= pg_snapshot_xmax(pg_current_snapshot()) ORDER BY s.xid DESC, s.id DESC LIMIT 1) s
     WHERE s.xid IS DISTINCT FROM pg_current_xact_id_if_assigned()
    UNION ALL
    SELECT 'changes lie before those that were purged', NULL, NULL, NULL, format('The first one is of transaction %s.', s.xid)
      FROM claims.change_horizon h
     CROSS JOIN LATERAL (SELECT s.xid FROM claims.change_sets s WHERE (s.xid, s.id) <= (h.xid, h.id) ORDER BY s.xid, s.id LIMIT 1) s
    UNION ALL
    SELECT 'role of a cell does not exist', NULL, NULL, NULL, format('Cell %s belongs to role number %s.', c.cell_id, c.role::oid)
      FROM claims.cells c WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = c.role::oid)
    UNION ALL
    -- A later server of that name would be a service at once.
    SELECT 'named service does not exist', NULL, NULL, NULL, format('There is no foreign server "%s".', n.server_name)
      FROM claims.named_services n WHERE NOT EXISTS (SELECT FROM pg_foreign_server s WHERE s.srvname = n.server_name)
    UNION ALL
    -- The worker removes a service that only bucket types had named, when no lease is tracked there any more.
    SELECT 'service does not exist', NULL, NULL, NULL, format('%s calls foreign server "%s", which does not exist.', u.what, u.service)
      FROM (SELECT format('Automatic mode of cell %s', a.cell_id), a.service FROM claims.automatic_service a
            UNION SELECT format('Automatic mode of cell %s', t.cell_id), t.service FROM claims.automatic_types t
            UNION SELECT format('The worker for cell %s', w.cell_id), w.service FROM claims.attended_cells w) u (what, service)
     WHERE u.service IS NOT NULL AND NOT EXISTS (SELECT FROM pg_foreign_server s WHERE s.srvname::text = u.service)
    UNION ALL
    -- The exclusion constraint forbids the first one.
    SELECT 'ids were given twice', NULL, NULL, NULL, format('Cell %s has %s of id space "%s".', r.cell_id, r.id_range, s.name)
      FROM (SELECT g.*, max(upper(g.id_range)) OVER (PARTITION BY g.space_number ORDER BY lower(g.id_range), g.cell_id
                                                     ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS given_below
              FROM claims.leased_id_ranges g) r
      JOIN claims.id_spaces s ON s.number = r.space_number
     WHERE r.given_below > lower(r.id_range)
    UNION ALL
    SELECT 'id space of a range does not exist', NULL, NULL, NULL, format('Cell %s has %s of id space number %s.', r.cell_id, r.id_range, r.space_number)
      FROM claims.leased_id_ranges r WHERE NOT EXISTS (SELECT FROM claims.id_spaces s WHERE s.number = r.space_number)
    UNION ALL
    SELECT 'ids will be given again', NULL, NULL, NULL,
           format('Cell %s has %s of id space "%s", whose next block begins at %s.', r.cell_id, r.id_range, s.name, s.next_id)
      FROM claims.leased_id_ranges r JOIN claims.id_spaces s ON s.number = r.space_number
     WHERE upper(r.id_range) > s.next_id OR lower(r.id_range) < s.first_id
    UNION ALL
    SELECT 'sequence of an id space does not exist', NULL, NULL, NULL,
           format('It was number %s, and drew from id space "%s".', i.sequence_name::oid, i.id_space)
      FROM claims.id_sequences i WHERE NOT EXISTS (SELECT FROM pg_sequence q WHERE q.seqrelid = i.sequence_name)
    UNION ALL
    SELECT 'sequence does not fit its range of ids', NULL, NULL, NULL,
           format('Sequence %s counts from %s to %s by %s%s. Its ids: %s.', i.sequence_name, q.seqmin, q.seqmax, q.seqincrement,
                  CASE WHEN q.seqcycle THEN ', and begins again' ELSE '' END, coalesce(i.id_range::text, 'none'))
      FROM claims.id_sequences i JOIN pg_sequence q ON q.seqrelid = i.sequence_name JOIN pg_class c ON c.oid = q.seqrelid
     WHERE q.seqcycle OR q.seqincrement < 1 OR c.relpersistence <> 'p'
        OR coalesce(q.seqmin <> lower(i.id_range) OR q.seqmax <> upper(i.id_range) - 1, q.seqmax > -32767)
    UNION ALL
    SELECT 'sequences have the same ids', NULL, NULL, NULL, format('Sequences %s and %s have %s.', i.sequence_name, o.sequence_name, i.id_range * o.id_range)
      FROM claims.id_sequences i JOIN claims.id_sequences o ON o.id_space = i.id_space AND o.sequence_name::oid > i.sequence_name::oid
     WHERE i.id_range && o.id_range
    UNION ALL
    SELECT 'table is not as the extension has created it', NULL, NULL, NULL,
           format('Table claims.%s: %s. Calls read and write it with statements, which take longer.', a.table_name, a.difference)
      FROM claims.find_altered_tables() a;
    -- A valid unique index, whatever its name, guarantees that no bucket occurs twice; without one, count.
    IF NOT EXISTS (SELECT FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam
                    WHERE i.indrelid = 'claims.claims'::regclass AND m.amname = 'btree'
                      AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indisready AND i.indislive
                      AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnkeyatts = 2
                      AND (SELECT array_agg(a.attname::text ORDER BY a.attname) FROM pg_attribute a
                            WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:1])) = '{bucket_type,bucket_value}'
                      AND 'pg_catalog."C"'::regcollation = ANY (i.indcollation)) THEN
        RETURN QUERY
        SELECT 'there is no valid unique index on the bucket', NULL::uuid, NULL::text, NULL::text,
               'It would be on claims.claims (bucket_value, bucket_type).'
        UNION ALL
        SELECT 'bucket occurs more than once', NULL, coalesce(t.name, c.bucket_type::text), c.bucket_value,
               format('It occurs %s times.', count(*))
          FROM claims.claims c LEFT JOIN claims.bucket_types t ON t.id = c.bucket_type
         GROUP BY c.bucket_type, t.name, c.bucket_value HAVING count(*) > 1;
    END IF;
END $$;
COMMENT ON FUNCTION claims.find_problems() IS 'Internal: the rows of claims.check(), with all names. Locks nothing.';

CREATE OR REPLACE FUNCTION claims.check() RETURNS TABLE (problem text, lease_uuid uuid, bucket_type text, bucket_value text, detail text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    tells_names boolean := claims.caller_is_admin();
    distributed boolean := (SELECT v.distributed FROM claims.version() v);
    problems bigint := 0;
    future bigint := 0;
    seen jsonb[];
BEGIN
    IF distributed THEN
        -- Report only problems found twice: the first look may have met a transaction that commits on one node after the other.
        seen := ARRAY(SELECT to_jsonb(p) FROM claims.find_distributed_problems() p);
        IF cardinality(seen) > 0 THEN
            PERFORM pg_sleep(0.2);
        END IF;
    END IF;
    FOR problem, lease_uuid, bucket_type, bucket_value, detail IN
        SELECT p.problem, p.lease_uuid, p.bucket_type, CASE WHEN tells_names THEN p.bucket_value END,
               CASE WHEN tells_names OR p.problem NOT IN ('claim is not what the payload of its lease says', 'payload of a lease names no claims')
                    THEN p.detail END
          FROM (SELECT * FROM claims.find_problems() l WHERE NOT distributed
                UNION ALL
                SELECT * FROM claims.find_distributed_problems() d WHERE cardinality(seen) > 0 AND to_jsonb(d) = ANY (seen)
                UNION ALL
                SELECT l.problem, NULL, NULL, NULL, l.detail
                  FROM (SELECT * FROM claims.find_capture_problems() UNION ALL SELECT * FROM claims.find_altered_settings()
                        UNION ALL SELECT * FROM claims.find_low_sequences() UNION ALL SELECT * FROM claims.find_dump_problems()
                        -- The feed of distributed tables is on one of the nodes, perhaps another one.
                        UNION ALL SELECT * FROM claims.find_held_feed() h WHERE NOT distributed) l) p
    LOOP
        RETURN NEXT;
        -- Rows with the time of a wrong clock break no rule: they are counted separately. Altered tables, missing grants and open transactions
        -- break none either.
        IF problem LIKE '% is dated in the future' THEN
            future := future + 1;
        ELSIF problem NOT IN ('table is not as the extension has created it', 'owner of the database cannot dump it', 'change feed is held') THEN
            problems := problems + 1;
        END IF;
    END LOOP;
    PERFORM claims.note_check(problems, future);
END $$;
COMMENT ON FUNCTION claims.check() IS
    'Returns one row per violation of the rules that the tables must always keep, and per table that was altered so that calls need statements '
    'for it, per trigger that does not fire, per sequence that is behind the values in its table, and for a transaction that has held the change '
    'feed for longer than claims.stale_after; normally none. Reads claims.claims and all leases once, and '
    'claims.claims once more while a transfer is open; locks nothing. For administrators, and for monitoring roles, which see no bucket values '
    'and payloads.';
COMMENT ON FUNCTION claims.find_altered_tables() IS
    'Internal: those of the tables that calls read and write without statements that differ from what the extension has created, and in what. '
    'Locks each of them ACCESS SHARE until the end of the call.';
