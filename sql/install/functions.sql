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
-- ALWAYS: sessions must also learn of changes by replication and restores, which turn triggers off. The rows of cells decide about rights.
ALTER TABLE claims.bucket_types ENABLE ALWAYS TRIGGER announce_change;
ALTER TABLE claims.subject_types ENABLE ALWAYS TRIGGER announce_change;
ALTER TABLE claims.source_types ENABLE ALWAYS TRIGGER announce_change;
ALTER TABLE claims.type_names ENABLE ALWAYS TRIGGER announce_change;
ALTER TABLE claims.cells ENABLE ALWAYS TRIGGER announce_change;
ALTER TABLE claims.mode_settings ENABLE ALWAYS TRIGGER announce_change;
ALTER TABLE claims.limit_settings ENABLE ALWAYS TRIGGER announce_change;

COMMENT ON FUNCTION claims.begin_update(bigint, jsonb, jsonb, uuid, xid8, boolean) IS
    'Leases the claims of a batch for a cell and returns the lease. Arguments: cell_id; create_records and destroy_records, arrays of records; '
    'lease_uuid, the client''s own uuid, which makes the call safe to repeat; cell_xid, pg_current_xact_id() of the cell''s local transaction. A '
    'bucket in both lists is replaced. skip_missing: destroys whose claims are missing, of another cell, subject or source are left out, and '
    'the payload lists them. Conflicts are errors (42501, P0002, 23505, 55P03) with all of them as JSON in DETAIL. Locks the lease''s '
    'key, then the created buckets'' keys, then the destroyed claims'' rows, each in order; waits claims.wait_timeout at most.';
COMMENT ON FUNCTION claims.begin_update_text(bigint, text, text, uuid, xid8, boolean, text, text) IS
    'Like begin_update, with the lists as texts of JSON, which are read faster: for clients that send many records. 22P02 for a text that is not '
    'JSON. context and cell_role are kept with the lease; NULL: those of the session''s settings claims.context and claims.cell_role. They are '
    'the client''s word, no identity, and no part of the request.';
COMMENT ON FUNCTION claims.try_begin_update(bigint, jsonb, jsonb, uuid, xid8, boolean) IS
    'Like begin_update, but returns conflicts (lease_uuid NULL, conflicts as JSON) instead of raising an error, so the caller''s transaction '
    'continues. A batch with conflicts leaves no rows and no locks.';
COMMENT ON FUNCTION claims.begin_first(bigint, jsonb, uuid, xid8, boolean) IS
    'Leases the first of several batches that has no conflicts, as try_begin_update does; chosen is its position, from 1. If all have conflicts, '
    'lease_uuid and chosen are NULL, and conflicts are those of the last one, with claims.lease_wait those of the last one that can still become '
    'free. Arguments: cell_id; alternatives, an array of 1 to 100 '
    '{"create_records": [...], "destroy_records": [...]}; lease_uuid, the client''s own uuid, which makes the call safe to repeat: a repeat '
    'passes the whole array again and returns the earlier choice; cell_xid. Locks and waits as begin_update does, for one batch after the other, '
    'claims.wait_timeout at most in all.';
COMMENT ON FUNCTION claims.commit_update(bigint, uuid) IS
    'Makes a lease''s batch permanent: deletes the destroyed claims, makes created ones ACTIVE, and gives replaced ones their new subject and '
    'source. true: this call did it; false: it was done before. 55000 for a lease that was rolled back, P0002 for an unknown one, 55P03 for one '
    'that another open transaction is settling. Locks the lease''s row, then its claims in bucket order.';
COMMENT ON FUNCTION claims.commit_unflushed(bigint, uuid) IS
    'Like commit_update, but does not wait until the commit is flushed to disk. The next flush includes it; a crash of the server before that '
    'undoes it, and the lease is outstanding again. For callers that keep the lease tracked until commit_update, settle_leases or lease_outcome '
    'has returned its outcome: those flush it before they answer.';
