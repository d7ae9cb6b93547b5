//! The client of the claims service. A cell reaches the shared database only through it.
//!
//! [`leases`], [`settlement`], [`records`], [`imports`], [`names`], [`epochs`] and [`ids`] have the calls, and all SQL text that is sent to
//! the service: one statement each, with named parameters ([`question`]), in a transaction of its own there. Each states the rows and columns
//! of its answer ([`answer`]). Any other answer is an error, and closes the connection. No setting outlives a call. Only the calls of every save are prepared, if no pooler in transaction
//! mode is between cell and service. Every call is safe to repeat: if its cached connection is dead, it is sent once more over a new
//! one.

mod answer;
pub mod begun_leases;
pub mod breaker;
mod call;
pub mod calls;
pub mod confirmed;
mod connect;
mod connection_cache;
pub mod epochs;
pub mod ids;
pub mod imports;
pub mod leases;
pub mod names;
pub mod naming;
pub mod options;
mod own_place;
pub mod places;
pub mod presented;
mod question;
pub mod records;
pub mod servers;
pub mod settlement;
mod slots;
pub mod states;
pub mod turns;

use std::cell::Cell;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use pgrx::pg_sys::Oid;

pub use self::connect::{can_be_one, is_of_own_wrapper, is_one};

use self::answer::{Answer, FromRow};
use self::connect::{Address, must_be_one};
use self::connection_cache::CachedConnection;
use self::places::NewConnection;
use self::question::Question;
use self::turns::Turn;
use super::errors::CellError;
use crate::kernel::error::ClaimsError;
use pg::libpq::{Command, Mismatch, RemoteError, Trouble};
use pg::spi::Connection;
use pg::{foreign, wait, xact};

::pgrx::extension_sql_file!(
    "../../../sql/install/cell/client.sql",
    name = "client",
    requires = ["admin", cell::client::options::service_validator, cell::client::breaker::service_states]
);

/// The service of a foreign server, for one cell.
pub struct Service<'c> {
    server: &'c str,
    pub cell_id: i64,
    way: Way<'c>,
    /// How long calls have waited for answers.
    waited: Cell<Duration>,
    /// How long the service may wait for names within the current call, which is no sign of a failure.
    handed_wait: Cell<Duration>,
    /// Whether a wait for names has ended because another session needed the place of the connection. Later waits give way to calls.
    gives_way: Cell<bool>,
    /// The moment at which every call ends, also while it connects.
    deadline: Option<Instant>,
}

/// The way to make a connection if none is cached.
enum Way<'c> {
    /// Looks the address up in the catalog at that moment, in the current transaction.
    Catalog(&'c Connection),
    /// Uses an address that was looked up before, for calls outside of transactions.
    Address(Address),
}

impl<'c> Service<'c> {
    /// Returns the service, or raises an error unless `server` is a foreign server that may be used.
    pub fn new(connection: &'c Connection, server: &'c str, cell_id: i64) -> Result<Self, ClaimsError> {
        must_be_leader()?;
        let service = Service::by(server, cell_id, Way::Catalog(connection));
        if !connection_cache::is_there(server) {
            breaker::refuse_if_open(server, service.oid())?;
            must_be_one(connection, server)?;
        }
        Ok(service)
    }

    /// Like [`Service::new`], and looks the address up now, so that it can be called after the current transaction.
    pub fn resolved(connection: &Connection, server: &'c str, cell_id: i64) -> Result<Self, ClaimsError> {
        must_be_leader()?;
        connection_cache::close_outdated();
        Ok(Service::by(server, cell_id, Way::Address(connect::address(connection, server, cell_id)?)))
    }

    fn by(server: &'c str, cell_id: i64, way: Way<'c>) -> Self {
        let (waited, handed_wait, gives_way) = Default::default();
        Service { server, cell_id, way, waited, handed_wait, gives_way, deadline: None }
    }

    /// Has every call end at a deadline, also while it connects. Such an end is [`CellError::ServiceSilent`].
    pub fn until(self, deadline: Instant) -> Self {
        Service { deadline: Some(deadline), ..self }
    }

