//! Statements on transfers, and on the claims that they hold.

use claims_model::Types;
use claims_model::cursor::ClaimCursor;
use uuid::Uuid;

use super::tables::{LockedTransfer, OpenWriters, STEP, StepStart, Transfer, TransferStep, TransferTables};
use super::transfers;
use crate::kernel::error::ClaimsError;
use crate::kernel::sql_text::is_row;
use crate::kernel::tables::Local;
use crate::service::audit::{AuditColumns, AuditRow};
use crate::service::feed::actor;
use pg::clock::Moment;
use pg::query::{arguments, query, record};
use pg::spi::{Connection, Inet};

record! {
    struct StepRow {
        found: i64,
        wanted: i64,
        changed: i64,
        source_type: Option<i32>,
        source_id: Option<String>,
        bucket_type: Option<i32>,
        bucket_value: Option<String>,
    }
}

/// Changes those of the next claims of a cell after a claim, in the order of the index by source, that `$which` selects and for whose newest
/// version `$still` holds. Skips those that another transaction has locked. Returns how many claims it has read, wanted and changed, and the
/// last one that it has read. It reads whole sources and then sorts them completely, so whatever the statistics say, no more rows are
/// sorted.
macro_rules! step {
    (which $which:literal still $still:literal set $set:literal) => {
        concat!(
            "WITH page AS MATERIALIZED (
                 SELECT c.source_type, c.source_id, c.bucket_type, c.bucket_value, c.subject_type, c.subject_id,
                        c.status = 4 AND c.lease_uuid IS NOT DISTINCT FROM :transfer AS is_held
                   FROM (SELECT * FROM claims.claims c
                          WHERE c.creator_id = :from_cell
                            AND (c.source_type, length(c.source_id), c.source_id) >= (:source_type, length(:source_id), :source_id)
                            AND ((c.source_type, length(c.source_id), c.source_id) > (:source_type, length(:source_id), :source_id)
                                 OR (c.bucket_type, c.bucket_value) > (:bucket_type, :bucket_value))
                          ORDER BY c.source_type, length(c.source_id), c.source_id FETCH FIRST (:most) ROWS WITH TIES) c
                  ORDER BY c.source_type, length(c.source_id), c.source_id, c.bucket_type, c.bucket_value
                  LIMIT :most),
              wanted AS MATERIALIZED (
                  SELECT p.bucket_type, p.bucket_value, p.subject_type, p.subject_id FROM page p WHERE ",
            $which,
            "),
              free AS MATERIALIZED (
                  SELECT c.bucket_value, c.bucket_type FROM wanted w JOIN claims.claims c ON ",
            is_row!("c.bucket_value", "c.bucket_type", "w.bucket_value", "w.bucket_type"),
            "      WHERE ",
            $still,
            "        FOR UPDATE OF c SKIP LOCKED),
              changed AS (
                  UPDATE claims.claims c SET ",
            $set,
            ", updated_at = :at FROM free f WHERE ",
            is_row!("c.bucket_value", "c.bucket_type", "f.bucket_value", "f.bucket_type"),
            "     RETURNING 1)
             SELECT (SELECT count(*) FROM page) AS found, (SELECT count(*) FROM wanted) AS wanted, (SELECT count(*) FROM changed) AS changed,
                    l.source_type, l.source_id, l.bucket_type, l.bucket_value
               FROM (SELECT 1) one
               LEFT JOIN (SELECT * FROM page p
                           ORDER BY p.source_type DESC, length(p.source_id) DESC, p.source_id DESC, p.bucket_type DESC, p.bucket_value DESC
                           LIMIT 1) l ON true"
        )
    };
}

arguments! {
    struct MovedColumns<'r> {
        at: Moment,
        id: i64,
        cell_id: i64,
        what: &'r str,
        session_role: &'r str,
        client_address: Option<Inet>,
        application_name: &'r str,
    }
}

query! {
    /// Locks the cells of a new transfer, so that they cannot be removed before the transfer is in its table.
    fn lock_two_cells(from_cell: i64, to_cell: i64) -> usize = [Statement]
        "SELECT c.cell_id FROM claims.cells c WHERE c.cell_id = :from_cell OR c.cell_id = :to_cell ORDER BY c.cell_id FOR KEY SHARE NOWAIT";
    fn lock(transfer: Uuid) -> Option<LockedTransfer> = [Statement]
        "SELECT t.from_cell, t.to_cell, t.cell_id, t.state, t.held, t.skipped, t.request_digest, t.marking_after, t.releasing_after,
                t.reversed_at IS NOT NULL AS was_reversed, t.subjects IS NULL AS is_whole, t.sealed_by, t.xmin::text::bigint AS xmin
           FROM claims.cell_transfers t WHERE t.transfer_uuid = :transfer FOR UPDATE NOWAIT";
    /// Marks those claims of a page that are ACTIVE and belong to the transfer's subjects.
    fn mark(at: Moment; ..from: StepStart) -> Option<StepRow> = [Statement] step!(
        which "NOT p.is_held AND EXISTS (SELECT FROM claims.transfer_subjects s
                                          WHERE s.transfer_uuid = :transfer AND s.subject_type = p.subject_type AND s.subject_id = p.subject_id)"
        still "c.status = 1 AND c.creator_id IS NOT DISTINCT FROM :from_cell
               AND c.subject_type = w.subject_type AND c.subject_id = w.subject_id"
        set "status = 4, lease_uuid = :transfer");
    /// Like [`mark`], for all ACTIVE claims of a page.
    fn mark_all(at: Moment; ..from: StepStart) -> Option<StepRow> = [Statement] step!(
        which "NOT p.is_held"
        still "c.status = 1 AND c.creator_id IS NOT DISTINCT FROM :from_cell"
        set "status = 4, lease_uuid = :transfer");
    /// Makes those claims of a page that the transfer holds ACTIVE claims of a cell.
    fn release(at: Moment, cell_id: i64; ..from: StepStart) -> Option<StepRow> = [Statement] step!(
        which "p.is_held"
        still "c.status = 4 AND c.lease_uuid IS NOT DISTINCT FROM :transfer"
        set "creator_id = :cell_id, status = 1, lease_uuid = NULL");
    /// Records that a transfer has moved the claims stored under a cell that it holds. The rows have the same id, and different times.
    fn record_moved_in_audit_log(transfer: Uuid, stored_as: i64, types: &[i32], type_names: &[&str]; ..like: MovedColumns) = [Statement]
        "INSERT INTO claims.audit_log (at, id, cell_id, what, lease_uuid, session_role, client_address, application_name, ops, bucket_types,
                                       bucket_values)
         SELECT :at + n.portion * interval '1 microsecond', :id, :cell_id, :what, :transfer, :session_role, :client_address, :application_name,
                array_agg('transfer'::text), array_agg((:type_names)[array_position(:types, n.bucket_type)]), array_agg(n.bucket_value)
           FROM (SELECT c.bucket_type, c.bucket_value, (row_number() OVER () - 1) / 1000 AS portion FROM claims.claims c
                  WHERE c.creator_id = :stored_as AND c.status = 4 AND c.lease_uuid = :transfer) n
          GROUP BY n.portion";
    /// Records that all claims that a transfer holds have moved from a cell to another one. Reads all claims of the cell under which they are
    /// stored.
    fn record_moved(transfer: Uuid, stored_as: i64, from: i64, to: i64, actor: &str) = [Statement]
        "WITH held AS MATERIALIZED (
             SELECT c.bucket_type, c.bucket_value FROM claims.claims c
              WHERE c.creator_id = :stored_as AND c.status = 4 AND c.lease_uuid = :transfer)
         INSERT INTO claims.change_sets (op, old_cell_id, new_cell_id, lease_uuid, actor, bucket_types, bucket_values)
         SELECT 'transfer', :from, :to, :transfer, :actor, array_agg(n.bucket_type), array_agg(n.bucket_value)
           FROM (SELECT h.bucket_type, h.bucket_value, (row_number() OVER () - 1) / 1000 AS portion FROM held h) n
          GROUP BY n.portion ORDER BY n.portion";
}

