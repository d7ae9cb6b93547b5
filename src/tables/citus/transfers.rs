//! Transfers of distributed claims. The tables of transfers are complete on every node, and are written on the coordinator only.

use std::convert::Infallible;

use claims_model::Bucket;
use claims_model::cursor::ClaimCursor;
use claims_model::transfer::Seal;
use uuid::Uuid;

use super::door::Citus;
use super::keys::by_shard;
use crate::error::ClaimsError;
use crate::tables::door::{FeedTables, Tables, TransferTables};
use crate::tables::errors::DistributionError;
use crate::tables::rows::buckets::values_by_type;
use crate::tables::rows::feed::{Change, ChangeSet};
use crate::tables::rows::transfers::{
    OpenWriters, STEP, Transfer, TransferStep, locked, locked_columns, step_values, writers,
};
use crate::tables::shared::modes::EVERYBODY;
use crate::tables::shared::transfers;
use pg::clock::Moment;
use pg::settings::{LockWaits, under};
use pg::spi::{Connection, Row, Value, View};
use pg::statement::shared_statement;
use pg::uuid::pg_uuid;

/// A page of claims stored under cell $2, after the claim ($3, $4, $5, $6), at most $7, in the order of the index by source.
macro_rules! page {
    ($columns:literal, $from:literal, $which:literal) => {
        concat!(
            "SELECT c.source_type, c.source_id, c.bucket_type, c.bucket_value, ",
            $columns,
            " FROM ",
            $from,
            " WHERE c.creator_id = $2 AND ",
            $which,
            "   AND (c.source_type, length(c.source_id), c.source_id) >= ($3, length($4), $4)
                AND ((c.source_type, length(c.source_id), c.source_id) > ($3, length($4), $4) OR (c.bucket_type, c.bucket_value) > ($5, $6))
              ORDER BY c.source_type, length(c.source_id), c.source_id, c.bucket_type, c.bucket_value LIMIT $7"
        )
    };
}

/// Changes claims of type $4 with values $5, which are all in one shard. Skips those that another transaction has locked.
macro_rules! change {
    ($which:literal, $set:literal) => {
        concat!(
            "WITH free AS MATERIALIZED (
                 SELECT c.bucket_value FROM claims.claims c
                  WHERE c.bucket_value = ANY ($5) AND c.bucket_type = $4 AND c.creator_id = $2 AND ",
            $which,
            "       FOR UPDATE OF c SKIP LOCKED)
             UPDATE claims.claims c SET ",
            $set,
            ", updated_at = $3 FROM free f
              WHERE c.bucket_value = f.bucket_value AND c.bucket_value = ANY ($5) AND c.bucket_type = $4"
        )
    };
}

shared_statement! {
    /// Reads a page of the claims of the transfer's subjects that transfer $1 does not hold, and whether they are ACTIVE.
    WANTED(UUIDOID, INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT8OID) = page!(
        "c.status = 1",
        "claims.claims c JOIN claims.transfer_subjects s
           ON s.transfer_uuid = $1 AND s.subject_type = c.subject_type AND s.subject_id = c.subject_id",
        "c.lease_uuid IS DISTINCT FROM $1");
    /// Like [WANTED], for all claims of the cell.
    WANTED_OF_ALL(UUIDOID, INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT8OID) = page!(
        "c.status = 1", "claims.claims c", "c.lease_uuid IS DISTINCT FROM $1");
    HELD(UUIDOID, INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT8OID) = page!(
        "true", "claims.claims c", "c.status = 4 AND c.lease_uuid = $1");
    MARK(UUIDOID, INT8OID, TIMESTAMPTZOID, INT4OID, TEXTARRAYOID) = change!(
        "c.status = 1 AND EXISTS (SELECT FROM claims.transfer_subjects s
                                   WHERE s.transfer_uuid = $1 AND s.subject_type = c.subject_type AND s.subject_id = c.subject_id)",
        "status = 4, lease_uuid = $1");
    MARK_ALL(UUIDOID, INT8OID, TIMESTAMPTZOID, INT4OID, TEXTARRAYOID) = change!("c.status = 1", "status = 4, lease_uuid = $1");
    RELEASE(UUIDOID, INT8OID, TIMESTAMPTZOID, INT4OID, TEXTARRAYOID, INT8OID) = change!(
        "c.status = 4 AND c.lease_uuid = $1", "creator_id = $6, status = 1, lease_uuid = NULL");
    ALL_HELD(UUIDOID, INT8OID) =
        "SELECT c.bucket_type, c.bucket_value FROM claims.claims c WHERE c.creator_id = $2 AND c.status = 4 AND c.lease_uuid = $1";
    /// Inserts the key of an existing transfer on every node, which changes nothing. It conflicts with a transaction that has
    /// inserted the row on a node that has not recovered yet. There the row is invisible, and every change would miss it.
    PASS_KEY(UUIDOID, INT8OID, INT8OID, TEXTOID) =
        "INSERT INTO claims.cell_transfers (transfer_uuid, from_cell, to_cell, cell_id, state, subjects, request_digest, reason, role)
         VALUES ($1, $2, $3, $2, 'preparing', 0, '', '', $4::name) ON CONFLICT DO NOTHING";
    /// Returns the shard of a table that has only one.
    SHARD(TEXTOID) = "SELECT s.shardid::text FROM pg_dist_shard s WHERE s.logicalrelid = $1::regclass";
}

