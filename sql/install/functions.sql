-- Comments and privileges of the functions, and the triggers that need them.

CREATE TRIGGER announce_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON claims.bucket_types
    FOR EACH STATEMENT EXECUTE FUNCTION claims.announce_change();
CREATE TRIGGER announce_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON claims.subject_types
    FOR EACH STATEMENT EXECUTE FUNCTION claims.announce_change();
CREATE TRIGGER announce_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON claims.source_types
    FOR EACH STATEMENT EXECUTE FUNCTION claims.announce_change();
CREATE TRIGGER announce_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON claims.type_names
    FOR EACH STATEMENT EXECUTE FUNCTION claims.announce_change();
CREATE TRIGGER announce_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON claims.cells
    FOR EACH STATEMENT EXECUTE FUNCTION claims.announce_change();
CREATE TRIGGER announce_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON claims.mode_settings
    FOR EACH STATEMENT EXECUTE FUNCTION claims.announce_change();
CREATE TRIGGER announce_change AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON claims.limit_settings
    FOR EACH STATEMENT EXECUTE FUNCTION claims.announce_change();
-- Also what replication and restores write with triggers off must be heard of: the cells say who may do what.
ALTER TABLE claims.bucket_types ENABLE ALWAYS TRIGGER announce_change;
ALTER TABLE claims.subject_types ENABLE ALWAYS TRIGGER announce_change;
ALTER TABLE claims.source_types ENABLE ALWAYS TRIGGER announce_change;
ALTER TABLE claims.type_names ENABLE ALWAYS TRIGGER announce_change;
ALTER TABLE claims.cells ENABLE ALWAYS TRIGGER announce_change;
ALTER TABLE claims.mode_settings ENABLE ALWAYS TRIGGER announce_change;
ALTER TABLE claims.limit_settings ENABLE ALWAYS TRIGGER announce_change;

COMMENT ON FUNCTION claims.begin_update(bigint, jsonb, jsonb, uuid, xid8) IS
    'Leases the claims of a batch for a cell and returns the lease. Arguments: cell_id; create_records and destroy_records, arrays of records; lease_uuid, the client''s own uuid, which makes the call safe to repeat; cell_xid, pg_current_xact_id() of the cell''s local transaction. A bucket that stands in both lists is replaced. Conflicts are errors (42501, P0002, 23505, 55P03) with all of them as JSON in DETAIL. Locks the lease''s key, then the created buckets'' keys, then the destroyed claims'' rows, each in order; waits claims.wait_timeout at most.';
COMMENT ON FUNCTION claims.begin_update_text(bigint, text, text, uuid, xid8) IS
    'As begin_update, with the lists as texts of JSON, which are read as they come: for clients that send many records. What is no JSON is 22P02.';
COMMENT ON FUNCTION claims.try_begin_update(bigint, jsonb, jsonb, uuid, xid8) IS
    'As begin_update, but conflicts are a result (lease_uuid NULL, conflicts as JSON) and the caller''s transaction goes on. Of a batch in conflict nothing is kept and nothing stays locked.';
COMMENT ON FUNCTION claims.begin_first(bigint, jsonb, uuid, xid8) IS
    'Leases the first of several batches that can be had, as try_begin_update does; chosen says which, counted from 1. Where none can, lease_uuid and chosen are NULL, and conflicts are those of the last one. Arguments: cell_id; alternatives, an array of 1 to 100 {"create_records": [...], "destroy_records": [...]}; lease_uuid, the client''s own uuid, which makes the call safe to repeat: a repeat is the same whole array, and is answered with what was chosen then; cell_xid. Locks and waits as begin_update does, for one batch after the other, claims.wait_timeout at most in all.';
COMMENT ON FUNCTION claims.commit_update(bigint, uuid) IS
    'Makes a lease''s batch permanent: destroys are deleted, creates become ACTIVE, replaced ones are what the batch says. true: this call did it; false: it was done before. 55000 for a lease that was rolled back, P0002 for an unknown one, 55P03 for one that another open transaction is settling. Locks the lease''s row, then its claims in bucket order.';
