//! The key of a lease: who is at it right now.

use std::convert::Infallible;

use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use super::settle::TABLE_EXTENSION;
use crate::pg::settings::LockWaits;
use crate::pg::spi::Connection;
use crate::pg::subtransaction::{Undone, subtransaction};
use crate::store::service::leases;

/// What stands on the key of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Nothing, also in other open transactions.
    Free,
    /// An outstanding lease that nobody is settling.
    Outstanding,
    /// Another open transaction is beginning, fencing or settling the lease.
    Busy,
}

/// Passes through the key as a begin does, within the limit of waiting in force, and leaves nothing behind.
pub fn look(connection: &Connection, lease: Uuid, cell_id: i64) -> Key {
    let pass = || {
        subtransaction(&[Code::ERRCODE_LOCK_NOT_AVAILABLE, Code::ERRCODE_T_R_DEADLOCK_DETECTED], || {
            Err::<Infallible, bool>(leases::pass_key(connection, lease, cell_id))
        })
    };
    let passed = match pass() {
        Err(Undone::ByError(_)) if !leases::is_in_flight(lease) => {
            let _waits = LockWaits::limit(TABLE_EXTENSION);
            pass()
        }
        passed => passed,
    };
    match passed {
        Err(Undone::ByBody(true)) => Key::Free,
        Err(Undone::ByBody(false)) => Key::Outstanding,
        Err(Undone::ByError(_)) => Key::Busy,
        Ok(never) => match never {},
    }
}
