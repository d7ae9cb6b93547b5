//! Ends sessions that hold back the change feed while they do nothing, if `claims.change_feed_idle_timeout` is set.
//!
//! Readers of the feed wait for every transaction that has an id, since it could still change claims. A role can switch off
//! `idle_in_transaction_session_timeout` for itself, but not this.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use crate::kernel::pass_log::Failure;
use crate::kernel::settings;
use crate::store::worker as store;
use crate::worker::errors::{log_ended_feed_holder, log_failed_pass};
use pg::background::{self, transaction};
use pg::spi;
use pg::subtransaction::{Stopped, attempt};

/// The job, in the server's log.
const JOB: &str = "claims: search for sessions that hold back the change feed";
/// The longest time between two looks.
const INTERVAL: Duration = Duration::from_secs(5);

pub struct FeedHolders {
    /// When to look again.
    due: Instant,
}

impl FeedHolders {
    pub fn new() -> Self {
        FeedHolders { due: Instant::now() }
    }

    /// Ends sessions of any database that have been idle in a transaction with an id for longer than the setting says. Returns how long to wait
    /// before the next call, if one is needed. Runs as the cluster's first superuser, and reads only catalogs of PostgreSQL.
    pub fn end_idle(&mut self) -> Option<Duration> {
        let timeout = settings::change_feed_idle_timeout().filter(|_| settings::change_feed())?;
        let now = Instant::now();
        if now < self.due {
            return Some(self.due - now);
        }
        let pause = Duration::from_secs(timeout.into()).min(INTERVAL);
        self.due = now + pause;
        let look = || Ok::<_, Infallible>(spi::connect(|connection| store::idle_with_ids(connection, timeout.into())));
        match transaction(|| attempt(look)) {
            Ok(holders) => {
                for holder in holders {
                    background::terminate(holder.pid);
                    log_ended_feed_holder(holder.role.as_deref().unwrap_or_default(), holder.pid, timeout);
                }
            }
            Err(Stopped::ByError(caught)) => log_failed_pass(JOB, &Failure::from(&caught)),
        }
        Some(pause)
    }
}
