//! Statements on transfers, and on the claims that they hold.

use std::ops::ControlFlow;

use claims_model::attribution::Attribution;
use claims_model::cursor::ClaimCursor;
use uuid::Uuid;

use super::tables::{LockedTransfer, OpenWriters, STEP, StepStart, Transfer, TransferStep, TransferTables};
use super::transfers;
use crate::kernel::error::ClaimsError;
use crate::kernel::sql_text::is_row;
use crate::kernel::tables::Local;
use crate::service::claims::{OwnedName, OwnedRow};
use crate::service::feed::actor;
use pg::clock::Moment;
use pg::query::{query, record, walk};
use pg::spi::Connection;

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

walk! {
    /// Passes the claims stored under a cell that a transfer holds.
    fn held_claims(transfer: Uuid, stored_as: i64) -> OwnedRow = [Statement]
        "SELECT c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id FROM claims.claims c
          WHERE c.creator_id = :stored_as AND c.status = 4 AND c.lease_uuid = :transfer";
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
    /// Ids of subjects are compared without their types: a lease more is only waited for.
    fn reclaims(transfer: Uuid, from_cell: i64, is_whole: bool) -> i64 = [Latest]
        "SELECT count(*) FROM claims.claims c JOIN claims.claim_leases l ON l.uuid = c.lease_uuid
          WHERE c.creator_id = -1 AND c.status = 6 AND l.creator_id = :from_cell
            AND (:is_whole OR EXISTS (SELECT FROM jsonb_array_elements(l.payload -> 'create_records') r (record)
                                        JOIN claims.transfer_subjects s ON s.subject_id = r.record #>> '{subject,id}'
                                       WHERE s.transfer_uuid = :transfer))";
    /// Records that all claims that a transfer holds have moved from a cell to another one. Reads all claims of the cell under which they are
    /// stored.
    fn record_moved(
        transfer: Uuid, stored_as: i64, from: i64, to: i64, actor: &str, context: Option<&str>, cell_role: Option<&str>,
    ) = [Statement]
        "WITH held AS MATERIALIZED (
             SELECT c.bucket_type, c.bucket_value FROM claims.claims c
              WHERE c.creator_id = :stored_as AND c.status = 4 AND c.lease_uuid = :transfer)
         INSERT INTO claims.change_sets (op, old_cell_id, new_cell_id, lease_uuid, actor, bucket_types, bucket_values, context, cell_role)
         SELECT 'transfer', :from, :to, :transfer, :actor, array_agg(n.bucket_type), array_agg(n.bucket_value), :context, :cell_role
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

    fn count_reclaims(&self, connection: &Connection, transfer: &Transfer) -> i64 {
        reclaims(connection, transfer.uuid, transfer.from_cell, transfer.is_whole)
    }

    fn tell_moved(
        &self,
        connection: &Connection,
        transfer: &Transfer,
        [from, to]: [i64; 2],
        Attribution { context, cell_role }: Attribution,
    ) {
        let (context, cell_role) = (context.as_deref(), cell_role.as_deref());
        record_moved(connection, transfer.uuid, transfer.from_cell, from, to, &actor(), context, cell_role);
    }

    fn each_held(&self, connection: &Connection, transfer: &Transfer, size: usize, each: &mut dyn FnMut(&[OwnedName])) {
        let mut portion: Vec<OwnedName> = Vec::with_capacity(size);
        held_claims(connection, transfer.uuid, transfer.from_cell, |row: OwnedRow| {
            portion.push(row.into());
            if portion.len() == size {
                each(&portion);
                portion.clear();
            }
            ControlFlow::Continue(())
        });
        if !portion.is_empty() {
            each(&portion);
        }
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
