-- Functions of administrators: types, cells, readers. Rust checks the arguments (src/service/admin).

-- Tells every session that cached rows of a table are out of date.
CREATE FUNCTION claims.announce_change() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'announce_change_wrapper';

-- The audience of each function; no other role may execute it. One row per function name.
CREATE TABLE claims.audiences (
    function_name text COLLATE "C" PRIMARY KEY,
    audience      text COLLATE "C" NOT NULL CHECK (audience IN ('all', 'reader', 'router', 'cell', 'worker', 'monitor'))
);
COMMENT ON TABLE claims.audiences IS
    'Which functions claims.register_cell(), grant_read(), grant_worker() and grant_monitor() grant. Readers'' functions are for cells, too; '
    'routers'' are not.';
COMMENT ON COLUMN claims.audiences.function_name IS 'Name of a function in schema claims, all its variants.';
COMMENT ON COLUMN claims.audiences.audience IS
    'reader, router (with grant_read() only), cell, worker or monitor; all: for everybody who is one of these.';
INSERT INTO claims.audiences (function_name, audience) VALUES
    ('version', 'all'), ('check', 'monitor'),
    ('canonical', 'reader'), ('canonical_form', 'reader'), ('require_naming', 'cell'),
    ('get_record', 'reader'), ('get_records', 'reader'), ('list_types', 'reader'), ('list_cells', 'reader'),
    ('begin_update', 'cell'), ('begin_update_text', 'cell'), ('try_begin_update', 'cell'), ('begin_first', 'cell'), ('commit_update', 'cell'),
    ('commit_unflushed', 'cell'), ('rollback_update', 'cell'),
    ('settle_leases', 'cell'), ('lease_outcome', 'cell'), ('list_leases', 'cell'), ('list_records', 'cell'),
    ('lease_details', 'cell');
