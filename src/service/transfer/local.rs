//! Statements on transfers, and on the claims that they hold.

use std::ops::ControlFlow;

use claims_model::attribution::Attribution;
use claims_model::cursor::{ClaimCursor, SubjectCursor};
use uuid::Uuid;

use super::tables::{
    LockedTransfer, OpenWriters, PassPosition, STEP, StepStart, SubjectStepStart, Transfer, TransferStep,
    TransferTables,
};
use super::transfers;
use crate::kernel::error::ClaimsError;
use crate::kernel::sql_text::{creates_for_transfer, is_row};
use crate::kernel::tables::Local;
use crate::service::claims::{OwnedName, OwnedRow};
use crate::service::feed::actor;
use pg::clock::Moment;
use pg::query::{query, record, walk};
use pg::spi::Connection;

record! {
    /// The counts of a step, and the last claim that it has read: its source or its subject, and its bucket.
    struct StepRow {
        found: i64,
        wanted: i64,
        changed: i64,
        owner_type: Option<i32>,
        owner_id: Option<String>,
        bucket_type: Option<i32>,
        bucket_value: Option<String>,
    }
}

/// The next claims of a cell after a claim, in the order of the index by source. Whole sources are read and then sorted completely, so whatever the
/// statistics say, no more rows are sorted. `last` selects the last claim of the page, with its source as its owner.
macro_rules! by_source {
    (page) => {
        "SELECT c.source_type, c.source_id, c.bucket_type, c.bucket_value, c.subject_type, c.subject_id,
                c.status = 4 AND c.lease_uuid IS NOT DISTINCT FROM :transfer AS is_held
           FROM (SELECT * FROM claims.claims c
                  WHERE c.creator_id = :from_cell
                    AND (c.source_type, length(c.source_id), c.source_id) >= (:source_type, length(:source_id), :source_id)
                    AND ((c.source_type, length(c.source_id), c.source_id) > (:source_type, length(:source_id), :source_id)
                         OR (c.bucket_type, c.bucket_value) > (:bucket_type, :bucket_value))
                  ORDER BY c.source_type, length(c.source_id), c.source_id FETCH FIRST (:most) ROWS WITH TIES) c
          ORDER BY c.source_type, length(c.source_id), c.source_id, c.bucket_type, c.bucket_value
          LIMIT :most"
    };
    (last) => {
        "SELECT p.source_type AS owner_type, p.source_id AS owner_id, p.bucket_type, p.bucket_value FROM page p
          ORDER BY p.source_type DESC, length(p.source_id) DESC, p.source_id DESC, p.bucket_type DESC, p.bucket_value DESC LIMIT 1"
    };
}

/// Like [`by_source`], the next claims of the transfer's subjects, in the order of the index that [`has_subject_index`] looks for. Only the subject
/// of the position has claims before it; numbers of types begin at 0.
macro_rules! by_subject {
    (page) => {
        "SELECT c.bucket_type, c.bucket_value, c.subject_type, c.subject_id,
                c.status = 4 AND c.lease_uuid IS NOT DISTINCT FROM :transfer AS is_held
           FROM (SELECT t.subject_type, t.subject_id,
                        CASE WHEN (t.subject_type, t.subject_id) = (:subject_type, :subject_id) THEN :bucket_type ELSE -1 END AS after_type,
                        CASE WHEN (t.subject_type, t.subject_id) = (:subject_type, :subject_id) THEN :bucket_value ELSE '' END AS after_value
                   FROM claims.transfer_subjects t
                  WHERE t.transfer_uuid = :transfer AND (t.subject_type, t.subject_id) >= (:subject_type, :subject_id)) s
          CROSS JOIN LATERAL (
                 SELECT * FROM claims.claims c
                  WHERE c.subject_type = s.subject_type AND c.subject_id = s.subject_id AND c.creator_id = :from_cell
                    AND (c.bucket_type, c.bucket_value) > (s.after_type, s.after_value)
                  ORDER BY c.bucket_type, c.bucket_value LIMIT :most) c
          ORDER BY s.subject_type, s.subject_id, c.bucket_type, c.bucket_value
          LIMIT :most"
    };
    (last) => {
        "SELECT p.subject_type AS owner_type, p.subject_id AS owner_id, p.bucket_type, p.bucket_value FROM page p
          ORDER BY p.subject_type DESC, p.subject_id DESC, p.bucket_type DESC, p.bucket_value DESC LIMIT 1"
    };
}