COMMENT ON FUNCTION claims.commit_unflushed(bigint, uuid) IS
    'As commit_update, without waiting until the commit is flushed to disk: the next flush takes it along, and a crash of the server before that undoes it, so that the lease is outstanding again. For whoever has the end of the lease told by commit_update, settle_leases or lease_outcome before forgetting it: those answer only when it is flushed, whoever has settled it.';
COMMENT ON FUNCTION claims.rollback_update(bigint, uuid) IS
    'Gives a lease''s claims back: creates are deleted, destroys become ACTIVE again. true: this call did it; false: it was done before. An unknown uuid is fenced, with a NOTICE: no later begin_update can use it. 55000 for a lease that was committed, 55P03 for one that another open transaction is beginning or settling. Locks the lease''s row, then its claims in bucket order.';
COMMENT ON FUNCTION claims.settle_leases(bigint, uuid[], uuid[]) IS
    'Commits and rolls back many leases in one call. One row per lease: its outcome, and whether this call brought it about; fenced is an unknown one among the rollbacks. A lease that another session is settling is busy and not waited for. Locks lease rows in uuid order, passing over locked ones, then claims in bucket order.';
COMMENT ON FUNCTION claims.lease_outcome(bigint, uuid) IS
    'How a lease of the cell stands: outstanding, committed, rolled_back, or NULL where unknown. Locks nothing.';
COMMENT ON FUNCTION claims.purge_outcomes() IS
    'Drops outcomes older than claims.outcome_retention and returns how many; for schedulers, administrators only. Locks the rows it drops, passing over locked ones.';
COMMENT ON FUNCTION claims.get_record(text, text) IS
    'The claim on a bucket, by any spelling of its name, with its cell''s name and address; no row where there is none. Reads one index entry, locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.get_records(jsonb) IS
    'The claims on an array of {"type", "value"} buckets (at most 10,000), in the order asked; 54000 where they have more than 16 MiB. Locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.read_after(uuid, interval) IS
    'Waits, on a standby, until it shows how a lease ended: true. false: it does not within timeout. What the transaction reads from its next statement on is at least as new. For readers. 25001 under REPEATABLE READ and SERIALIZABLE, unless the snapshot shows it. Locks nothing.';
COMMENT ON FUNCTION claims.list_leases(bigint, text, int, timestamptz) IS
    'Outstanding leases of a cell (NULL: of all cells, administrators only), oldest first, max_results at a time, and no more than have 16 MiB of payload. The last row''s cursor given as after goes on; no row: there are no more. created_after leaves out older ones. Locks nothing.';
COMMENT ON FUNCTION claims.list_records(bigint, text, text, int, text, text, text[], boolean) IS
    'Claims of a cell by source type number, source id (by length, then bytewise) and bucket, max_results at a time; optionally of one source type, of source ids above source_id_gt and up to source_id_lte, and of some bucket types. With whole_sources a page ends behind a source''s last claim, and may be longer. The last row''s cursor given as after goes on. Where set_profile() gives a source''s claims other names between two pages, the next page may repeat or leave out some of them, but not with whole_sources. Locks nothing.';
COMMENT ON FUNCTION claims.canonical(text, text) IS
    'What a name of a bucket type becomes by the type''s profile, without claiming it; 22023 where the profile does not take it. For readers and cells; in a cell''s database by the cell''s own types. Executes no statement, locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.canonical_form(text, text) IS
    'What a name becomes by a profile (exact, casefold, username, domain, email, path); NULL where the profile does not take it. For indexes of tables of a cell. PUBLIC may execute it, so that everybody can write or restore such a table; who names it needs USAGE on schema claims. IMMUTABLE: a release with a newer version of Unicode asks for a REINDEX. Reads no table, locks nothing.';
-- A scan that calls it for every row takes longer than an index.
ALTER FUNCTION claims.canonical_form(text, text) COST 20;
COMMENT ON FUNCTION claims.require_naming(text, text[], text[]) IS
    'Internal, at the service, for cells: 0A000 unless bucket types have these profiles here, and where they compare more than bytes, the tables are of this version of Unicode. Locks nothing.';