COMMENT ON FUNCTION claims.rollback_update(bigint, uuid) IS
    'Rolls a lease back: deletes created claims, and makes the others ACTIVE again. true: this call did it; false: it was done before. An unknown '
    'uuid is fenced, with a NOTICE: no later begin_update can use it. 55000 for a lease that was committed, 55P03 for one that another open '
    'transaction is beginning or settling. Locks the lease''s row, then its claims in bucket order.';
COMMENT ON FUNCTION claims.settle_leases(bigint, uuid[], uuid[]) IS
    'Commits and rolls back many leases in one call. One row per lease: its outcome, and whether this call settled it; fenced is an unknown one '
    'among the rollbacks. A lease that another session is settling is busy; the call does not wait for it. Locks lease rows in uuid order, '
    'skipping locked ones, then claims in bucket order.';
COMMENT ON FUNCTION claims.lease_outcome(bigint, uuid) IS
    'The state of a lease of the cell: outstanding, committed, rolled_back, or NULL if unknown. Locks nothing.';
COMMENT ON FUNCTION claims.purge_outcomes() IS
    'Deletes outcomes older than claims.outcome_retention and returns how many; for schedulers, administrators only. Locks the rows it deletes, '
    'skipping locked ones.';
COMMENT ON FUNCTION claims.purge_admin_log(interval) IS
    'Deletes rows of claims.admin_log that are older than older_than, and returns how many; for schedulers, administrators only. Locks the rows '
    'it deletes, skipping locked ones.';
COMMENT ON FUNCTION claims.purge_transfer_subjects(interval) IS
    'Deletes the lists of subjects of transfers that ended longer ago than older_than, and returns how many subjects; the rows of the transfers '
    'stay. For schedulers, administrators only. Locks the rows it deletes, skipping locked ones.';
COMMENT ON FUNCTION claims.get_record(text, text) IS
    'The claim on a bucket, by any spelling of its name, with its cell''s name and address; no row if there is none. Reads one index entry, locks '
    'nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.get_records(jsonb) IS
    'The claims on an array of {"type", "value"} buckets (at most 10,000), in the order of the argument; ordinal: which of the buckets the row '
    'answers, from 1. 54000 if they have more than 16 MiB. '
    'Locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.read_after(uuid, interval) IS
    'Waits on a standby until it shows how a lease ended, and returns true; false: it did not within timeout. After true the next statements of '
    'the transaction read at least that state. For readers. 25001 under REPEATABLE READ and SERIALIZABLE, unless the snapshot shows it. Locks '
    'nothing.';
COMMENT ON FUNCTION claims.list_leases(bigint, text, int, timestamptz) IS
    'Outstanding leases of a cell (NULL: of all cells, administrators only), oldest first, max_results at a time and at most 16 MiB of payload. '
    'To continue, pass the last row''s cursor as after; no row: there are no more. created_after leaves out older ones. context and cell_role are the '
    'client''s word, no identity. Locks nothing.';
COMMENT ON FUNCTION claims.list_records(bigint, text, text, int, text, text, text[], boolean) IS
    'Claims of a cell by source type number, source id (by length, then bytewise) and bucket, max_results at a time; optionally of one source '
    'type, of source ids above source_id_gt and up to source_id_lte, and of some bucket types. With whole_sources a page ends after a source''s '
    'last claim, and may be longer. To continue, pass the last row''s cursor as after. If set_profile() renames a source''s claims between two '
    'pages, the next page may repeat or leave out some of them, but not with whole_sources. Locks nothing.';
COMMENT ON FUNCTION claims.canonical(text, text) IS
    'The canonical form of a name by the profile of its bucket type; 22023 if the profile refuses it. For readers and cells; in a cell''s '
    'database by the cell''s own types. Executes no statement, locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.canonical_form(text, text) IS
    'The canonical form of a name by a profile (exact, casefold, username, domain, email, path); NULL if the profile refuses it. For indexes of '
    'tables of a cell. PUBLIC may execute it, so that everybody can write or restore such a table; a role that names it needs USAGE on schema '
    'claims. IMMUTABLE: a release with a newer version of Unicode requires a REINDEX. Reads no table, locks nothing.';
