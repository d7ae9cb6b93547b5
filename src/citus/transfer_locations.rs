//! Where the claims of transfers are, for readers of distributed claims.
//!
//! A switch commits on the coordinator first, and on the other nodes a moment later, or after recovery if one of them crashed
//! meanwhile. So while a transfer's row is being written, the coordinator's copy decides, and a read on any node returns what it
//! says.

use std::collections::HashMap;
use std::ffi::{CStr, CString};

use uuid::Uuid;

use super::errors::DistributionError;
use super::layout;
use super::transfers::shard;
use crate::kernel::error::{known_or_raised, or_raise};
use pg::clock::Moment;
use pg::index::{KeyPart, KeyValue};
use pg::query::{Record, query, record};
use pg::spi::{Connection, Row};
use pg::{in_flight, table};

macro_rules! locations {
    () => {
        "SELECT t.transfer_uuid, t.from_cell, t.to_cell, t.cell_id, t.created_at FROM claims.cell_transfers t WHERE "
    };
}

record! {
    struct LocationRow { transfer_uuid: Uuid, from_cell: i64, to_cell: i64, cell_id: i64, created_at: Moment }

    struct CoordinatorAnswer { success: bool, result: Option<String> }
}

query! {
    fn by_uuid(transfers: &[Uuid]) -> Vec<TransferLocation> = [Latest Anywhere] concat!(locations!(), "t.transfer_uuid = ANY (:transfers)");
    fn of_cell(cell_id: i64) -> Vec<TransferLocation> = [Latest Anywhere]
        concat!(locations!(), "(t.from_cell = :cell_id OR t.to_cell = :cell_id) AND t.ended_at IS NULL");
    /// Returns where the claims of all unfinished transfers are, from this node's own copy.
    pub fn all_locations() -> Vec<TransferLocation> = [Latest Anywhere] concat!(locations!(), "t.ended_at IS NULL");
    fn from_json(locations: &str) -> Vec<TransferLocation> = [Latest Anywhere]
        "SELECT t.transfer_uuid, t.from_cell, t.to_cell, t.cell_id, t.created_at
           FROM jsonb_to_recordset(:locations::jsonb)
                AS t (transfer_uuid uuid, from_cell bigint, to_cell bigint, cell_id bigint, created_at timestamptz)";
    fn ask_coordinator(command: &str) -> Option<CoordinatorAnswer> = [Latest Anywhere]
        "SELECT r.success, r.result FROM pg_catalog.run_command_on_coordinator(:command) r";
}

/// The cell that the claims of a transfer are at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferLocation {
    pub transfer: Uuid,
    pub from_cell: i64,
    /// The cell that every read returns.
    pub cell_id: i64,
    /// The other one of its two cells.
    pub other_cell_id: i64,
    pub created_at: Moment,
}

impl TransferLocation {
    /// Returns whether it has brought claims to a cell that are stored under another one.
    pub fn has_brought_to(&self, cell_id: i64) -> bool {
        self.cell_id == cell_id && self.from_cell != cell_id
    }

    /// Returns whether it has taken claims from a cell: they are stored under that cell, and belong to another one.
    pub fn has_taken_from(&self, cell_id: i64) -> bool {
        self.from_cell == cell_id && self.cell_id != cell_id
    }
}

impl Record for TransferLocation {
    fn read(row: &Row) -> Self {
        let LocationRow { transfer_uuid: transfer, from_cell, to_cell, cell_id, created_at } = LocationRow::read(row);
        let other_cell_id = if cell_id == from_cell { to_cell } else { from_cell };
        TransferLocation { transfer, from_cell, cell_id, other_cell_id, created_at }
    }
}

/// Returns where the claims of transfers are now. Call it after the claims were read.
pub fn locations(connection: &Connection, mut transfers: Vec<Uuid>) -> HashMap<Uuid, TransferLocation> {
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
        false => by_uuid(connection, &transfers),
    };
    found.into_iter().map(|location| (location.transfer, location)).collect()
}

/// Returns where the claims of unfinished transfers from and to a cell are.
fn locations_of(connection: &Connection, cell_id: i64) -> Vec<TransferLocation> {
    let here = || of_cell(connection, cell_id);
    let first: Vec<_> = here().into_iter().map(|location| location.transfer).collect();
    let mut found = match first.is_empty() {
        true => Vec::new(),
        false if is_any_in_flight(connection, &first) => {
            on_coordinator(connection, &format!("{cell_id} IN (t.from_cell, t.to_cell) AND t.ended_at IS NULL"))
        }
        false => here(),
    };
    found.sort_unstable_by_key(|location| location.transfer);
    found
}

/// Maximum number of reads if transfers change meanwhile.
const MAX_READS: usize = 5;

/// Returns the result of `read`, which reads claims of a cell. Repeats it if the cell's transfers have changed meanwhile.
pub fn while_unmoved<T>(connection: &Connection, cell_id: i64, mut read: impl FnMut(&[TransferLocation]) -> T) -> T {
    let mut before = locations_of(connection, cell_id);
    let mut reads = 1;
    loop {
        let value = read(&before);
        let after = locations_of(connection, cell_id);
        if after == before || reads == MAX_READS {
            return value;
        }
        before = after;
        reads += 1;
    }
}

/// Like [`while_unmoved`], for claims that can be read only once.
pub fn once<T>(connection: &Connection, cell_id: i64, read: impl FnOnce(&[TransferLocation]) -> T) -> T {
    read(&locations_of(connection, cell_id))
}

/// Returns the transfers that have taken claims from a cell.
pub fn taken_from(cell_id: i64, locations: &[TransferLocation]) -> Vec<Uuid> {
    let taken = locations.iter().filter(|location| location.has_taken_from(cell_id));
    taken.map(|location| location.transfer).collect()
}

/// Returns whether this node's copy of one of the rows is being written, or waits for the recovery of its transaction. The
/// coordinator's copy is always right.
fn is_any_in_flight(connection: &Connection, transfers: &[Uuid]) -> bool {
    if !layout::is_worker() {
        return false;
    }
    let shard = CString::new(shard(connection, "cell_transfers")).unwrap_or_default();
    // A node that was just added may not have the shard yet.
    if table::number(&shard).is_none() {
        return true;
    }
    transfers.iter().any(|transfer| is_in_flight_in(&shard, *transfer))
}

fn is_in_flight_in(table: &CStr, transfer: Uuid) -> bool {
    let key = [KeyPart { column: c"transfer_uuid", value: KeyValue::Uuid(transfer) }];
    known_or_raised(in_flight::is_in_flight(table, &key), "claims.cell_transfers (transfer_uuid)")
}

/// Asks the coordinator. Raises an error if it does not answer, because no other node knows.
fn on_coordinator(connection: &Connection, condition: &str) -> Vec<TransferLocation> {
    let command = format!("SELECT coalesce(jsonb_agg(p), '[]') FROM ({}{condition}) p", locations!());
    let locations = match ask_coordinator(connection, &command) {
        Some(CoordinatorAnswer { success: true, result }) => Ok(result.unwrap_or_default()),
        Some(CoordinatorAnswer { result, .. }) => {
            Err(DistributionError::CoordinatorSilent { message: result.unwrap_or_default() })
        }
        None => Err(DistributionError::CoordinatorSilent { message: "It is not known to this node.".into() }),
    };
    let locations = or_raise(locations.map_err(Into::into));
    from_json(connection, &locations)
}