COMMENT ON FUNCTION claims.reserve_names(text, text[], text) IS
    'Reserves names of a bucket type: nobody can have them. Returns how many were not reserved before. Administrators only, with a reason. 23505 where one is claimed, 55P03 where a lease or an open transaction is at one, with all of them as JSON in DETAIL; then nothing is reserved. Locks the names'' keys, in order; waits claims.wait_timeout at most.';
COMMENT ON FUNCTION claims.unreserve_names(text, text[], text) IS
    'Gives names free that were reserved, and returns how many. Administrators only, with a reason. Locks their rows, in order.';
COMMENT ON FUNCTION claims.set_profile(text, text, text, text, boolean) IS
    'Changes what counts as the same name in a bucket type, and all its names with it; administrators only, with a reason. Returns the claims that are in the way: canonical is what all of bucket_values would become, or NULL where the profile does not take a name or names only look alike. With dry_run (the default) that is all; without, 23505 where there are any, and otherwise all names are rewritten in place and the profile is in effect at COMMIT. list_records() continues a source''s claims by name: a page that is asked for after the change may repeat or leave out claims of the source that the page before it ended with, unless both are asked for with whole_sources. confusables NULL: as it is. Types below 100 stay exact. Locks claims.type_names SHARE ROW EXCLUSIVE and claims.bucket_types EXCLUSIVE: begins under types of ids from 100 on are 55P03 meanwhile. Leases that hold names which change are waited for claims.wait_timeout, then 55P03.';
COMMENT ON FUNCTION claims.add_bucket_type(int, text, text, text) IS
    'Adds a bucket type; administrators only. profile says what counts as the same name (exact, casefold, username, domain, email, path), confusables what becomes of names that look alike (allow, reject). Ids below 100 are reserved. Repeating the same call does nothing; 23505 where id or name is taken, or the type is there with another profile. Locks claims.type_names SHARE ROW EXCLUSIVE: administrators follow each other until COMMIT.';
COMMENT ON FUNCTION claims.add_subject_type(int, text) IS
    'Adds a subject type; administrators only. Ids below 100 are reserved. Repeating the same pair does nothing; 23505 where id or name is taken. Locks claims.type_names SHARE ROW EXCLUSIVE: administrators follow each other until COMMIT.';
COMMENT ON FUNCTION claims.add_source_type(int, text) IS
    'Adds a source type; administrators only. Ids below 100 are reserved. Repeating the same pair does nothing; 23505 where id or name is taken. Locks claims.type_names SHARE ROW EXCLUSIVE: administrators follow each other until COMMIT.';
COMMENT ON FUNCTION claims.rename_type(text, int, text) IS
    'Makes a name the one by which a type of a kind (bucket, subject, source) is shown; administrators only. The names that it had are accepted as before, for ever. 23505 where the name is another type''s. Locks claims.type_names SHARE ROW EXCLUSIVE, then the type''s row: administrators follow each other until COMMIT.';
COMMENT ON FUNCTION claims.register_cell(bigint, name, text, text, jsonb) IS
    'Registers a cell, or changes its role and what is given of its name, address and attributes, and grants its role what a cell needs; administrators only. A role that lost its last cell loses the grants. Locks claims.audiences SHARE ROW EXCLUSIVE, then the cell''s row: administrators follow each other until COMMIT.';
COMMENT ON FUNCTION claims.grant_read(name) IS
    'Grants a role what a router needs: get_record, get_records, list_types, list_cells, list_changes, change_cursor and the view records; administrators only. Administrators follow each other until COMMIT.';
COMMENT ON FUNCTION claims.refresh_grants() IS
    'Gives every role that register_cell(), grant_read(), grant_worker() or grant_monitor() named what its kind has today; administrators only. ALTER EXTENSION claims UPDATE does it by itself. Where the tables are distributed, on all nodes; called by a superuser, it first gives the extension''s objects to their owner on nodes that were added. Administrators follow each other until COMMIT.';