-- So that the planner prefers an index to a scan that calls it for every row.
ALTER FUNCTION claims.canonical_form(text, text) COST 20;
COMMENT ON FUNCTION claims.require_naming(text, text[], text[]) IS
    'Internal, at the service, for cells: 0A000 unless bucket types have these profiles here, and, for other profiles than exact, the library has '
    'this version of Unicode. Locks nothing.';
COMMENT ON FUNCTION claims.reserve_names(text, text[], text) IS
    'Reserves names of a bucket type: no cell can claim them. Returns how many were not reserved before. Administrators only, with a reason. '
    '23505 if one is claimed, 55P03 if a lease or an open transaction holds one, with all of them as JSON in DETAIL; then nothing is reserved. '
    'Locks the names'' keys, in order; waits claims.wait_timeout at most.';
COMMENT ON FUNCTION claims.unreserve_names(text, text[], text) IS
    'Frees reserved names, and returns how many. Administrators only, with a reason. Locks their rows, in order.';
COMMENT ON FUNCTION claims.set_profile(text, text, text, text, boolean) IS
    'Changes the profile of a bucket type, and all its names; administrators only, with a reason. Returns the claims that prevent the change: '
    'canonical is the common form of bucket_values, or NULL if the profile refuses a name or names only look alike. With dry_run (the default) it '
    'does no more. Without it, 23505 if there are any; otherwise it rewrites all names in place, and the profile takes effect at COMMIT. '
    'list_records() continues a source''s claims by name: a page after the change may repeat or leave out claims of the source with which the '
    'page before it ended, unless both have whole_sources. confusables NULL: unchanged. Locks claims.type_names SHARE ROW EXCLUSIVE and '
    'claims.bucket_types EXCLUSIVE: begins are 55P03 meanwhile. Waits for leases that hold names which change for claims.wait_timeout, then 55P03.';
COMMENT ON FUNCTION claims.add_bucket_type(int, text, text, text) IS
    'Adds a bucket type; administrators only. profile decides which names are the same (exact, casefold, username, domain, email, path), '
    'confusables whether names may look alike (allow, reject). Ids from 100 on are never seeded. Repeating the same call does nothing; 23505 if id '
    'or name is taken, or the type exists with another profile. Locks claims.type_names SHARE ROW EXCLUSIVE: administrators wait for each other '
    'until COMMIT.';
COMMENT ON FUNCTION claims.add_subject_type(int, text) IS
    'Adds a subject type; administrators only. Ids from 100 on are never seeded. Repeating the same pair does nothing; 23505 where id or name is '
    'taken. Locks claims.type_names SHARE ROW EXCLUSIVE: administrators wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.add_source_type(int, text) IS
    'Adds a source type; administrators only. Ids from 100 on are never seeded. Repeating the same pair does nothing; 23505 where id or name is '
    'taken. Locks claims.type_names SHARE ROW EXCLUSIVE: administrators wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.rename_type(text, int, text) IS
    'Changes the name by which a type of a kind (bucket, subject, source) is shown; administrators only. Its earlier names are still accepted, '
    'for ever. 23505 if another type has the name. Locks claims.type_names SHARE ROW EXCLUSIVE, then the type''s row: administrators wait for '
    'each other until COMMIT.';