/// Changes those of a page of claims that `$which` selects and for whose newest version `$still` holds. Skips those that another transaction has
/// locked. Returns how many claims it has read, wanted and changed, and the last one that it has read.
macro_rules! step {
    ($order:ident which $which:literal still $still:literal set $set:literal) => {
        concat!(
            "WITH page AS MATERIALIZED (",
            $order!(page),
            "),
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
                    l.owner_type, l.owner_id, l.bucket_type, l.bucket_value
               FROM (SELECT 1) one LEFT JOIN (",
            $order!(last),
            ") l ON true"
        )
    };
}

/// The claims that a transfer holds, of a whole cell or of subjects: `$columns` of them. With subjects the planner can use an index by subject.
macro_rules! held {
    (of cell $columns:literal) => {
        concat!("SELECT ", $columns, " FROM claims.claims c WHERE c.creator_id = :stored_as AND c.status = 4 AND c.lease_uuid = :transfer")
    };
    (of subjects $columns:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM claims.transfer_subjects s JOIN claims.claims c ON c.subject_type = s.subject_type AND c.subject_id = s.subject_id
               WHERE s.transfer_uuid = :transfer AND c.creator_id = :stored_as AND c.status = 4 AND c.lease_uuid = :transfer"
        )
    };
}

/// Records that claims which a transfer holds have moved from a cell to another one.
macro_rules! record_moved {
    ($of:ident) => {
        concat!(
            "WITH held AS MATERIALIZED (",
            held!(of $of "c.bucket_type, c.bucket_value"),
            ")
             INSERT INTO claims.change_sets (op, old_cell_id, new_cell_id, lease_uuid, actor, bucket_types, bucket_values, context, cell_role)
             SELECT 'transfer', :from, :to, :transfer, :actor, array_agg(n.bucket_type), array_agg(n.bucket_value), :context, :cell_role
               FROM (SELECT h.bucket_type, h.bucket_value, (row_number() OVER () - 1) / 1000 AS portion FROM held h) n
              GROUP BY n.portion ORDER BY n.portion"
        )
    };
}

walk! {
    /// Passes the claims stored under a cell that a transfer of the whole cell holds.
    fn held_of_cell(transfer: Uuid, stored_as: i64) -> OwnedRow = [Statement]
        held!(of cell "c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id");
    /// Passes the claims stored under a cell that a transfer of subjects holds.
    fn held_of_subjects(transfer: Uuid, stored_as: i64) -> OwnedRow = [Statement]
        held!(of subjects "c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id");
}