COMMENT ON FUNCTION claims.grant_monitor(name) IS
    'Grants a role what monitoring needs: check(), which then tells no bucket values and no payloads, and the views leases and passes; administrators only. Administrators follow each other until COMMIT.';
COMMENT ON FUNCTION claims.revoke_read(name) IS
    'Takes away what grant_read() gave; a cell''s role keeps what cells have. Administrators only, who follow each other until COMMIT.';
COMMENT ON FUNCTION claims.revoke_worker(name) IS
    'Takes away what grant_worker() gave; administrators only, who follow each other until COMMIT.';
COMMENT ON FUNCTION claims.revoke_monitor(name) IS
    'Takes away what grant_monitor() gave; administrators only, who follow each other until COMMIT.';
COMMENT ON FUNCTION claims.version() IS
    'The version of the library, the version of the extension in this database, the number of the protocol between cells and service, and the version of Unicode that names are compared by. For everybody who was granted anything. Locks nothing.';
COMMENT ON FUNCTION claims.set_mode(text, text, bigint) IS
    'At the service: what it does for a cell (NULL: for everybody) from the COMMIT on: open; settle_only: no begins; read_only: only reading. 55000, with the reason, for whatever is not allowed. Of a cell''s mode and everybody''s the stricter counts. For administrators. Locks the row of the mode: two who set the same follow each other until COMMIT.';
COMMENT ON FUNCTION claims.set_cell_limits(bigint, text, int, int, int) IS
    'At the service: what a cell may at most, from the COMMIT on (NULL: anything): leases outstanding, records of a batch, begins and fences a second. Beyond that 53400, with a HINT when to try again. begins_per_second wants the library preloaded (22023 otherwise). For administrators. Locks the row of the limits: two who set the same follow each other until COMMIT.';
COMMENT ON FUNCTION claims.present_epoch(bigint, bigint, bigint, text) IS
    'At the service, for claims.reconcile(), claims.verify() and claims.adopt_cell(): takes a new epoch of the cell''s database, if it has that one, its predecessor, or none; otherwise 55000, another database acts as the cell. With adopt_because it takes it whatever it has. Locks the row of the cell''s epoch until COMMIT.';
COMMENT ON FUNCTION claims.adopt_cell(bigint, text, text) IS
    'In a cell: makes this database the one that acts as the cell, after a restore, or instead of a clone, and returns its epoch. service is a foreign server that leads to the shared database. From then on claims.reconcile() and claims.verify() of any other database are 55000 there. For administrators. A process of its own commits the epoch; at the service it locks the row of the cell''s epoch, for one call.';
COMMENT ON FUNCTION claims.explain_lease(bigint, text, uuid) IS
    'In a cell: what claims.reconcile() would decide about a lease now (commit, rollback, wait; forget or orphan for one that the service has settled; none), and why: what the service says, what is tracked and fenced here, what became of its transaction, and who is in it. Changes and fences nothing, locks nothing. For who may act for the cell.';
COMMENT ON FUNCTION claims.skip_capture(text) IS
    'In a cell: for the rest of this transaction, or until the savepoint before it is rolled back to, changes of claimed columns are not captured; foreign keys and other triggers work. For administrators. Locks nothing.';
COMMENT ON FUNCTION claims.lease_details(uuid, text, text) IS
    'An outstanding lease by its uuid, or by a bucket that it holds: its cell, the role that may act for that, how old it is, and its names as it has them. A transfer that has not ended is told without names. No row: there is none. For administrators and the lease''s cell. Locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.force_rollback(bigint, uuid, text) IS
    'Rolls back an outstanding lease whose cell cannot, and returns what it freed: {"lease_uuid", "cell_id", "cell_xid", "freed", "kept"}. Where the cell''s transaction has committed, its names are then free and in use: look there first. P0002 unless outstanding, 55P03 while another transaction is at it. For administrators. Locks the lease''s row, then its claims in bucket order.';
COMMENT ON FUNCTION claims.release_records(bigint, text, int, boolean) IS
    'Deletes up to max_results claims that a cell has and no lease holds, and returns how many; repeat until 0. For a cell that is gone, registered or not: a WARNING where it may still begin leases. dry_run only counts. For administrators. Locks the claims, passing over locked ones; waits for nobody.';