COMMENT ON FUNCTION claims.register_cell(bigint, name, text, text, jsonb) IS
    'Registers a cell, or changes its role and those of its name, address and attributes that are given, and grants its role what a cell needs; '
    'administrators only. A role that lost its last cell loses the grants. Locks claims.audiences SHARE ROW EXCLUSIVE, then the cell''s row: '
    'administrators wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.grant_read(name) IS
    'Grants a role what a router needs: get_record, get_records, list_types, list_cells, list_changes, change_cursor and the view records; '
    'administrators only. Administrators wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.refresh_grants() IS
    'Grants every role that register_cell(), grant_read(), grant_worker() or grant_monitor() named the functions of its kind in this version; '
    'administrators only. ALTER EXTENSION claims UPDATE calls it. On distributed tables it does so on all nodes; called by a superuser, it first '
    'gives the extension''s objects to their owner on nodes that were added. Administrators wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.grant_monitor(name) IS
    'Grants a role what monitoring needs: check(), which then shows no bucket values and no payloads, metrics(), and the views leases, passes, '
    'modes, cell_limits, lease_waiters and transfers; administrators only. Administrators wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.revoke_read(name) IS
    'Revokes the grants of grant_read(); a cell''s role keeps the grants of cells. Administrators only, who wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.revoke_worker(name) IS
    'Revokes the grants of grant_worker(); administrators only, who wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.revoke_monitor(name) IS
    'Revokes the grants of grant_monitor(); administrators only, who wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.version() IS
    'The version of the library, the version of the extension in this database, the number of the protocol between cells and service, and the '
    'version of Unicode by which names are compared. For all roles with any grant. Locks nothing.';
COMMENT ON FUNCTION claims.set_mode(text, text, bigint) IS
    'At the service: sets the mode of a cell (NULL: of all cells) from the COMMIT on: open; settle_only: no begins; read_only: only reading. '
    'Calls that it does not allow fail with 55000 and the reason. The stricter of a cell''s mode and that of all cells applies. For '
    'administrators. Locks the row of the mode: two calls that set one row wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.set_cell_limits(bigint, text, int, int, int, int, int) IS
    'At the service: sets the limits of a cell from the COMMIT on (NULL: no limit): outstanding leases, records of a batch, begins and fences a '
    'second, with thousands of records that are imported or corrected; the highest claims.lease_priority (NULL: 0); and how many fences and '
    'denied calls a second have rows in claims.audit_log (NULL: 100; others are counted). A call beyond a limit fails with 53400, and HINT says when to try again. begins_per_second needs the library preloaded (22023 '
    'otherwise). For administrators. Locks the row of the limits: two calls that set one row wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.present_epoch(bigint, bigint, bigint, text, bigint, bigint, int, text, boolean) IS
    'At the service, for claims.reconcile(), claims.verify() and claims.adopt_cell(): stores a new epoch of the cell''s database, if the stored '
    'one is that epoch, its predecessor, or none; otherwise 55000, another database acts as the cell. So is the same epoch from another place '
    'while the acting one was heard of in the last 30 seconds, unless its timeline is newer. With adopt_because it stores the epoch in any case. '
    'Locks the row of the cell''s epoch until COMMIT.';
COMMENT ON FUNCTION claims.adopt_cell(bigint, text, text) IS
    'In a cell: makes this database the one that acts as the cell, after a restore, or instead of a clone, and returns its epoch. service is a '
    'foreign server that leads to the shared database. From then on claims.reconcile() and claims.verify() of any other database are 55000 there. '
    'For administrators. A process of its own commits the epoch; at the service it locks the row of the cell''s epoch, for one call.';
COMMENT ON FUNCTION claims.explain_lease(bigint, text, uuid) IS
    'In a cell: the decision that claims.reconcile() would make about a lease now (commit, rollback, wait; forget or orphan for one that the '
    'service has settled; none), and why: the outcome at the service, whether it is tracked or fenced here, the state of its transaction, and its '
    'session. Changes and fences nothing, locks nothing. For roles that may act for the cell.';
COMMENT ON FUNCTION claims.skip_capture(text) IS
    'In a cell: for the rest of this transaction, or until the savepoint before it is rolled back to, changes of claimed columns are not '
    'captured; foreign keys and other triggers work. For administrators. Locks nothing.';
