//! Probes the key of a lease for other transactions that hold it.

use std::convert::Infallible;

use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use crate::kernel::call::CellCall;
use crate::service::claims::{KEY_TABLES, Key, leases};
use pg::settings::LockWaits;
use pg::subtransaction::{Undone, subtransaction};

/// Lock timeout if no transaction holds the key, so that the wait is for relation extension.
const EXTENSION_LOCK_TIMEOUT_MS: i64 = 1000;

/// The state of a lease's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// There is no row, not even an uncommitted one.
    Free,
    /// The lease is outstanding, and no transaction is settling it.
    Outstanding,
    /// Another open transaction is beginning, fencing or settling the lease.
    Busy,
}

/// Inserts the key as a begin does, with the current lock timeout, and rolls that back.
pub fn probe(call: &CellCall, lease: Uuid) -> KeyState {
    let (tables, connection) = (call.tables, call.connection);
    let pass = || {
        subtransaction(&[Code::ERRCODE_LOCK_NOT_AVAILABLE, Code::ERRCODE_T_R_DEADLOCK_DETECTED], || {
            tables.bound_waits(connection);
            Err::<Infallible, bool>(leases::pass_key(connection, lease, call.cell_id))
        })
    };
    let passed = match pass() {
        Err(Undone::ByError(_)) if !KEY_TABLES.of(call).contended(connection, Key::Lease(lease)) => {
            let _waits = LockWaits::limit(EXTENSION_LOCK_TIMEOUT_MS);
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