COMMENT ON FUNCTION claims.remove_cell(bigint, text) IS
    'Removes a cell that has neither claims nor outstanding leases nor open transfers (55000 otherwise), with its mode; a role that loses its last cell loses what cells are granted. For administrators. Locks claims.audiences SHARE ROW EXCLUSIVE, then the cell''s row: administrators follow each other until COMMIT.';
COMMENT ON FUNCTION claims.prepare_transfer(uuid, bigint, bigint, jsonb, text, interval) IS
    'Marks the ACTIVE claims of some subjects for a transfer from one cell to another: they become TRANSFERRING, which is leased to everyone. Arguments: transfer_uuid; from_cell; to_cell; subjects, [{"type", "ids"}, ...]; reason; max_runtime, after which the call returns and the next one goes on. Returns how many claims it has marked, how many its pass could not have since leases hold them, and whether it has all: repeat until finished. The same uuid with other cells or subjects is 22023. For administrators. Locks the transfer''s row and the claims, passing over locked ones; waits for nobody (55P03).';
COMMENT ON FUNCTION claims.switch_transfer(uuid, text) IS
    'Switches a prepared transfer: one row changes, and from the COMMIT on every read says the new cell for all its claims. true: this call did it; false: it was done before. 55000 unless the last prepare_transfer() was finished. For administrators. Locks the transfer''s row; waits for nobody (55P03).';
COMMENT ON FUNCTION claims.reverse_transfer(uuid, text) IS
    'Takes a switch back: from the COMMIT on every read says the old cell again. true: this call did it; false: the claims are there already. 55000 once finish_transfer() has begun. For administrators. Locks the transfer''s row; waits for nobody (55P03).';
COMMENT ON FUNCTION claims.finish_transfer(uuid, interval) IS
    'Makes the claims of a switched transfer ACTIVE claims of the cell where they are; after max_runtime the call returns, and the next one goes on. Returns how many this call has moved, and whether these were all: repeat until finished. After reverse_transfer() they stay the old cell''s. For administrators. Locks the transfer''s row and the claims, passing over locked ones; waits for nobody (55P03).';
COMMENT ON FUNCTION claims.cancel_transfer(uuid, text, interval) IS
    'Gives a transfer up that is not switched: its claims become ACTIVE again, the old cell''s; after max_runtime the call returns, and the next one goes on. Returns how many this call has released, and whether these were all: repeat until finished. For administrators. Locks the transfer''s row and the claims, passing over locked ones; waits for nobody (55P03).';
COMMENT ON FUNCTION claims.list_changes(text, int, text) IS
    'The change feed behind a cursor (NULL: as far as it reaches back), max_results at a time and no more than have 16 MiB; optionally of one bucket type. Only what no open transaction of the cluster can come before: whoever goes on from the last row''s cursor gets every change once. 55000 where changes behind the cursor were purged, or it is of another history. For readers. Locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.change_cursor() IS
    'The cursor of the last change that claims.list_changes() can return now: where a reader begins that knows nothing yet. For readers. Locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.bucket_history(text, text) IS
    'Who had a name when, as far as the change feed reaches back: one row for each tenure, the first one first. cell_id NULL: nobody; since NULL: before the feed; until NULL: now. Reads the whole feed, about a second for some million changes, unless claims.change_sets has an index USING gin (bucket_values), which makes every change dearer. For administrators. Locks nothing.';
COMMENT ON FUNCTION claims.purge_changes(interval) IS
    'Drops changes made longer ago from the beginning of the feed, up to the first one that is not, and returns how many. None that readers cannot get yet. Locks the row of claims.change_horizon, and does nothing where another session has; waits for nobody. For administrators.';
