//! Transfers of distributed claims. The tables of transfers are complete on every node, and are written on the coordinator only.

use std::convert::Infallible;

use claims_model::Bucket;
use claims_model::attribution::Attribution;
use claims_model::cursor::ClaimCursor;
use claims_model::transfer::Seal;
use uuid::Uuid;

use super::cluster::Citus;
use super::distribute::NodeAnswer;
use super::errors::DistributionError;
use super::keys::by_shard;
use crate::kernel::call::Call;
use crate::kernel::error::ClaimsError;
use crate::kernel::modes::EVERYBODY;
use crate::kernel::sql_text::creates_for_transfer;
use crate::service::claims::{OwnedName, OwnedRow, values_by_type};
use crate::service::feed::{Change, ChangeSet, FeedTables};
use crate::service::transfer::transfers::{self, WRITERS};
use crate::service::transfer::{
    LockedTransfer, OpenWriters, PassPosition, STEP, StepStart, Transfer, TransferStep, TransferTables,
};
use pg::clock::Moment;
use pg::query::{Record, query, record};
use pg::settings::{LockWaits, under};
use pg::spi::Connection;

record! {
    /// A claim that a step has found.
    struct Found {
        source_type: i32,
        source_id: String,
        bucket_type: i32,
        bucket_value: String,
        is_free: bool,
    }
}

/// A page of claims stored under a cell, after a claim, in the order of the index by source.
macro_rules! page {
    ($is_free:literal, $from:literal, $which:literal) => {
        concat!(
            "SELECT c.source_type, c.source_id, c.bucket_type, c.bucket_value, ",
            $is_free,
            " AS is_free FROM ",
            $from,
            " WHERE c.creator_id = :from_cell AND ",
            $which,
            "   AND (c.source_type, length(c.source_id), c.source_id) >= (:source_type, length(:source_id), :source_id)
                AND ((c.source_type, length(c.source_id), c.source_id) > (:source_type, length(:source_id), :source_id)
                     OR (c.bucket_type, c.bucket_value) > (:bucket_type, :bucket_value))
              ORDER BY c.source_type, length(c.source_id), c.source_id, c.bucket_type, c.bucket_value LIMIT :most"
        )
    };
}

/// Changes claims which are all in one shard. Skips those that another transaction has locked.
macro_rules! change {
    ($which:literal, $set:literal) => {
        concat!(
            "WITH free AS MATERIALIZED (
                 SELECT c.bucket_value FROM claims.claims c
                  WHERE c.bucket_value = ANY (:bucket_values) AND c.bucket_type = :bucket_type AND c.creator_id = :from_cell AND ",
            $which,
            "       FOR UPDATE OF c SKIP LOCKED)
             UPDATE claims.claims c SET ",
            $set,
            ", updated_at = :at FROM free f
              WHERE c.bucket_value = f.bucket_value AND c.bucket_value = ANY (:bucket_values) AND c.bucket_type = :bucket_type"
        )
    };
}

query! {
    /// Reads a page of the claims of the transfer's subjects that the transfer does not hold, and whether they are ACTIVE.
    fn wanted(; ..from: StepStart) -> Vec<Found> = [Latest Anywhere] page!(
        "c.status = 1",
        "claims.claims c JOIN claims.transfer_subjects s
           ON s.transfer_uuid = :transfer AND s.subject_type = c.subject_type AND s.subject_id = c.subject_id",
        "c.lease_uuid IS DISTINCT FROM :transfer");
    /// Like [`wanted`], for all claims of the cell.
    fn wanted_of_all(; ..from: StepStart) -> Vec<Found> = [Latest Anywhere] page!("c.status = 1", "claims.claims c", "c.lease_uuid IS DISTINCT FROM :transfer");
    fn held_page(; ..from: StepStart) -> Vec<Found> = [Latest Anywhere] page!("true", "claims.claims c", "c.status = 4 AND c.lease_uuid = :transfer");
    fn mark(transfer: Uuid, from_cell: i64, at: Moment, bucket_type: i32, bucket_values: &[&str]) -> usize = [Statement Anywhere] change!(
        "c.status = 1 AND EXISTS (SELECT FROM claims.transfer_subjects s
                                   WHERE s.transfer_uuid = :transfer AND s.subject_type = c.subject_type AND s.subject_id = c.subject_id)",
        "status = 4, lease_uuid = :transfer");
    fn mark_all(transfer: Uuid, from_cell: i64, at: Moment, bucket_type: i32, bucket_values: &[&str]) -> usize = [Statement Anywhere]
        change!("c.status = 1", "status = 4, lease_uuid = :transfer");
    fn release(transfer: Uuid, from_cell: i64, at: Moment, bucket_type: i32, bucket_values: &[&str], cell_id: i64) -> usize
        = [Statement Anywhere]
        change!("c.status = 4 AND c.lease_uuid = :transfer", "creator_id = :cell_id, status = 1, lease_uuid = NULL");
    fn all_held(transfer: Uuid, from_cell: i64) -> Vec<OwnedRow> = [Latest Anywhere]
        "SELECT c.bucket_type, c.bucket_value, c.subject_type, c.subject_id, c.source_type, c.source_id FROM claims.claims c
          WHERE c.creator_id = :from_cell AND c.status = 4 AND c.lease_uuid = :transfer";
    fn reclaiming_leases() -> Vec<Uuid> = [Latest Anywhere]
        "SELECT DISTINCT c.lease_uuid FROM claims.claims c WHERE c.creator_id = -1 AND c.status = 6 AND c.lease_uuid IS NOT NULL";
    fn count_for_transfer(leases: &[Uuid], transfer: Uuid, from_cell: i64, is_whole: bool) -> i64 = [Latest Anywhere] concat!(
        "SELECT count(*) FROM claims.claim_leases l WHERE l.uuid = ANY (:leases) AND l.creator_id = :from_cell AND ", creates_for_transfer!());
    /// Inserts the key of an existing transfer on every node, which changes nothing. It conflicts with a transaction that has
    /// inserted the row on a node that has not recovered yet. There the row is invisible, and every change would miss it.
    fn pass_key(transfer: Uuid, from_cell: i64, to_cell: i64, nobody: &str) = [Statement Anywhere]
        "INSERT INTO claims.cell_transfers (transfer_uuid, from_cell, to_cell, cell_id, state, subjects, request_digest, reason, role)
         VALUES (:transfer, :from_cell, :to_cell, :from_cell, 'preparing', 0, '', '', :nobody::name) ON CONFLICT DO NOTHING";
    /// Returns the shard of a table that has only one.
    fn only_shard(table: &str) -> Option<String> = [Latest Anywhere]
        "SELECT s.shardid::text FROM pg_dist_shard s WHERE s.logicalrelid = :table::regclass";
    fn ask_workers(command: &str) -> Vec<NodeAnswer> = [Latest Anywhere]
        "SELECT r.success, format('%s:%s', r.nodename, r.nodeport) AS node, r.result FROM pg_catalog.run_command_on_workers(:command) r";
}