COMMENT ON FUNCTION claims.lease_details(uuid, text, text) IS
    'An outstanding lease by its uuid, or by a bucket that it holds: its cell, the role that may act for that, its age, and its names as the '
    'request spelled them. A transfer that has not ended is shown without names. No row: there is none. context and cell_role are the client''s '
    'word, no identity. For administrators and the lease''s cell. Locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.force_rollback(bigint, uuid, text) IS
    'Rolls back an outstanding lease whose cell cannot, and returns {"lease_uuid", "cell_id", "cell_xid", "freed", "kept"}, with the names that '
    'are free now. If the cell''s transaction has committed, its names are then free although rows use them: look there first. P0002 unless '
    'outstanding, 55P03 while another transaction settles it. For administrators. Locks the lease''s row, then its claims in bucket order.';
COMMENT ON FUNCTION claims.release_records(bigint, text, int, boolean, boolean) IS
    'Deletes up to max_results claims that a cell has and no lease holds, and returns how many; repeat until 0. For a cell that is gone, '
    'registered or not: a WARNING if it may still begin leases. dry_run only counts. For administrators. Locks the claims, skipping locked ones; '
    'does not wait.';
COMMENT ON FUNCTION claims.remove_cell(bigint, text) IS
    'Removes a cell that has neither claims nor outstanding leases nor open transfers (55000 otherwise), with its mode; a role that loses its '
    'last cell loses what cells are granted. For administrators. Locks claims.audiences SHARE ROW EXCLUSIVE, then the cell''s row: administrators '
    'wait for each other until COMMIT.';
COMMENT ON FUNCTION claims.prepare_transfer(uuid, bigint, bigint, jsonb, text, interval) IS
    'Marks the ACTIVE claims of some subjects for a transfer from one cell to another: they become TRANSFERRING, which is leased to everyone. '
    'Arguments: transfer_uuid; from_cell; to_cell; subjects, [{"type", "ids"}, ...]; reason; max_runtime, after which the call returns and the '
    'next one continues. Returns how many claims it has marked, how many it skipped because leases hold them, and whether it has all: repeat '
    'until finished. The same uuid with other cells or subjects is 22023. For administrators. Locks the transfer''s row and the claims, skipping '
    'locked ones; does not wait (55P03).';
COMMENT ON FUNCTION claims.switch_transfer(uuid, text) IS
    'Switches a prepared transfer: one row changes, and from the COMMIT on every read returns the new cell for all its claims. true: this call '
    'did it; false: it was done before. 55000 unless the last prepare_transfer() was finished. For administrators. Locks the transfer''s row; '
    'does not wait (55P03).';
COMMENT ON FUNCTION claims.reverse_transfer(uuid, text) IS
    'Undoes a switch: from the COMMIT on every read returns the old cell again. true: this call did it; false: the claims are at the old cell '
    'already. 55000 once finish_transfer() has begun. For administrators. Locks the transfer''s row; does not wait (55P03).';
COMMENT ON FUNCTION claims.finish_transfer(uuid, interval) IS
    'Makes the claims of a switched transfer ACTIVE claims of the new cell; after max_runtime the call returns, and the next one continues. '
    'Returns how many this call has moved, and whether these were all: repeat until finished. After reverse_transfer() they become ACTIVE claims '
    'of the old cell. For administrators. Locks the transfer''s row and the claims, skipping locked ones; does not wait (55P03).';
COMMENT ON FUNCTION claims.cancel_transfer(uuid, text, interval) IS
    'Gives up a transfer that is not switched: its claims become ACTIVE claims of the old cell again; after max_runtime the call returns, and the '
    'next one continues. Returns how many this call has released, and whether these were all: repeat until finished. For administrators. Locks '
    'the transfer''s row and the claims, skipping locked ones; does not wait (55P03).';
COMMENT ON FUNCTION claims.list_changes(text, int, text) IS
    'The change feed after a cursor (NULL: from its beginning), max_results at a time and at most 16 MiB; optionally of one bucket type. Returns '
    'only changes that no open transaction of the cluster can precede: a reader that continues from the last row''s cursor gets every change '
    'once. 55000 if changes after the cursor were purged, or if the cursor is of another feed. For readers. Locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.change_cursor() IS
    'The cursor of the last change that claims.list_changes() can return now: where a new reader begins. For readers. Locks nothing, works on a '
    'hot standby.';