COMMENT ON FUNCTION claims.caller_is_admin() IS 'Internal: whether the caller is an administrator.';
COMMENT ON FUNCTION claims.change_grants(name, text[], boolean) IS 'Internal: grants or revokes the functions of some audiences.';
COMMENT ON FUNCTION claims.distribute(int, text) IS
    'Spreads the tables of the service over the nodes of a Citus cluster, once, and returns in how many shards: claims by bucket value, leases and their outcomes by uuid; types, cells and what else every call reads goes to every node. shards NULL: 4 for each node that keeps shards. For administrators, on the coordinator, with a reason. Locks the tables against writers until COMMIT.';
COMMENT ON FUNCTION claims.keep_pace(bigint, int) IS 'Internal, on the node that counts for all where the tables are distributed: lets one more begin of a cell pass (0), or says from which moment on one may.';
COMMENT ON FUNCTION claims.take_change_places(int) IS 'Internal, on the node that keeps the change feed: its transaction, and numbers for so many rows of claims.change_sets that the caller is about to write.';
COMMENT ON FUNCTION claims.change_node() IS 'Internal: which node of a Citus cluster this is, by its group. Locks nothing.';
COMMENT ON FUNCTION claims.buckets_in_flight(text, text[], int[]) IS 'Internal, on the node of a shard: which of the buckets another open transaction is at, by their places in the arrays. Locks nothing.';
COMMENT ON FUNCTION claims.is_lease_in_flight(text, uuid) IS 'Internal, on the node of a shard: whether another open transaction is at the row of a lease. Locks nothing.';
COMMENT ON FUNCTION claims.is_look_in_flight(text, uuid, int) IS 'Internal, on the node of a shard: whether another open transaction is at the rows of a look. Locks nothing.';
COMMENT ON FUNCTION claims.is_look_reserved(text, uuid, int, boolean) IS 'Internal, on the node of a shard: whether a name of a look is reserved. Transactions that reserve one or set one free count, or are waited for. Locks nothing.';
COMMENT ON FUNCTION claims.create_on_node(text, text[], int[], bigint[], uuid, bigint, timestamptz, uuid[], int[], text[], int[], text[], int[], text[], text[]) IS
    'Internal, on the node of a shard, for the row that a statement returns: creates claims in further shards of the node, those of the part whose anchor the row is, and returns how many. IMMUTABLE because Citus sends no other function along: it writes.';
COMMENT ON FUNCTION claims.settle_on_node(int, text, int[], text[], int[], bigint[], uuid[], int[], text[], smallint, timestamptz) IS
    'Internal, on the node of a shard, for the claim that a statement returns: makes claims in further shards of the node ACTIVE, or without a time deletes them, those of the part whose anchor the claim is, and returns how many. IMMUTABLE because Citus sends no other function along: it writes.';
COMMENT ON FUNCTION claims.put_outcome_on_node(uuid, bigint, bytea, bigint, text, timestamptz) IS
    'Internal, on the node of a shard, for the lease that a statement deletes: puts its outcome into the shard beside it. IMMUTABLE because Citus sends no other function along: it writes.';
COMMENT ON FUNCTION claims.require_tables_here() IS 'Internal: raises 0A000 where claims.distribute() has spread the tables of the extension over several nodes.';
COMMENT ON FUNCTION claims.require_own_tables() IS 'Internal: raises 55000 where Citus manages the tables of the extension, or the extension in this database and the library are of different versions.';
COMMENT ON FUNCTION claims.require_admin() IS 'Internal: raises 42501 unless the caller is an administrator.';
COMMENT ON FUNCTION claims.announce_change() IS 'Internal: trigger that tells all sessions that cached rows of the table are out of date.';
COMMENT ON TRIGGER announce_change ON claims.bucket_types IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.subject_types IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.source_types IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.type_names IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.cells IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.mode_settings IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.limit_settings IS 'Sessions cache this table.';

-- PUBLIC gets nothing, not even what Postgres grants by default.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA claims FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA claims FROM PUBLIC;
REVOKE ALL ON SCHEMA claims FROM PUBLIC;
-- Nor does anybody whom default privileges name: with a right on the tables a cell could make itself another one.
DO $$
DECLARE
    other record;