    /// Raises an error after the moment at which every call ends.
    pub fn must_have_time(&self, timeout: Duration) -> Result<(), ClaimsError> {
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(self.failure(Trouble::OutOfTime, timeout).into()),
            _ => Ok(()),
        }
    }

    /// Returns the name of the foreign server.
    pub fn name(&self) -> &str {
        self.server
    }

    /// Returns what is left of a time limit that holds for all calls of this `Service` together. Only waiting for answers uses it up:
    /// connecting has a limit of its own, and the cell's own statements between two calls are not the service's fault.
    pub fn time_left(&self, limit: Duration) -> Duration {
        limit.saturating_sub(self.waited.get())
    }

    fn has_waited(&self, time: Duration) {
        self.waited.set(self.waited.get() + time);
    }

    fn gives_way(&self) {
        self.gives_way.set(true);
    }

    /// Sleeps if a wait for names has ended because another session needed the place of the connection, and counts that as waiting. Returns
    /// whether that is so.
    pub fn pauses(&self, pause: Duration) -> bool {
        if self.gives_way.get() {
            wait::sleep(pause);
            self.has_waited(pause);
        }
        self.gives_way.get()
    }

    /// Returns how long calls have waited for answers.
    pub fn waited(&self) -> Duration {
        self.waited.get()
    }

    /// Like [`Service::run`], for a call in which the service may wait for some time.
    fn run_waiting<T>(
        &self,
        wait: Duration,
        commands: &[Command],
        timeout: Duration,
        read: impl FnOnce(Answer) -> Result<T, Mismatch>,
    ) -> Result<T, ClaimsError> {
        self.handed_wait.set(wait);
        let result = self.run(commands, timeout, read);
        self.handed_wait.set(Duration::ZERO);
        result
    }

    /// Calls the service, and reads its answer of so many rows. An error of the service is `Refused`. If there is no answer within `timeout`,
    /// which begins when there is a connection, the error is `ServiceSilent`. An unexpected answer is `WrongAnswer`.
    fn ask<R: FromRow, T>(
        &self,
        question: Question,
        rows: RangeInclusive<usize>,
        timeout: Duration,
        read: impl FnOnce(Vec<R>) -> Result<T, Mismatch>,
    ) -> Result<T, ClaimsError> {
        self.run(&question.commands::<R>(rows, timeout), timeout, |answer| read(answer.rows()?))
    }

    /// Like [`Service::ask`], row by row.
    fn ask_rows<R: FromRow, T>(
        &self,
        question: Question,
        rows: RangeInclusive<usize>,
        timeout: Duration,
        read: impl Fn(R) -> Result<T, Mismatch>,
    ) -> Result<Vec<T>, ClaimsError> {
        self.ask(question, rows, timeout, |rows| rows.into_iter().map(read).collect())
    }

    /// Like [`Service::ask`], for an answer of one row.
    fn ask_one<R: FromRow, T>(
        &self,
        question: Question,
        timeout: Duration,
        read: impl FnOnce(R) -> Result<T, Mismatch>,
    ) -> Result<T, ClaimsError> {
        self.run(&question.commands::<R>(1..=1, timeout), timeout, |answer| read(answer.only()?))
    }

    /// Waits until this session may call the service, for the first time or after a pause.
    fn take(&self, turn: &mut Turn, deadline: Instant) -> Result<(), ClaimsError> {
        let service = self.oid();
        let before_waiting = || match &self.way {
            Way::Catalog(..) => breaker::refuse_if_open(self.server, service),
            Way::Address(..) => Ok(()),
        };
        turn.come(self.server, service, deadline, before_waiting)
    }

    /// Connects, in a turn. If the service has no place for another connection, waits for one until a deadline, and for its turn once
    /// more: meanwhile others call, who may have the places. Returns how long it has waited for the place, too.
    fn find_place(
        &self,
        deadline: Instant,
        call: &breaker::AdmittedCall,
        turn: &mut Turn,
    ) -> Result<(CachedConnection, Duration), ClaimsError> {
        let service = self.oid();
        // If the service is found to be down meanwhile, this call fails as others do, unless it is the one that tries.
        let go_on = || if call.is_trial() { Ok(()) } else { breaker::refuse_if_open(self.server, service) };
        let before_waiting = || {
            turn.pause();
            // Without shared memory there is no worker, either, which settles the leases that were begun over these connections.
            if places::are_in_order() {
                connection_cache::close_above(places::key(service));
            }
        };
        let gives_way = self.gives_way.get() && !self.handed_wait.get().is_zero();
        let new = NewConnection { server: self.server, service, deadline, gives_way };
        let (connection, waited) = places::find(new, || self.connect(), before_waiting, go_on)?;
        if waited > Duration::ZERO
            && let Err(error) = self.take(turn, deadline)
        {
            connection_cache::put_back(connection);
            return Err(error);
        }
        Ok((connection, waited))
    }

    /// Returns the oid of the foreign server, or an invalid one if it was dropped.
    pub fn oid(&self) -> Oid {
        match &self.way {
            Way::Catalog(..) => foreign::server(self.server).unwrap_or(Oid::INVALID),
            Way::Address(address) => address.oid,
        }
    }

    fn connect(&self) -> Result<CachedConnection, ClaimsError> {
        match &self.way {
            Way::Catalog(connection) => {
                connect::open(&connect::address(connection, self.server, self.cell_id)?, self.deadline)
            }
            Way::Address(address) => connect::open(address, self.deadline),
        }
    }

    /// Returns the error for a call without an answer.
    fn failure(&self, trouble: Trouble, timeout: Duration) -> CellError {
        let server = self.server.to_owned();
        match trouble {
            Trouble::OutOfTime => CellError::ServiceSilent { server, timeout },
            other => connect::failure(server, other),
        }
    }

    /// Converts the service's error. If the service lacks the function or the setting, it is of an older version.
    fn refusal(&self, error: RemoteError) -> CellError {
        const UNDEFINED: [&[u8; 5]; 2] = [b"42883", b"42704"];
        // The rest of the message may be in any language.
        match UNDEFINED.contains(&&error.sqlstate) && error.message.contains("claims.") {
            true => CellError::OlderService { answer: error.message },
            false => CellError::Refused(RemoteError { server: self.server.to_owned(), ..error }),
        }
    }
}

/// Raises an error in a parallel worker: nobody would end a lease that it began.
fn must_be_leader() -> Result<(), ClaimsError> {
    if xact::is_parallel_worker() { Err(CellError::InParallelWorker.into()) } else { Ok(()) }
}

/// Converts the error of a service that does not answer into that of one that cannot be reached. Recovery and verification do not
/// distinguish them.
pub fn unreachable(error: ClaimsError) -> ClaimsError {
    let Some(CellError::ServiceSilent { server, timeout }) = error.of() else { return error };
    let detail = format!("It did not answer for {} seconds.", timeout.as_secs());
    CellError::ServiceUnreachable { server: server.clone(), detail }.into()
}