/// Returns this node's shard of a reference table.
pub fn shard(connection: &Connection, table: &str) -> String {
    format!("{table}_{}", only_shard(connection, &format!("claims.{table}")).unwrap_or_default())
}

/// Runs `write`, which writes to the tables of transfers. The row lock on the transfer suffices: without the first setting Citus
/// would lock the whole table. The second setting writes this node's rows in this session, which has locked them.
fn writing<T>(write: impl FnOnce() -> T) -> T {
    under(&[(c"citus.all_modifications_commutative", c"on"), (c"citus.enable_local_execution", c"on")], write)
}

/// Lock timeout in milliseconds for the node of the feed. The rows are new, so the wait is for relation extension.
const FEED_LOCK_TIMEOUT_MS: i64 = 100;

impl TransferTables for Citus {
    fn lock_transfer(&self, connection: &Connection, uuid: Uuid) -> Option<Transfer> {
        // Uses the shard itself, because Citus would lock the rows on all nodes.
        let (shard, uuid_at) = (shard(connection, "cell_transfers"), 1);
        let text = format!(
            "SELECT t.from_cell, t.to_cell, t.cell_id, t.state, t.held, t.skipped, t.request_digest, t.marking_after, t.releasing_after,
                    t.reversed_at IS NOT NULL AS was_reversed, t.subjects IS NULL AS is_whole, t.sealed_by, t.xmin::text::bigint AS xmin
               FROM claims.{shard} t WHERE t.transfer_uuid = ${uuid_at} FOR UPDATE NOWAIT"
        );
        let transfer = connection.run_text(&text, [uuid.into()]).first(|row| LockedTransfer::read(&row))?.of(uuid);
        writing(|| pass_key(connection, uuid, transfer.from_cell, transfer.to_cell, ""));
        Some(transfer)
    }

    fn lock_cells(&self, connection: &Connection, cells: [i64; 2]) -> usize {
        let text = format!(
            "SELECT c.cell_id FROM claims.{} c WHERE c.cell_id IN ({}, {}) ORDER BY c.cell_id FOR KEY SHARE NOWAIT",
            shard(connection, "cells"),
            cells[0],
            cells[1]
        );
        connection.run_text(&text, []).count()
    }

    fn mark_held(&self, connection: &Connection, transfer: &Transfer, after: Option<&PassPosition>) -> TransferStep {
        let wanted = if transfer.is_whole { wanted_of_all } else { wanted };
        let mark = if transfer.is_whole { mark_all } else { mark };
        let Transfer { uuid, from_cell, .. } = *transfer;
        let found = wanted(connection, StepStart::of(transfer, after.and_then(PassPosition::source)));
        let now = Moment::now();
        change(connection, found, |bucket_type, values| mark(connection, uuid, from_cell, now, bucket_type, values))
    }