BEGIN
    FOR other IN
        SELECT format('ALL ON SCHEMA %I', n.nspname) AS what, a.grantee
          FROM pg_catalog.pg_namespace n, pg_catalog.aclexplode(n.nspacl) a
         WHERE n.nspname = 'claims' AND a.grantee <> n.nspowner
        UNION
        SELECT format('ALL ON %s %s', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass), a.grantee
          FROM pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a
         WHERE c.relnamespace = 'claims'::regnamespace AND a.grantee <> c.relowner
        UNION
        SELECT format('ALL ON FUNCTION %s', p.oid::regprocedure), a.grantee
          FROM pg_catalog.pg_proc p, pg_catalog.aclexplode(p.proacl) a
         WHERE p.pronamespace = 'claims'::regnamespace AND a.grantee <> p.proowner
        UNION
        SELECT format('ALL ON TYPE %s', y.oid::regtype), a.grantee
          FROM pg_catalog.pg_type y, pg_catalog.aclexplode(y.typacl) a
         WHERE y.typnamespace = 'claims'::regnamespace AND a.grantee NOT IN (y.typowner, 0)
    LOOP
        EXECUTE format('REVOKE %s FROM %s', other.what, other.grantee::regrole);
    END LOOP;
END $$;

-- The one exception. An index calls it with the rights of whoever writes the table, and of the table's owner when it is built; pg_restore
-- builds indexes before it grants anything. It is a pure function of its arguments, runs with the caller's rights, reads no table, and
-- takes time in proportion to its argument. Without USAGE on the schema nobody can name it, only write to a table that somebody else indexed by it.
GRANT EXECUTE ON FUNCTION claims.canonical_form(text, text) TO PUBLIC;

-- Every object explains itself: keys, constraints and the columns of views by what they are.
DO $$
DECLARE
    silent record;
BEGIN
    FOR silent IN
        SELECT format('CONSTRAINT %I ON %s', k.conname, k.conrelid::regclass) AS what,
               CASE k.contype WHEN 'p' THEN 'Primary key' WHEN 'u' THEN 'No two rows alike' WHEN 'f' THEN 'Foreign key' ELSE 'What a row must be' END
               || ': ' || pg_catalog.pg_get_constraintdef(k.oid) AS text
          FROM pg_catalog.pg_constraint k
         WHERE k.connamespace = 'claims'::regnamespace AND k.conrelid <> 0 AND pg_catalog.obj_description(k.oid, 'pg_constraint') IS NULL
        UNION ALL
        SELECT format('INDEX %s', i.indexrelid::regclass), format('Enforces constraint %s of %s.', k.conname, i.indrelid::regclass)
          FROM pg_catalog.pg_index i JOIN pg_catalog.pg_constraint k ON k.conindid = i.indexrelid
         WHERE k.connamespace = 'claims'::regnamespace AND pg_catalog.obj_description(i.indexrelid, 'pg_class') IS NULL
        UNION ALL
        SELECT format('COLUMN %s.%I', a.attrelid::regclass, a.attname),
               coalesce((SELECT min(pg_catalog.col_description(t.attrelid, t.attnum)) FROM pg_catalog.pg_attribute t
                           JOIN pg_catalog.pg_class b ON b.oid = t.attrelid
                          WHERE b.relnamespace = 'claims'::regnamespace AND b.relkind = 'r' AND t.attname = a.attname
                            AND b.oid IN (SELECT d.refobjid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_rewrite w ON w.oid = d.objid
                                           WHERE d.classid = 'pg_catalog.pg_rewrite'::regclass AND w.ev_class = v.oid)),
                        'Column ' || a.attname || '.')
          FROM pg_catalog.pg_class v JOIN pg_catalog.pg_attribute a ON a.attrelid = v.oid
         WHERE v.relnamespace = 'claims'::regnamespace AND v.relkind = 'v' AND pg_catalog.col_description(a.attrelid, a.attnum) IS NULL
    LOOP
        EXECUTE format('COMMENT ON %s IS %L', silent.what, silent.text);
    END LOOP;
END $$;

ALTER TABLE claims.claimed_attributes ENABLE ALWAYS TRIGGER announce_change;
ALTER TABLE claims.automatic_service ENABLE ALWAYS TRIGGER announce_change;
