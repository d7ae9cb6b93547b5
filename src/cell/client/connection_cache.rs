//! The connections that a session caches, one for each service. SQL cannot reach them.
//!
//! A connection is taken out of the cache while it is used, and put back when each unread answer on it is known ([`Unread`]). An error in
//! the middle of an answer drops it, which closes it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use claims_model::queue::ServiceKey;
use pgrx::pg_sys::Oid;
use uuid::Uuid;

use super::answer::Answer;
use super::confirmed;
use super::places::ConnectionPlace;
use super::settlement::Settlement;
use crate::kernel::settings;
use pg::libpq::{Link, Reply, Trouble};
use pg::{foreign, idle_sockets, roles};

/// A connection, and the catalog data that it was made from.
pub struct CachedConnection {
    pub server: String,
    /// The user whose mapping it was made with.
    pub user: Oid,
    /// The version of the foreign catalog when it was made.
    pub version: u64,
    pub link: Link,
    /// Its place among the connections of the service.
    pub place: ConnectionPlace,
    /// The answers that the service still owes, in their order.
    pub unread: VecDeque<Unread>,
    /// Leases, with their cells, that the process behind this connection has committed, perhaps without a flush.
    pub unflushed: Vec<(i64, Uuid)>,
}

/// An answer that the service still owes.
pub enum Unread {
    /// The answer to a settlement of a cell that was sent after a transaction.
    Settlement(i64, Settlement),
    /// The answer to a call that has ended without it, by a timeout or a cancel. It is dropped. If it has not come at this moment, the
    /// connection is closed.
    Late(Instant),
}

impl CachedConnection {
    /// Returns how much longer than a call the service may take to settle the leases of earlier transactions: `claims.service_timeout`
    /// for each thousand records, if there are more than a call of a save has.
    pub fn time_to_catch_up(&self) -> Duration {
        const RECORDS_PER_TIMEOUT: usize = 1000;
        let records = |unread: &Unread| match unread {
            Unread::Settlement(_, settlement) => settlement.records,
            Unread::Late(_) => 0,
        };
        let records: usize = self.unread.iter().map(records).sum();
        let times = u32::try_from(records / RECORDS_PER_TIMEOUT).unwrap_or(u32::MAX);
        settings::service_timeout().saturating_mul(times)
    }

    /// Reads the answers that come before the one that the caller waits for: to settlements that were sent after earlier transactions.
    pub fn catch_up(&mut self, deadline: Instant) -> Result<(), Trouble> {
        // The answer of the caller's own call is not listed.
        while !self.unread.is_empty() {
            self.read_one(deadline)?;
        }
        Ok(())
    }

    /// Returns the moment until which the connection waits for late answers. `None`: there are none.
    pub fn late_until(&self) -> Option<Instant> {
        let until = |unread: &Unread| match unread {
            Unread::Late(until) => Some(*until),
            Unread::Settlement(..) => None,
        };
        self.unread.iter().filter_map(until).min()
    }

    /// Reads and drops the late answers, and reads those to settlements that come before.
    pub fn read_late(&mut self, deadline: Instant) -> Result<(), Trouble> {
        while self.late_until().is_some() {
            self.read_one(deadline)?;
        }
        Ok(())
    }

    /// Reads the oldest unread answer. An error of this session leaves it unread.
    fn read_one(&mut self, deadline: Instant) -> Result<(), Trouble> {
        let reply = self.link.answer(deadline)?;
        match (self.unread.pop_front(), reply) {
            (Some(Unread::Settlement(cell_id, settlement)), Reply::Rows(rows)) => {
                let committed = settlement.committed(Answer(rows)).map_err(Trouble::Wrong)?;
                if settlement.is_unflushed && self.link.is_of_one_process() {
                    self.unflushed.extend(committed.into_iter().map(|lease| (cell_id, lease)));
                } else {
                    confirmed::answered(cell_id, &settlement, committed);
                }
            }
            // Recovery settles the leases that the service refuses to settle here. Later calls are not prepared any more.
            (_, Reply::Refused(error)) if error.is_prepared_statement_error() => {
                self.link.stop_preparing();
            }
            _ => {}
        }
        Ok(())
    }

    /// Records that a process has answered a begin. The service has flushed it, and with it all that the same process had committed before.
    pub fn has_begun(&mut self, process: i64) {
        self.link.answered_by(process);
        let flushed = std::mem::take(&mut self.unflushed);
        if self.link.is_of_one_process() {
            confirmed::flushed(flushed);
        }
    }

    /// Returns whether all unread answers are listed.
    fn is_in_order(&self) -> bool {
        self.link.is_alive() && self.link.outstanding() == self.unread.len()
    }
}

