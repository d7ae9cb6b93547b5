//! The tables that administrative actions write: names, transfers, roles, the audit log, and claims of cells that are gone.

use claims_model::cursor::ClaimCursor;
use claims_model::{Bucket, Types};
use pgrx::pg_sys::Oid;
use uuid::Uuid;

use crate::error::ClaimsError;
use crate::tables::rows::audit::AuditRow;
use crate::tables::rows::cells::CellRegistration;
use crate::tables::rows::names::{Renamed, Renaming, Reserved, ReservedBy, Stored};
use crate::tables::rows::transfers::{OpenWriters, Transfer, TransferStep};
use pg::spi::Connection;

/// Names that a new profile changes, and reserved names.
pub trait NameTables {
    /// Locks out transactions that write names whose profile can change, until this transaction ends. `bucket_type` is the type
    /// to change.
    fn lock_names(&self, connection: &Connection, bucket_type: i32);

    /// Passes all names of a type to `each`, as committed now, in no order.
    fn each_name(&self, connection: &Connection, bucket_type: i32, each: &mut dyn FnMut(Stored));

    /// Renames claims and reserved names. With `tells`, records the changes in the change feed if the same statement can. Returns
    /// the changes that the caller must still record.
    fn rename(&self, connection: &Connection, bucket_type: i32, renamings: &[Renaming], tells: bool) -> Vec<Renamed>;

    /// Reserves names of one type. A claimed name is a unique violation.
    fn reserve(&self, connection: &Connection, bucket_type: i32, names: &[&Reserved], reserved_by: &ReservedBy);
}

/// Transfers, and the claims that they hold.
pub trait TransferTables {
    /// Locks the row of a transfer until the transaction ends, without waiting. Returns `None` if there is none.
    fn lock_transfer(&self, connection: &Connection, uuid: Uuid) -> Option<Transfer>;

    /// Locks the rows of cells against being removed, without waiting. Returns how many there are.
    fn lock_cells(&self, connection: &Connection, cells: [i64; 2]) -> usize;

    /// Runs `write`, which writes to the tables of transfers.
    fn write_transfers(&self, write: &mut dyn FnMut());

    /// Runs one step of marking the claims of the transfer's subjects. Does not wait for other transactions.
    fn mark_held(&self, connection: &Connection, transfer: &Transfer, after: Option<&ClaimCursor>) -> TransferStep;

    /// Runs one step of making the claims that the transfer holds ACTIVE, at the cell where they are.
    fn release_held(&self, connection: &Connection, transfer: &Transfer, after: Option<&ClaimCursor>) -> TransferStep;

    /// Returns the transactions of other sessions that have changed claims or modes, on all nodes.
    fn open_writers(&self, connection: &Connection, cell_id: i64) -> Result<OpenWriters, ClaimsError>;

    /// Records in the change feed that all claims of a transfer have moved from one cell to the other.
    fn tell_moved(&self, connection: &Connection, transfer: &Transfer, from: i64, to: i64);
}

/// The audit log.
pub trait AuditTables {
    /// Inserts rows of events in this transaction.
    fn record_audit(&self, connection: &Connection, rows: &[AuditRow]);

    /// Inserts rows like `like`, with the names of all claims that a transfer holds.
    fn audit_moved(&self, connection: &Connection, types: &Types, transfer: &Transfer, like: &AuditRow);
}

/// Cells, and privileges of roles.
pub trait RoleTables {
    /// Returns the role of a cell's row. `name` identifies it if roles have different oids on different nodes.
    fn role(&self, number: Oid, name: Option<String>) -> Oid;

    /// Registers a cell, or changes it.
    fn register(&self, connection: &Connection, cell: &CellRegistration);

    fn role_of_cell(&self, connection: &Connection, cell_id: i64) -> Option<Oid>;

    fn has_cells(&self, connection: &Connection, role: Oid) -> bool;

    /// Grants the functions of audiences to a role, or revokes them.
    fn change_grants(&self, connection: &Connection, role_name: &str, audiences: &[&str], granting: bool);

    /// Runs a GRANT or REVOKE on relations.
    fn grant(&self, connection: &Connection, grant: &str);

    /// Gives the objects of the extension to their owner on every node if the caller is a superuser. Raises an error if objects
    /// of others are left.
    fn hand_over(&self, _: &Connection) -> Result<(), ClaimsError> {
        Ok(())
    }

    /// Grants every role what its kind has in this version. The caller has locked the grants.
    fn refresh_grants(&self, connection: &Connection);

    /// Raises an error if the extension has another owner on some node: types and grants would change on some nodes only.
    fn require_own_nodes(&self, _: &Connection) -> Result<(), ClaimsError> {
        Ok(())
    }
}

/// Claims of a cell that is gone.
pub trait ReleaseTables {
    /// Deletes up to `limit` claims of a cell that no lease holds, and returns them. Does not wait for other transactions.
    fn release(&self, connection: &Connection, cell_id: i64, limit: i64) -> Vec<Bucket<'static>>;

    /// Like [`release`](Self::release), and returns only the number of claims. With `tells`, the same statement records them in the
    /// change feed as freed. Returns `None` if these tables have no such statement.
    fn release_in_bulk(&self, _: &Connection, _cell_id: i64, _limit: i64, _tells: bool) -> Option<i64> {
        None
    }
}
