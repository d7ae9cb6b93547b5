//! The key of a lease: whether a transaction holds it.

use std::convert::Infallible;

use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use crate::pg::settings::LockWaits;
use crate::pg::spi::Connection;
use crate::pg::subtransaction::{Undone, subtransaction};
use crate::service::engine::{self, Key};
use crate::store::service::leases;

/// Milliseconds to wait for a lock that is not another transaction's row: for relation extension.
const TABLE_EXTENSION: i64 = 1000;

/// The state of a lease's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// There is no row, not even an uncommitted one.
    Free,
    /// An outstanding lease that no transaction is settling.
    Outstanding,
    /// Another open transaction is beginning, fencing or settling the lease.
    Busy,
}

/// Inserts the key as a begin does, with the current limit for waits, and rolls that back.
pub fn look(connection: &Connection, lease: Uuid, cell_id: i64) -> KeyState {
    let pass = || {
        subtransaction(&[Code::ERRCODE_LOCK_NOT_AVAILABLE, Code::ERRCODE_T_R_DEADLOCK_DETECTED], || {
            engine::current().bound_waits(connection);
            Err::<Infallible, bool>(leases::pass_key(connection, lease, cell_id))
        })
    };
    let passed = match pass() {
        Err(Undone::ByError(_)) if !engine::current().contended(connection, Key::Lease(lease)) => {
            let _waits = LockWaits::limit(TABLE_EXTENSION);
            pass()
        }
        passed => passed,
    };
    match passed {
        Err(Undone::ByBody(true)) => KeyState::Free,
        Err(Undone::ByBody(false)) => KeyState::Outstanding,
        Err(Undone::ByError(_)) => KeyState::Busy,
        Ok(never) => match never {},
    }
}
