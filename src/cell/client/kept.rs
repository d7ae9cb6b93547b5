//! The connections that a session keeps: one for each service, out of reach of SQL.
//!
//! A connection is taken out while it is used, and put back when nothing is left unread on it. An error in the middle of an
//! answer drops it, and that closes it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::time::Instant;

use pgrx::pg_sys::Oid;

use super::confirmed::{self, Settlement};
use crate::pg::libpq::{Link, Reply, Trouble};
use crate::pg::{foreign, roles};
use crate::settings;

/// A connection, and what it was made from.
pub struct Kept {
    pub server: String,
    /// Whose user mapping it was made with.
    pub user: Oid,
    /// Of the catalog, when it was made.
    pub version: u64,
    pub link: Link,
    /// What was sent after transactions of cells, in its order, while nobody has read the answers.
    pub sent: VecDeque<(i64, Settlement)>,
}

impl Kept {
    /// Reads the answers to what was sent after earlier transactions, as far as they come before the answer that the caller
    /// waits for.
    pub fn catch_up(&mut self, deadline: Instant) -> Result<(), Trouble> {
        while let Some((cell_id, settlement)) = self.sent.pop_front() {
            match self.link.answer(deadline)? {
                Reply::Lost(detail) => return Err(Trouble::Failed(detail)),
                // It is left to recovery; the next ones are not.
                Reply::Refused(error) if error.is_of_prepared() => {
                    self.link.stop_preparing();
                }
                reply => confirmed::answered(cell_id, settlement, &reply),
            }
        }
        Ok(())
    }

    /// Every answer that is still to come is known to be one of those.
    fn is_in_order(&self) -> bool {
        self.link.is_alive() && self.link.outstanding() == self.sent.len()
    }
}

thread_local! {
    /// Never dropped: when the process ends the sockets close by themselves, and libpq may be gone by then.
    static KEPT: ManuallyDrop<RefCell<Vec<Kept>>> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

/// Takes out the connection to a service, if there is one that the current role may use, as the catalog has it now.
/// Whatever was made from what has changed since is closed.
pub fn take(server: &str) -> Option<Kept> {
    close_outdated();
    take_of(server, roles::current())
}

/// Takes out the connection to a service that was made with some user's mapping, outdated or not. Raises nothing.
pub fn take_of(server: &str, user: Oid) -> Option<Kept> {
    KEPT.with(|kept| {
        let mut kept = kept.borrow_mut();
        let place = kept.iter().position(|kept| kept.server == server && kept.user == user)?;
        Some(kept.swap_remove(place))
    })
}

/// Whether [`take`] would find one.
pub fn is_there(server: &str) -> bool {
    close_outdated();
    let user = roles::current();
    KEPT.with(|kept| kept.borrow().iter().any(|kept| kept.server == server && kept.user == user))
}

/// Puts a connection back, unless it is of no use any more. Where other code of this session has made one meanwhile, one is enough.
pub fn put_back(returned: Kept) {
    KEPT.with(|kept| {
        let mut kept = kept.borrow_mut();
        let is_double = kept.iter().any(|other| other.server == returned.server && other.user == returned.user);
        if !is_double && returned.is_in_order() {
            kept.push(returned);
        }
    });
}

/// At the end of a transaction: closes what is not to be kept. What was sent goes its way all the same.
pub fn end() {
    close_where(|kept| !settings::keep_service_connection() || kept.version != foreign::version());
}

/// Closes what was made from what has changed since, and what belongs to whoever owned the extension before.
pub fn close_outdated() {
    let user = roles::current();
    close_where(|kept| kept.version != foreign::version() || kept.user != user);
}

fn close_where(is_over: impl Fn(&Kept) -> bool) {
    KEPT.with(|kept| {
        // In use only below the functions above, which call nothing that could come back here.
        if let Ok(mut kept) = kept.try_borrow_mut() {
            kept.retain(|kept| !is_over(kept));
        }
    });
}
