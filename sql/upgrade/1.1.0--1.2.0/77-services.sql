-- Several services of a cell: what belongs to one of them names it. What was stored before belongs to the one that the cell has used.

CREATE FUNCTION claims.service_before(cell_id bigint) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce((SELECT a.service FROM claims.attended_cells a WHERE a.cell_id = $1),
                    (SELECT s.service FROM claims.automatic_service s WHERE s.cell_id = $1), '')
$$;

ALTER TABLE claims.cells_outstanding_leases ADD COLUMN service text;

ALTER TABLE claims.seen_orphans ADD COLUMN service text;

ALTER TABLE claims.own_epochs ADD COLUMN service text COLLATE "C" NOT NULL DEFAULT '', DROP CONSTRAINT own_epochs_pkey,
    ADD PRIMARY KEY (cell_id, service);
UPDATE claims.own_epochs e SET service = claims.service_before(e.cell_id);

ALTER TABLE claims.verification_positions ADD COLUMN service text COLLATE "C" NOT NULL DEFAULT '', DROP CONSTRAINT verification_positions_pkey,
    ADD PRIMARY KEY (cell_id, service, source_type);
UPDATE claims.verification_positions p SET service = claims.service_before(p.cell_id);

DROP FUNCTION claims.service_before(bigint);

ALTER TABLE claims.attended_cells ADD COLUMN by_type boolean NOT NULL DEFAULT false, DROP CONSTRAINT attended_cells_pkey,
    ADD PRIMARY KEY (cell_id, service);
CREATE UNIQUE INDEX attended_cells_others ON claims.attended_cells (cell_id) WHERE NOT by_type;

ALTER TABLE claims.verification_passes ADD COLUMN service text;

ALTER TABLE claims.pass_log ADD COLUMN service text;
