//! Transfers whose claims are spread over the nodes of a Citus cluster. Their own tables are whole on every node, and written on the
//! coordinator only.
//!
//! A switch is committed there first, and on the other nodes a moment later, or, where one of them has died in between, when it has
//! recovered. So wherever a transfer's row is being written, the coordinator's copy decides: a read on any node says what it says.

use std::collections::HashMap;
use std::ffi::{CStr, CString};

use claims_model::Bucket;
use claims_model::cursor::ClaimCursor;
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use super::keys::by_shard;
use crate::distribution;
use crate::error::{DistributionError, or_raise};
use crate::pg::clock::Moment;
use crate::pg::in_flight;
use crate::pg::index::{KeyPart, KeyValue};
use crate::pg::settings::under;
use crate::pg::spi::{Connection, Row, Value, View};
use crate::pg::statement::shared_statement;
use crate::pg::table;
use crate::pg::uuid::{from_pg_uuid, pg_uuid, pg_uuids};
use crate::store::service::buckets::values_by_type;
use crate::store::service::known_or_raised;
use crate::store::service::transfer_rows::{STEP, Transfer, TransferStep, locked, locked_columns, step_values};

/// Claims of cell $2, stored as its own, behind a claim ($3, $4, $5, $6), up to $7, in the order of the index by source.
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

/// Changes claims of type $4 with values $5, all of one shard, passing over those that another transaction has locked.
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

macro_rules! places {
    () => {
        "SELECT t.transfer_uuid, t.from_cell, t.to_cell, t.cell_id, t.created_at FROM claims.cell_transfers t WHERE "
    };
}

shared_statement! {
    /// Those of the subjects of transfer $1 that it does not hold, and whether they are ACTIVE.
    WANTED(UUIDOID, INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT8OID) = page!(
        "c.status = 1",
        "claims.claims c JOIN claims.transfer_subjects s
           ON s.transfer_uuid = $1 AND s.subject_type = c.subject_type AND s.subject_id = c.subject_id",
        "c.lease_uuid IS DISTINCT FROM $1");
    HELD(UUIDOID, INT8OID, INT4OID, TEXTOID, INT4OID, TEXTOID, INT8OID) = page!(
        "true", "claims.claims c", "c.status = 4 AND c.lease_uuid = $1");
    MARK(UUIDOID, INT8OID, TIMESTAMPTZOID, INT4OID, TEXTARRAYOID) = change!(
        "c.status = 1 AND EXISTS (SELECT FROM claims.transfer_subjects s
                                   WHERE s.transfer_uuid = $1 AND s.subject_type = c.subject_type AND s.subject_id = c.subject_id)",
        "status = 4, lease_uuid = $1");
    RELEASE(UUIDOID, INT8OID, TIMESTAMPTZOID, INT4OID, TEXTARRAYOID, INT8OID) = change!(
        "c.status = 4 AND c.lease_uuid = $1", "creator_id = $6, status = 1, lease_uuid = NULL");
    ALL_HELD(UUIDOID, INT8OID) =
        "SELECT c.bucket_type, c.bucket_value FROM claims.claims c WHERE c.creator_id = $2 AND c.status = 4 AND c.lease_uuid = $1";
    /// Passes through the key of a transfer that is there, on every node: changes nothing, and meets whoever has put the row in on a node
    /// that has not recovered yet. There it is not to be seen, and would be missed by every change.
    PASS_KEY(UUIDOID, INT8OID, INT8OID, TEXTOID) =
        "INSERT INTO claims.cell_transfers (transfer_uuid, from_cell, to_cell, cell_id, state, subjects, request_digest, reason, role)
         VALUES ($1, $2, $3, $2, 'preparing', 0, '', '', $4::name) ON CONFLICT DO NOTHING";
    PLACES(UUIDARRAYOID) = concat!(places!(), "t.transfer_uuid = ANY ($1)");
    PLACES_OF_CELL(INT8OID) = concat!(places!(), "(t.from_cell = $1 OR t.to_cell = $1) AND t.ended_at IS NULL");
    ALL_PLACES() = concat!(places!(), "t.ended_at IS NULL");
    TOLD(TEXTOID) =
        "SELECT t.transfer_uuid, t.from_cell, t.to_cell, t.cell_id, t.created_at
           FROM jsonb_to_recordset($1::jsonb) AS t (transfer_uuid uuid, from_cell bigint, to_cell bigint, cell_id bigint, created_at timestamptz)";
    /// Of a table that has one.
    SHARD(TEXTOID) = "SELECT s.shardid::text FROM pg_dist_shard s WHERE s.logicalrelid = $1::regclass";
}