    fn release_held(&self, connection: &Connection, transfer: &Transfer, after: Option<&PassPosition>) -> TransferStep {
        let Transfer { uuid, from_cell, cell_id, .. } = *transfer;
        let found = held_page(connection, StepStart::of(transfer, after.and_then(PassPosition::source)));
        let now = Moment::now();
        let release =
            |bucket_type: i32, values: &[&str]| release(connection, uuid, from_cell, now, bucket_type, values, cell_id);
        change(connection, found, release)
    }

    fn each_held(&self, connection: &Connection, transfer: &Transfer, size: usize, each: &mut dyn FnMut(&[OwnedName])) {
        held(connection, transfer).chunks(size).for_each(each);
    }

    fn write_transfers(&self, write: &mut dyn FnMut()) {
        writing(write);
    }

    fn open_writers(&self, connection: &Connection, cell_id: i64) -> Result<OpenWriters, ClaimsError> {
        let mut found = transfers::open_writers_here(connection);
        for (node, transactions, change_modes, seal) in writers_elsewhere(connection, cell_id)? {
            found.transactions.extend(transactions.iter().map(|transaction| format!("{node} {transaction}")));
            found.change_modes |= change_modes;
            found.seals.push(seal);
        }
        Ok(found)
    }

    /// Counts the leases, which are not on the nodes of their names.
    fn count_reclaims(&self, connection: &Connection, transfer: &Transfer) -> i64 {
        match reclaiming_leases(connection) {
            leases if leases.is_empty() => 0,
            leases => count_for_transfer(connection, &leases, transfer.uuid, transfer.from_cell, transfer.is_whole),
        }
    }

    fn tell_moved(&self, connection: &Connection, transfer: &Transfer, [from, to]: [i64; 2], attribution: Attribution) {
        let held = held(connection, transfer);
        let change = Change::Transfer(from, to);
        let set = ChangeSet {
            change,
            cause: Some(transfer.uuid),
            buckets: held.iter().map(|name| &name.bucket).collect(),
            attribution,
        };
        let _waits = LockWaits::limit(FEED_LOCK_TIMEOUT_MS);
        let Ok(()) = Call::over(connection).bounded(|| {
            self.tell(connection, &[set], Moment::now());
            Ok::<_, Infallible>(())
        });
    }
}

/// Asks each worker for the transactions that have changed claims or modes there, and for its modes. A worker that has not recovered
/// yet has old modes, or transactions that are prepared.
fn writers_elsewhere(
    connection: &Connection,
    cell_id: i64,
) -> Result<Vec<(String, Vec<String>, bool, Seal)>, ClaimsError> {
    // The times are microseconds of PostgreSQL's epoch, as in a Moment.
    let since = |cell_id| {
        format!(
            "coalesce((SELECT (extract(epoch FROM m.since) * 1000000)::bigint - 946684800000000
                         FROM claims.mode_settings m WHERE m.cell_id = {cell_id})::text, '-')"
        )
    };
    let command = format!(
        "SELECT concat_ws(';', {} || ' ' || {}, coalesce(bool_or(w.changes_modes), false), coalesce(string_agg(w.name, ','), ''))
           FROM ({WRITERS}) w",
        since(cell_id),
        since(EVERYBODY)
    );
    let answer = |NodeAnswer { success, node, result }| {
        let result = result.unwrap_or_default();
        let parts: Vec<&str> = result.split(';').collect();
        match parts.as_slice() {
            [modes, change_modes, names] if success => {
                let names = names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
                Ok((node, names, *change_modes == "t", Seal::decode((*modes).to_owned())))
            }
            _ => Err(DistributionError::NodeFailed { node, message: result }.into()),
        }
    };
    ask_workers(connection, &command).into_iter().map(answer).collect()
}

/// Calls `change` for the free claims, by statements that are sent to one shard each.
fn change(connection: &Connection, found: Vec<Found>, mut change: impl FnMut(i32, &[&str]) -> usize) -> TransferStep {
    let bucket = |one: &Found| Bucket { bucket_type: one.bucket_type, value: one.bucket_value.clone().into() };
    let free: Vec<Bucket> = found.iter().filter(|one| one.is_free).map(bucket).collect();
    let free: Vec<&Bucket> = free.iter().collect();
    let parts = by_shard(connection, &free).into_values().flat_map(values_by_type);
    let mut changed = 0;
    for (bucket_type, mut values) in parts {
        values.sort_unstable();
        changed += change(bucket_type, &values) as i64;
        pgrx::check_for_interrupts!();
    }
    let wanted = found.len() as i64;
    let position = |last: Found| {
        let Found { source_type, source_id, bucket_type, bucket_value, .. } = last;
        PassPosition::BySource(ClaimCursor { source_type, source_id, bucket_type, bucket_value })
    };
    let after = found.into_iter().next_back().filter(|_| wanted == STEP).map(position);
    TransferStep { wanted, changed, after }
}

/// Returns all claims that the transfer holds, in no order.
pub(super) fn held(connection: &Connection, transfer: &Transfer) -> Vec<OwnedName> {
    all_held(connection, transfer.uuid, transfer.from_cell).into_iter().map(OwnedName::from).collect()
}