/// Returns this node's shard of a reference table.
pub fn shard(connection: &Connection, table: &str) -> String {
    let shard =
        connection.run(&SHARD, View::Latest, [format!("claims.{table}").into()]).first(|row| row.must::<String>(1));
    format!("{table}_{}", shard.unwrap_or_default())
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
        let text = format!(
            concat!("SELECT ", locked_columns!(), " FROM claims.{} t WHERE t.transfer_uuid = $1 FOR UPDATE NOWAIT"),
            shard(connection, "cell_transfers")
        );
        let transfer = connection.run_text(&text, [pg_uuid(uuid).into()]).first(|row| locked(uuid, &row))?;
        let nobody: Value = "".into();
        let values = [pg_uuid(uuid).into(), transfer.from_cell.into(), transfer.to_cell.into(), nobody];
        writing(|| connection.run(&PASS_KEY, View::Statement, values));
        Some(transfer)
    }

    fn lock_cells(&self, connection: &Connection, cells: [i64; 2]) -> usize {
        let text = format!(
            "SELECT c.cell_id FROM claims.{} c WHERE c.cell_id IN ($1, $2) ORDER BY c.cell_id FOR KEY SHARE NOWAIT",
            shard(connection, "cells")
        );
        connection.run_text(&text, cells.map(Value::from)).count()
    }

    fn mark_held(&self, connection: &Connection, transfer: &Transfer, after: Option<&ClaimCursor>) -> TransferStep {
        let (wanted, mark) = if transfer.is_whole { (&WANTED_OF_ALL, &MARK_ALL) } else { (&WANTED, &MARK) };
        let found = connection.run(wanted, View::Latest, step_values(transfer, after)).map(found);
        change(connection, transfer, found, |key: [Value; 5]| connection.run(mark, View::Statement, key).count())
    }

    fn release_held(&self, connection: &Connection, transfer: &Transfer, after: Option<&ClaimCursor>) -> TransferStep {
        let found = connection.run(&HELD, View::Latest, step_values(transfer, after)).map(found);
        let release = |key: [Value; 5]| {
            connection.run(&RELEASE, View::Statement, key.into_iter().chain([transfer.cell_id.into()])).count()
        };
        change(connection, transfer, found, release)
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

    fn tell_moved(&self, connection: &Connection, transfer: &Transfer, from: i64, to: i64) {
        let held = held(connection, transfer);
        let change = Change::Transfer(from, to);
        let set = ChangeSet { change, cause: Some(transfer.uuid), buckets: held.iter().collect() };
        let _waits = LockWaits::limit(FEED_LOCK_TIMEOUT_MS);
        let Ok(()) = (self as &dyn Tables).bounded(connection, || {
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
        concat!(
            "SELECT concat_ws(';', {} || ' ' || {}, coalesce(bool_or(w.changes_modes), false), coalesce(string_agg(w.name, ','), '')) FROM (",
            writers!(),
            ") w"
        ),
        since(cell_id),
        since(EVERYBODY)
    );
    let text = "SELECT r.success, format('%s:%s', r.nodename, r.nodeport), r.result FROM pg_catalog.run_command_on_workers($1) r";
    let answers = connection
        .run_text_now(text, [command.into()])
        .map(|row| (row.must::<bool>(1), row.must::<String>(2), row.get::<String>(3).unwrap_or_default()));
    let answer = |(is_answer, node, result): (bool, String, String)| {
        let parts: Vec<&str> = result.split(';').collect();
        match parts.as_slice() {
            [modes, change_modes, names] if is_answer => {
                let names = names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
                Ok((node, names, *change_modes == "t", Seal::decode((*modes).to_owned())))
            }
            _ => Err(DistributionError::NodeFailed { node, message: result }.into()),
        }
    };
    answers.into_iter().map(answer).collect()
}

/// A claim that a step has found.
struct Found {
    position: ClaimCursor,
    is_free: bool,
}

fn found(row: Row) -> Found {
    let position = ClaimCursor {
        source_type: row.must(1),
        source_id: row.must(2),
        bucket_type: row.must(3),
        bucket_value: row.must(4),
    };
    Found { position, is_free: row.must(5) }
}

/// Calls `change` for the free claims, by statements that are sent to one shard each.
fn change(
    connection: &Connection,
    transfer: &Transfer,
    found: Vec<Found>,
    mut change: impl FnMut([Value; 5]) -> usize,
) -> TransferStep {
    let bucket =
        |one: &Found| Bucket { bucket_type: one.position.bucket_type, value: one.position.bucket_value.clone().into() };
    let free: Vec<Bucket> = found.iter().filter(|one| one.is_free).map(bucket).collect();
    let free: Vec<&Bucket> = free.iter().collect();
    let parts = by_shard(connection, &free).into_values().flat_map(values_by_type);
    let now = Moment::now();
    let mut changed = 0;
    for (bucket_type, mut values) in parts {
        values.sort_unstable();
        let key = [pg_uuid(transfer.uuid).into(), transfer.from_cell.into(), now.into(), bucket_type.into()];
        let [uuid, cell, at, bucket_type] = key;
        changed += change([uuid, cell, at, bucket_type, values.into()]) as i64;
        pgrx::check_for_interrupts!();
    }
    let wanted = found.len() as i64;
    let after = found.into_iter().next_back().filter(|_| wanted == STEP).map(|last| last.position);
    TransferStep { wanted, changed, after }
}

/// Returns all claims that the transfer holds, in no order.
pub(super) fn held(connection: &Connection, transfer: &Transfer) -> Vec<Bucket<'static>> {
    let key = [pg_uuid(transfer.uuid).into(), transfer.from_cell.into()];
    let rows = connection.run(&ALL_HELD, View::Latest, key);
    rows.map(|row| Bucket { bucket_type: row.must(1), value: row.must::<String>(2).into() })
}