thread_local! {
    /// Never dropped: the sockets close when the process ends, and libpq may be unloaded by then.
    static CACHE: ManuallyDrop<RefCell<Vec<CachedConnection>>> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

/// Takes out the connection to a service that was made for the current role from the current catalog. Closes all outdated ones.
pub fn take(server: &str) -> Option<CachedConnection> {
    close_outdated();
    take_of(server, roles::current())
}

/// Takes out the connection to a service that was made with a user's mapping, outdated or not. Raises no error.
pub fn take_of(server: &str, user: Oid) -> Option<CachedConnection> {
    let take = |cached: &mut Vec<CachedConnection>, _: &[c_int]| {
        let index = cached.iter().position(|cached| cached.server == server && cached.user == user)?;
        let taken = cached.swap_remove(index);
        taken.place.is_used();
        Some(taken)
    };
    closing(|_| false, take).flatten()
}

/// Lets other sessions have these connections closed.
fn watch(cached: &[CachedConnection], lent: Option<&CachedConnection>) {
    idle_sockets::watch(lent.into_iter().chain(cached).map(|cached| (&cached.link, cached.place.asked())));
}

/// Lets other sessions have a connection closed that was taken out, while the service waits for names. Returns its socket for
/// [`take_back`], which ends that.
pub fn lend(lent: &CachedConnection) -> c_int {
    close_where(|_| false);
    lent.place.is_unused();
    CACHE.with(|cached| watch(&cached.borrow(), Some(lent)));
    lent.link.descriptor()
}

/// Returns whether another session has had the connection closed meanwhile. If it has, the link has no socket any more.
pub fn take_back(lent: &CachedConnection, socket: c_int) -> bool {
    let is_among = |_: &mut Vec<CachedConnection>, shut_down: &[c_int]| {
        lent.place.is_used();
        shut_down.contains(&socket)
    };
    closing(|_| false, is_among).unwrap_or(true)
}

/// Returns whether [`take`] would find a connection.
pub fn is_there(server: &str) -> bool {
    close_outdated();
    let user = roles::current();
    CACHE.with(|cached| cached.borrow().iter().any(|cached| cached.server == server && cached.user == user))
}

/// Puts a connection back if it can be used again. If other code of this session has cached one meanwhile, this one is closed.
pub fn put_back(returned: CachedConnection) {
    CACHE.with(|cached| {
        let mut cached = cached.borrow_mut();
        let is_double = cached.iter().any(|other| other.server == returned.server && other.user == returned.user);
        if !is_double && returned.is_in_order() {
            returned.place.is_unused();
            cached.push(returned);
        }
    });
    close_where(|_| false);
}

/// Closes connections at the end of a transaction that must not be cached, or whose places other sessions wait for. Data that was
/// sent is delivered nevertheless. Those that stay are closed if the session does not use them for `claims.service_idle_timeout`, or
/// sooner if the service has too few places.
pub fn end() {
    let now = Instant::now();
    close_where(|cached| {
        !settings::keep_service_connection() || cached.version != foreign::version() || cached.place.is_wanted(now)
    });
    let Some(time) = settings::service_idle_timeout() else { return };
    CACHE.with(|cached| {
        if let Ok(cached) = cached.try_borrow()
            && let Some(time) = cached.iter().map(|cached| cached.place.idle_time(time, now)).min()
        {
            idle_sockets::shut_down_after(time);
        }
    });
}

/// Closes connections made from an older catalog, and those of another role: the extension's previous owner.
pub fn close_outdated() {
    let user = roles::current();
    close_where(|cached| cached.version != foreign::version() || cached.user != user);
}

/// Closes the connections to services of larger keys than this one, before this session waits for a place there. Every session then waits
/// for a place while it has places at services of smaller keys only, so no two sessions wait for each other. Recovery settles leases of
/// the current transaction at these services.
pub fn close_above(service: ServiceKey) {
    close_where(|cached| cached.place.service() > service);
}

/// Closes connections that were shut down, and those that are over.
fn close_where(is_over: impl Fn(&CachedConnection) -> bool) {
    closing(is_over, |_, _| ());
}

/// Closes connections that were shut down, because the session had not used them for long or another one needed their places, and those that
/// are over. Runs `body` with those that stay and the sockets that were shut down, while none is shut down.
fn closing<T>(
    is_over: impl Fn(&CachedConnection) -> bool,
    body: impl FnOnce(&mut Vec<CachedConnection>, &[c_int]) -> T,
) -> Option<T> {
    // A socket that is closed must not be shut down later: its number may be that of another file by then.
    let shut_down = idle_sockets::keep();
    CACHE.with(|cached| {
        // It is borrowed only in the functions above, which call nothing that could come back here.
        let mut cached = cached.try_borrow_mut().ok()?;
        cached.retain(|cached| !shut_down.contains(&cached.link.descriptor()) && !is_over(cached));
        let result = body(&mut cached, &shut_down);
        watch(&cached, None);
        Some(result)
    })
}