/// The table on this node in which the rows of a table are that is whole on every node.
fn shard(connection: &Connection, table: &str) -> String {
    let shard =
        connection.run(&SHARD, View::Latest, [format!("claims.{table}").into()]).first(|row| row.must::<String>(1));
    format!("{table}_{}", shard.unwrap_or_default())
}

/// Runs `write`, which writes the tables of transfers. Who has locked a transfer's row is alone with it: others need not keep away from
/// the whole table, as Citus would have them. Rows of this node are written in this session, which has locked them.
pub fn writing<T>(write: impl FnOnce() -> T) -> T {
    under(&[(c"citus.all_modifications_commutative", c"on"), (c"citus.enable_local_execution", c"on")], write)
}

/// Locks the row of a transfer on this node, the coordinator, until the transaction ends, and passes through its key on all others.
pub fn lock(connection: &Connection, uuid: Uuid) -> Option<Transfer> {
    // The table itself: for a lock on a row Citus would lock all of them.
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

/// Locks the rows of cells on this node, the coordinator, where they are removed; how many there are. Of the tables themselves, as above.
pub fn lock_cells(connection: &Connection, cells: [i64; 2]) -> usize {
    let text = format!(
        "SELECT c.cell_id FROM claims.{} c WHERE c.cell_id IN ($1, $2) ORDER BY c.cell_id FOR KEY SHARE NOWAIT",
        shard(connection, "cells")
    );
    connection.run_text(&text, cells.map(Value::from)).count()
}

/// A claim of a step.
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

/// One step of marking. It looks at as many claims of the transfer's subjects.
pub fn mark(connection: &Connection, transfer: &Transfer, after: Option<&ClaimCursor>) -> TransferStep {
    let found = connection.run(&WANTED, View::Latest, step_values(transfer, after)).map(found);
    let mark = |key: [Value; 5]| connection.run(&MARK, View::Statement, key).count();
    change(connection, transfer, found, mark)
}

/// One step of making the claims that the transfer holds ACTIVE, where they are.
pub fn release(connection: &Connection, transfer: &Transfer, after: Option<&ClaimCursor>) -> TransferStep {
    let found = connection.run(&HELD, View::Latest, step_values(transfer, after)).map(found);
    let release = |key: [Value; 5]| {
        connection.run(&RELEASE, View::Statement, key.into_iter().chain([transfer.cell_id.into()])).count()
    };
    change(connection, transfer, found, release)
}

/// Has `change` change those that are free, by statements that lead to one shard each.
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

/// All claims that the transfer holds, in no order.
pub fn held(connection: &Connection, transfer: &Transfer) -> Vec<Bucket<'static>> {
    let key = [pg_uuid(transfer.uuid).into(), transfer.from_cell.into()];
    let rows = connection.run(&ALL_HELD, View::Latest, key);
    rows.map(|row| Bucket { bucket_type: row.must(1), value: row.must::<String>(2).into() })
}

/// Where the claims of a transfer are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub transfer: Uuid,
    pub from_cell: i64,
    /// What every read says.
    pub cell_id: i64,
    /// The other one of its two cells.
    pub other_cell_id: i64,
    pub created_at: Moment,
}

impl Place {
    /// It has brought a cell's claims, which are stored as another one's.
    pub fn has_brought_to(&self, cell_id: i64) -> bool {
        self.cell_id == cell_id && self.from_cell != cell_id
    }

    /// The claims that it holds are stored as this cell's, and are another one's.
    pub fn has_taken_from(&self, cell_id: i64) -> bool {
        self.from_cell == cell_id && self.cell_id != cell_id
    }
}

fn place(row: Row) -> Place {
    let (from_cell, to_cell, cell_id): (i64, i64, i64) = (row.must(2), row.must(3), row.must(4));
    let other_cell_id = if cell_id == from_cell { to_cell } else { from_cell };
    Place { transfer: from_pg_uuid(row.must(1)), from_cell, cell_id, other_cell_id, created_at: row.must(5) }
}