COMMENT ON FUNCTION claims.bucket_history(text, text) IS
    'Which cell had a name when, as far as the change feed or the audit log reaches back: one row for each period, oldest first. cell_id NULL: none; '
    'since NULL: before that; until NULL: now. context and cell_role are the word of the client, no identity. Reads the whole feed, about a second for some million changes, unless claims.change_sets has an index '
    'USING gin (bucket_values), which makes every change cost more. For administrators. Locks nothing.';
COMMENT ON FUNCTION claims.subject_history(text, text, text, int) IS
    'The names that a subject has (what: holds, with the time when its claim was made), those that it gave up and that are kept back (kept_back, with '
    'that time), and what has happened to its names (create, destroy, replace: another source, transfer, release: from quarantine), as far as claims.audit_log reaches back, newest first, max_results at a time. To continue, pass the last row''s '
    'cursor as after. context and cell_role are the word of the client, no identity. Reads all claims, about a '
    'second for ten million, since an index on subjects would cost every begin. For administrators. Locks nothing, works on a hot standby.';
COMMENT ON FUNCTION claims.erase_name(text, text, text) IS
    'Replaces a name that nobody has by a keyed hash, in all that this database keeps beyond the end of a claim, and returns the places with their '
    'numbers of rows. A name that is kept back is free then. Call it at the service and in each cell. The hash is the same for one name, until claims.forget_erasure_key(). 55000 while the '
    'name is owned, leased or reserved. Not for distributed tables. For administrators. Locks the name, as a begin does, and the rows it changes.';
COMMENT ON FUNCTION claims.forget_erasure_key(text) IS
    'Deletes the key of claims.erase_name(), so that nobody can compute what a name was replaced by; true: there was one. Later erasures use a new '
    'key. For administrators. Locks the row of the key.';
COMMENT ON FUNCTION claims.purge_changes(interval) IS
    'Deletes changes older than older_than from the beginning of the feed, up to the first younger one, and returns how many; never changes that '
    'readers cannot get yet. Locks the row of claims.change_horizon, and does nothing if another session has locked it; does not wait. For '
    'administrators.';
COMMENT ON FUNCTION claims.caller_is_admin() IS 'Internal: whether the caller is an administrator.';
COMMENT ON FUNCTION claims.change_grants(name, text[], boolean) IS 'Internal: grants or revokes the functions of some audiences.';
COMMENT ON FUNCTION claims.distribute(int, text) IS
    'Distributes the tables of the service over the nodes of a Citus cluster, once, and returns the number of shards: claims by bucket value, '
    'leases and their outcomes by uuid; every node gets types, cells and the other tables that every call reads. shards NULL: 4 for each node '
    'that keeps shards. For administrators, on the coordinator, with a reason. Locks the tables against writers until COMMIT.';
COMMENT ON FUNCTION claims.keep_pace(bigint, int) IS
    'Internal, on the node that counts begins for all nodes: counts one more begin of a cell and returns 0, or returns when the next one may be.';
COMMENT ON FUNCTION claims.hold_slot_on_node(bigint, int, bigint) IS
    'Internal, on the node that has the slots for verification for all nodes: what claims.hold_verification_slot() does, with that many slots. Waits '
    'for no other cell.';
COMMENT ON FUNCTION claims.is_current_shard(oid) IS
    'Internal, on the node of a shard: true if the node that writes belongs to the cluster and this node has the shard, else an error. Locks nothing.';
COMMENT ON FUNCTION claims.take_change_places(int) IS
    'Internal, on the node that keeps the change feed: returns its transaction, and ids for the rows of claims.change_sets that the caller will '
    'write.';
