//! Ends sessions that hold back the change feed while they do nothing, if `claims.change_feed_idle_timeout` is set.
//!
//! Readers of the feed wait for every transaction that has an id, since it could still change claims. A role can switch off
//! `idle_in_transaction_session_timeout` for itself, but not this.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use crate::kernel::pass_log::Failure;
use crate::kernel::settings;
use crate::worker::errors::{log_ended_feed_holder, log_failed_pass};
use pg::background::{self, transaction};
use pg::query::{query, record};
use pg::spi;
use pg::subtransaction::{Stopped, attempt};

record! {
    /// A session that is idle in a transaction with an id.
    pub struct IdleSession {
        pub pid: i32,
        pub role: Option<String>,
    }
}

query! {
    /// Returns the sessions of any database that have been idle in a transaction with an id for so long. Reads only catalogs of PostgreSQL.
    fn idle_with_ids(idle_seconds: i64) -> Vec<IdleSession> = [Latest Anywhere]
        "SELECT a.pid, a.usename::pg_catalog.text AS role FROM pg_catalog.pg_stat_activity a
          WHERE a.backend_xid IS NOT NULL AND a.backend_type OPERATOR(pg_catalog.=) 'client backend'
            AND a.state OPERATOR(pg_catalog.~~) 'idle in transaction%'
            AND a.state_change OPERATOR(pg_catalog.<)
                (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) pg_catalog.make_interval(secs => :idle_seconds))";
}

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
        let look = || Ok::<_, Infallible>(spi::connect(|connection| idle_with_ids(connection, timeout.into())));
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