/// Where the claims of transfers are right now. To be asked after the claims were read.
pub fn places(connection: &Connection, mut transfers: Vec<Uuid>) -> HashMap<Uuid, Place> {
    transfers.sort_unstable();
    transfers.dedup();
    if transfers.is_empty() {
        return HashMap::new();
    }
    let found = match is_any_in_flight(connection, &transfers) {
        true => {
            let list: Vec<_> = transfers.iter().map(|transfer| format!("'{transfer}'")).collect();
            on_coordinator(connection, &format!("t.transfer_uuid IN ({})", list.join(", ")))
        }
        false => connection.run(&PLACES, View::Latest, [pg_uuids(transfers)]).map(place),
    };
    found.into_iter().map(|place| (place.transfer, place)).collect()
}

/// Where the claims of the transfers from and to a cell are that have not ended.
fn places_of(connection: &Connection, cell_id: i64) -> Vec<Place> {
    let here = || connection.run(&PLACES_OF_CELL, View::Latest, [cell_id.into()]).map(place);
    let first: Vec<_> = here().into_iter().map(|place| place.transfer).collect();
    let mut found = match first.is_empty() {
        true => Vec::new(),
        false if is_any_in_flight(connection, &first) => {
            on_coordinator(connection, &format!("{cell_id} IN (t.from_cell, t.to_cell) AND t.ended_at IS NULL"))
        }
        false => here(),
    };
    found.sort_unstable_by_key(|place| place.transfer);
    found
}

/// Where the claims of all transfers are that have not ended, by this node's own copy.
pub fn all_places(connection: &Connection) -> Vec<Place> {
    connection.run(&ALL_PLACES, View::Latest, []).map(place)
}

/// How often to read again what transfers have changed meanwhile.
const READINGS: usize = 5;

/// What `read` reads of a cell's claims, by where the transfers of the cell are, while they stay there.
pub fn steadily<T>(connection: &Connection, cell_id: i64, mut read: impl FnMut(&[Place]) -> T) -> T {
    let mut before = places_of(connection, cell_id);
    let mut readings = 1;
    loop {
        let value = read(&before);
        let after = places_of(connection, cell_id);
        if after == before || readings == READINGS {
            return value;
        }
        before = after;
        readings += 1;
    }
}

/// The same of what can be read only once.
pub fn once<T>(connection: &Connection, cell_id: i64, read: impl FnOnce(&[Place]) -> T) -> T {
    read(&places_of(connection, cell_id))
}

/// Those of the places that have taken claims from a cell, as an argument.
pub fn taken_from(cell_id: i64, places: &[Place]) -> Value {
    pg_uuids(places.iter().filter(|place| place.has_taken_from(cell_id)).map(|place| place.transfer))
}

/// Whether this node's copy of one of the rows is being written, or waits for its transaction to be recovered. The coordinator's is
/// always right.
fn is_any_in_flight(connection: &Connection, transfers: &[Uuid]) -> bool {
    if !distribution::is_worker() {
        return false;
    }
    let shard = shard(connection, "cell_transfers");
    // A node that was added a moment ago may not have it yet.
    if table::called(&shard).is_none() {
        return true;
    }
    let shard = CString::new(shard).unwrap_or_default();
    transfers.iter().any(|transfer| is_in_flight_in(&shard, pg_uuid(*transfer)))
}

fn is_in_flight_in(table: &CStr, transfer: PgUuid) -> bool {
    let key = [KeyPart { column: c"transfer_uuid", value: KeyValue::Uuid(transfer) }];
    known_or_raised(in_flight::is_in_flight(table, &key), "claims.cell_transfers (transfer_uuid)")
}

/// What the coordinator says. An error where it cannot be asked: nobody else knows.
fn on_coordinator(connection: &Connection, condition: &str) -> Vec<Place> {
    let command = format!("SELECT coalesce(jsonb_agg(p), '[]') FROM ({}{condition}) p", places!());
    let text = "SELECT r.success, r.result FROM pg_catalog.run_command_on_coordinator($1) r";
    let answer = connection
        .run_text_now(text, [command.into()])
        .first(|row| (row.must::<bool>(1), row.get::<String>(2).unwrap_or_default()));
    let told = match answer {
        Some((true, told)) => Ok(told),
        Some((false, message)) => Err(DistributionError::CoordinatorSilent { message }),
        None => Err(DistributionError::CoordinatorSilent { message: "It is not known to this node.".into() }),
    };
    let told = or_raise(told.map_err(Into::into));
    connection.run(&TOLD, View::Latest, [told.into()]).map(place)
}