COMMENT ON FUNCTION claims.change_node() IS 'Internal: the group of this node of a Citus cluster. Locks nothing.';
COMMENT ON FUNCTION claims.buckets_in_flight(text, text[], int[]) IS
    'Internal, on the node of a shard: the buckets that another open transaction has written or locked, by their positions in the arrays. Locks '
    'nothing.';
COMMENT ON FUNCTION claims.is_lease_in_flight(text, uuid) IS
    'Internal, on the node of a shard: whether another open transaction has written or locked the row of a lease. Locks nothing.';
COMMENT ON FUNCTION claims.is_look_in_flight(text, uuid, int) IS
    'Internal, on the node of a shard: whether another open transaction has written or locked the rows of a skeleton. Locks nothing.';
COMMENT ON FUNCTION claims.is_look_reserved(text, uuid, int, boolean) IS
    'Internal, on the node of a shard: whether a name of a skeleton is reserved. Open transactions that reserve or unreserve one count, or the '
    'call waits for them. Locks nothing.';
COMMENT ON FUNCTION claims.create_on_node(text, text[], int[], bigint[], uuid, bigint, timestamptz, uuid[], int[], text[], int[], text[], int[],
    text[], text[]) IS
    'Internal, on the node of a shard, called for the row that a statement returns: creates the claims that belong to this row in further shards '
    'of the node, without a lease as ACTIVE ones, and returns how many. It writes, but is IMMUTABLE because Citus sends only such functions to a node.';
COMMENT ON FUNCTION claims.settle_on_node(int, text, int[], text[], int[], bigint[], uuid[], int[], text[], smallint, timestamptz) IS
    'Internal, on the node of a shard, called for the claim that a statement returns: makes the claims that belong to this one in further shards '
    'of the node ACTIVE, or without a time deletes them, and returns how many. It writes, but is IMMUTABLE because Citus sends only such '
    'functions to a node.';
COMMENT ON FUNCTION claims.put_outcome_on_node(uuid, bigint, bytea, bigint, text, timestamptz) IS
    'Internal, on the node of a shard, called for the lease that a statement deletes: inserts its outcome into the shard beside it. It writes, '
    'but is IMMUTABLE because Citus sends only such functions to a node.';
COMMENT ON FUNCTION claims.require_tables_here() IS 'Internal: raises 0A000 if claims.distribute() has distributed the tables of the extension.';
COMMENT ON FUNCTION claims.require_own_tables() IS
    'Internal: raises 55000 if Citus manages the tables of the extension, or if the extension in this database and the library are of different '
    'versions.';
COMMENT ON FUNCTION claims.require_admin() IS 'Internal: raises 42501 unless the caller is an administrator.';
COMMENT ON FUNCTION claims.announce_change() IS 'Internal: trigger that tells all sessions that cached rows of the table are out of date.';
COMMENT ON TRIGGER announce_change ON claims.bucket_types IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.subject_types IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.source_types IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.type_names IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.cells IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.mode_settings IS 'Sessions cache this table.';
COMMENT ON TRIGGER announce_change ON claims.limit_settings IS 'Sessions cache this table.';

-- PUBLIC gets nothing, not even the default grants of PostgreSQL.
REVOKE ALL ON ALL ROUTINES IN SCHEMA claims FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA claims FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA claims FROM PUBLIC;
REVOKE ALL ON SCHEMA claims FROM PUBLIC;
-- Nor do roles that default privileges name: with a right on the tables a cell could make itself another one.
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
        SELECT format('ALL ON ROUTINE %s', p.oid::regprocedure), a.grantee
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

-- The one exception: canonical_form(). An index calls it with the rights of the role that writes the table, and of the table's owner
-- when it is built; pg_restore builds indexes before it grants anything. It is a pure function of its arguments, runs with the
-- caller's rights, reads no table, and takes time in proportion to its argument. Without USAGE on the schema a role cannot name it,
-- only write to a table that another role has indexed by it.
GRANT EXECUTE ON FUNCTION claims.canonical_form(text, text) TO PUBLIC;

-- Every object has a comment: keys, constraints and the columns of views get a generated one.
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