query! {
    /// Locks the cells of a new transfer, so that they cannot be removed before the transfer is in its table.
    fn lock_two_cells(from_cell: i64, to_cell: i64) -> usize = [Statement]
        "SELECT c.cell_id FROM claims.cells c WHERE c.cell_id = :from_cell OR c.cell_id = :to_cell ORDER BY c.cell_id FOR KEY SHARE NOWAIT";
    fn lock(transfer: Uuid) -> Option<LockedTransfer> = [Statement]
        "SELECT t.from_cell, t.to_cell, t.cell_id, t.state, t.held, t.skipped, t.request_digest, t.marking_after, t.releasing_after,
                t.reversed_at IS NOT NULL AS was_reversed, t.subjects IS NULL AS is_whole, t.sealed_by, t.xmin::text::bigint AS xmin
           FROM claims.cell_transfers t WHERE t.transfer_uuid = :transfer FOR UPDATE NOWAIT";
    /// Returns whether claims have an index by subject, which administrators make for transfers of few names of a cell with many. Without it all
    /// claims of the cell are read.
    fn has_subject_index() -> bool = [Latest]
        "SELECT EXISTS (
             SELECT FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam
              WHERE i.indrelid = 'claims.claims'::regclass AND i.indisvalid AND i.indpred IS NULL AND m.amname = 'btree'
                AND (SELECT array_agg(a.attname::text ORDER BY k.nth) FROM unnest(i.indkey) WITH ORDINALITY k (number, nth)
                       JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
                      WHERE k.nth <= i.indnkeyatts) = '{subject_type,subject_id,bucket_type,bucket_value}')";
    /// Marks those claims of a page that are ACTIVE and belong to the transfer's subjects.
    fn mark(at: Moment; ..from: StepStart) -> Option<StepRow> = [Statement] step!(by_source
        which "NOT p.is_held AND EXISTS (SELECT FROM claims.transfer_subjects s
                                          WHERE s.transfer_uuid = :transfer AND s.subject_type = p.subject_type AND s.subject_id = p.subject_id)"
        still "c.status = 1 AND c.creator_id IS NOT DISTINCT FROM :from_cell
               AND c.subject_type = w.subject_type AND c.subject_id = w.subject_id"
        set "status = 4, lease_uuid = :transfer");
    fn mark_by_subject(at: Moment; ..from: SubjectStepStart) -> Option<StepRow> = [Statement] step!(by_subject
        which "NOT p.is_held"
        still "c.status = 1 AND c.creator_id IS NOT DISTINCT FROM :from_cell
               AND c.subject_type = w.subject_type AND c.subject_id = w.subject_id"
        set "status = 4, lease_uuid = :transfer");
    /// Like [`mark`], for all ACTIVE claims of a page.
    fn mark_all(at: Moment; ..from: StepStart) -> Option<StepRow> = [Statement] step!(by_source
        which "NOT p.is_held"
        still "c.status = 1 AND c.creator_id IS NOT DISTINCT FROM :from_cell"
        set "status = 4, lease_uuid = :transfer");
    /// Makes those claims of a page that the transfer holds ACTIVE claims of a cell.
    fn release(at: Moment, cell_id: i64; ..from: StepStart) -> Option<StepRow> = [Statement] step!(by_source
        which "p.is_held"
        still "c.status = 4 AND c.lease_uuid IS NOT DISTINCT FROM :transfer"
        set "creator_id = :cell_id, status = 1, lease_uuid = NULL");
    fn release_by_subject(at: Moment, cell_id: i64; ..from: SubjectStepStart) -> Option<StepRow> = [Statement] step!(by_subject
        which "p.is_held"
        still "c.status = 4 AND c.lease_uuid IS NOT DISTINCT FROM :transfer"
        set "creator_id = :cell_id, status = 1, lease_uuid = NULL");
    fn reclaims(transfer: Uuid, from_cell: i64, is_whole: bool) -> i64 = [Latest] concat!(
        "SELECT count(*) FROM claims.claims c JOIN claims.claim_leases l ON l.uuid = c.lease_uuid
          WHERE c.creator_id = -1 AND c.status = 6 AND l.creator_id = :from_cell AND ", creates_for_transfer!());
    fn tell_of_cell(
        transfer: Uuid, stored_as: i64, from: i64, to: i64, actor: &str, context: Option<&str>, cell_role: Option<&str>,
    ) = [Statement] record_moved!(cell);
    fn tell_of_subjects(
        transfer: Uuid, stored_as: i64, from: i64, to: i64, actor: &str, context: Option<&str>, cell_role: Option<&str>,
    ) = [Statement] record_moved!(subjects);
}

impl TransferTables for Local {
    fn lock_transfer(&self, connection: &Connection, uuid: Uuid) -> Option<Transfer> {
        lock(connection, uuid).map(|row| row.of(uuid))
    }