impl TransferTables for Local {
    fn lock_transfer(&self, connection: &Connection, uuid: Uuid) -> Option<Transfer> {
        lock(connection, uuid).map(|row| row.of(uuid))
    }

    fn lock_cells(&self, connection: &Connection, [from_cell, to_cell]: [i64; 2]) -> usize {
        lock_two_cells(connection, from_cell, to_cell)
    }

    fn mark_held(&self, connection: &Connection, transfer: &Transfer, after: Option<&ClaimCursor>) -> TransferStep {
        let mark = if transfer.is_whole { mark_all } else { mark };
        mark(connection, Moment::now(), StepStart::of(transfer, after)).into()
    }

    fn release_held(&self, connection: &Connection, transfer: &Transfer, after: Option<&ClaimCursor>) -> TransferStep {
        release(connection, Moment::now(), transfer.cell_id, StepStart::of(transfer, after)).into()
    }

    fn tell_moved(&self, connection: &Connection, transfer: &Transfer, from: i64, to: i64) {
        record_moved(connection, transfer.uuid, transfer.from_cell, from, to, &actor());
    }

    fn audit_moved(&self, connection: &Connection, types: &Types, transfer: &Transfer, like: &AuditRow) {
        let (ids, names): (Vec<i32>, Vec<&str>) = types.bucket.first_names().unzip();
        let AuditColumns { at, id, cell_id, what, session_role, client_address, application_name, .. } = like.columns();
        let like = MovedColumns { at, id, cell_id, what, session_role, client_address, application_name };
        record_moved_in_audit_log(connection, transfer.uuid, transfer.from_cell, &ids, &names, like);
    }

    fn write_transfers(&self, write: &mut dyn FnMut()) {
        write();
    }

    fn open_writers(&self, connection: &Connection, _: i64) -> Result<OpenWriters, ClaimsError> {
        Ok(transfers::open_writers_here(connection))
    }
}

impl From<Option<StepRow>> for TransferStep {
    fn from(row: Option<StepRow>) -> Self {
        let Some(row) = row else { return TransferStep { wanted: 0, changed: 0, after: None } };
        let last = (row.source_type, row.source_id, row.bucket_type, row.bucket_value);
        let after = match last {
            (Some(source_type), Some(source_id), Some(bucket_type), Some(bucket_value)) if row.found == STEP => {
                Some(ClaimCursor { source_type, source_id, bucket_type, bucket_value })
            }
            _ => None,
        };
        TransferStep { wanted: row.wanted, changed: row.changed, after }
    }
}
