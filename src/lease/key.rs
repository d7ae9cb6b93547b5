//! The key of a lease: who is at it right now.

use std::convert::Infallible;

use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use crate::pg::spi::Connection;
use crate::pg::subtransaction::{Undone, subtransaction};
use crate::store::leases;

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
    let tried = subtransaction(&[Code::ERRCODE_LOCK_NOT_AVAILABLE], || {
        Err::<Infallible, bool>(leases::pass_key(connection, lease, cell_id))
    });
    match tried {
        Err(Undone::ByBody(true)) => Key::Free,
        Err(Undone::ByBody(false)) => Key::Outstanding,
        Err(Undone::ByError(_)) => Key::Busy,
        Ok(never) => match never {},
    }
}