    fn lock_cells(&self, connection: &Connection, [from_cell, to_cell]: [i64; 2]) -> usize {
        lock_two_cells(connection, from_cell, to_cell)
    }

    fn mark_held(&self, connection: &Connection, transfer: &Transfer, after: Option<&PassPosition>) -> TransferStep {
        let now = Moment::now();
        match order(connection, transfer, after) {
            PassOrder::BySubject(after) => {
                by_subject(mark_by_subject(connection, now, SubjectStepStart::of(transfer, after)))
            }
            PassOrder::BySource(after) => {
                let mark = if transfer.is_whole { mark_all } else { mark };
                by_source(mark(connection, now, StepStart::of(transfer, after)))
            }
        }
    }

    fn release_held(&self, connection: &Connection, transfer: &Transfer, after: Option<&PassPosition>) -> TransferStep {
        let (now, cell_id) = (Moment::now(), transfer.cell_id);
        match order(connection, transfer, after) {
            PassOrder::BySubject(after) => {
                by_subject(release_by_subject(connection, now, cell_id, SubjectStepStart::of(transfer, after)))
            }
            PassOrder::BySource(after) => by_source(release(connection, now, cell_id, StepStart::of(transfer, after))),
        }
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
        let tell = if transfer.is_whole { tell_of_cell } else { tell_of_subjects };
        tell(connection, transfer.uuid, transfer.from_cell, from, to, &actor(), context, cell_role);
    }

    fn each_held(&self, connection: &Connection, transfer: &Transfer, size: usize, each: &mut dyn FnMut(&[OwnedName])) {
        let mut portion: Vec<OwnedName> = Vec::with_capacity(size);
        let pass = |row: OwnedRow| {
            portion.push(row.into());
            if portion.len() == size {
                each(&portion);
                portion.clear();
            }
            ControlFlow::Continue(())
        };
        match transfer.is_whole {
            true => held_of_cell(connection, transfer.uuid, transfer.from_cell, pass),
            false => held_of_subjects(connection, transfer.uuid, transfer.from_cell, pass),
        };
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

/// The order in which a step reads claims, and where it begins. A pass keeps the order in which it began.
enum PassOrder<'p> {
    BySource(Option<&'p ClaimCursor>),
    BySubject(Option<&'p SubjectCursor>),
}

fn order<'p>(connection: &Connection, transfer: &Transfer, after: Option<&'p PassPosition>) -> PassOrder<'p> {
    match after {
        Some(PassPosition::BySource(cursor)) => PassOrder::BySource(Some(cursor)),
        Some(PassPosition::BySubject(cursor)) => PassOrder::BySubject(Some(cursor)),
        None if !transfer.is_whole && has_subject_index(connection) => PassOrder::BySubject(None),
        None => PassOrder::BySource(None),
    }
}

fn by_source(row: Option<StepRow>) -> TransferStep {
    step(row, |source_type, source_id, bucket_type, bucket_value| {
        PassPosition::BySource(ClaimCursor { source_type, source_id, bucket_type, bucket_value })
    })
}

fn by_subject(row: Option<StepRow>) -> TransferStep {
    step(row, |subject_type, subject_id, bucket_type, bucket_value| {
        PassPosition::BySubject(SubjectCursor { subject_type, subject_id, bucket_type, bucket_value })
    })
}

/// Returns the result of a step. `position` makes a position of its last claim; a step that was not full is the last one.
fn step(row: Option<StepRow>, position: impl FnOnce(i32, String, i32, String) -> PassPosition) -> TransferStep {
    let Some(row) = row else { return TransferStep { wanted: 0, changed: 0, after: None } };
    let after = match (row.owner_type, row.owner_id, row.bucket_type, row.bucket_value) {
        (Some(owner_type), Some(owner_id), Some(bucket_type), Some(bucket_value)) if row.found == STEP => {
            Some(position(owner_type, owner_id, bucket_type, bucket_value))
        }
        _ => None,
    };
    TransferStep { wanted: row.wanted, changed: row.changed, after }
}
