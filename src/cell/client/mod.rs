//! The client of the claims service: the only way from a cell to the shared database.
//!
//! [`leases`] and [`records`] have the calls, and the only SQL text that goes to the service: one statement each, with
//! parameters, in a transaction of its own there. No setting outlives a call, and only the calls of every save are prepared, where it
//! is known that no pooler in transaction mode stands in between. Every call is safe to repeat: one that finds its kept connection dead is sent once
//! more over a new one.

pub mod afterwards;
mod answer;
pub mod breaker;
pub mod confirmed;
mod connect;
mod epochs;
mod kept;
pub mod leases;
pub mod naming;
pub mod options;
mod parameters;
pub mod records;
pub mod states;

use std::ffi::{CStr, CString};
use std::time::{Duration, Instant};

use pgrx::pg_sys::Oid;

pub use self::connect::must_be_one;

use self::answer::Answer;
use self::connect::Address;
use self::kept::Kept;
use self::parameters::Parameter;
use crate::error::{CellError, ClaimsError};
use crate::pg::libpq::{Command, RemoteError, Reply, Trouble};
use crate::pg::spi::Connection;
use crate::pg::xact;

/// Has the service give up the statement after it by itself.
const LIMIT: &str = "SELECT pg_catalog.set_config('statement_timeout', $1::pg_catalog.text, true)";

/// The service that a foreign server leads to, for one cell.
pub struct Service<'c> {
    server: &'c str,
    way: Way<'c>,
}

/// How a connection is made, where none is kept.
enum Way<'c> {
    /// What the catalog says by then, in the transaction that is running.
    LookedUp(&'c Connection, i64),
    /// What it has said. For calls outside of transactions.
    Known(Address),
}

impl<'c> Service<'c> {
    /// Raises unless `server` is a foreign server that may be used.
    pub fn new(connection: &'c Connection, server: &'c str, cell_id: i64) -> Result<Self, ClaimsError> {
        must_be_leader()?;
        if !kept::is_there(server) {
            breaker::refuse_if_open(server)?;
            must_be_one(connection, server)?;
        }
        Ok(Service { server, way: Way::LookedUp(connection, cell_id) })
    }

    /// The same, looked up now: it can be called when the transaction that is running is over.
    pub fn ahead(connection: &Connection, server: &'c str, cell_id: i64) -> Result<Self, ClaimsError> {
        must_be_leader()?;
        kept::close_outdated();
        Ok(Service { server, way: Way::Known(connect::address(connection, server, cell_id)?) })
    }

    /// Runs a statement at the service and returns its rows. What the service refuses is `Refused`; after `timeout`, which
    /// begins when there is a connection, it is `ServiceSilent`.
    fn call(&self, text: &str, values: &[Parameter], timeout: Duration) -> Result<Answer, ClaimsError> {
        self.run(&[command(text, values)], timeout)
    }

    /// The same; after `limit` the service gives up by itself.
    fn call_within(
        &self,
        limit: Duration,
        text: &str,
        values: &[Parameter],
        timeout: Duration,
    ) -> Result<Answer, ClaimsError> {
        let limit = command(LIMIT, &[Some(limit.as_millis().to_string())]);
        self.run(&[limit, command(text, values)], timeout)
    }

    fn run(&self, commands: &[Command], timeout: Duration) -> Result<Answer, ClaimsError> {
        let (call, mut known) = match &self.way {
            Way::LookedUp(..) => (breaker::admit(self.server)?, kept::take(self.server)),
            Way::Known(address) => {
                (breaker::admit_to(self.server, address.oid)?, kept::take_of(self.server, address.user))
            }
        };
        loop {
            let is_kept = known.is_some();
            let connected = known.take().map_or_else(|| self.connect(), Ok);
            let mut kept = connected.inspect_err(|error| call.failed(error))?;
            match exchange(&mut kept, commands, Instant::now() + timeout) {
                Ok(Reply::Rows(rows)) => {
                    call.succeeded();
                    kept::put_back(kept);
                    return Ok(Answer(rows));
                }
                // A pooler that looks like the server itself.
                Ok(Reply::Refused(error)) if error.is_of_prepared() && kept.link.stop_preparing() => {
                    known = Some(kept);
                }
                Ok(Reply::Refused(error)) => {
                    call.succeeded();
                    kept::put_back(kept);
                    return Err(refused(error).into());
                }
                Ok(Reply::Lost(_)) | Err(Trouble::Failed(_)) if is_kept => {}
                Ok(Reply::Lost(detail)) | Err(Trouble::Failed(detail)) => {
                    let server = self.server.to_owned();
                    return Err(call.fail(CellError::ServiceUnreachable { server, detail }));
                }
                Err(Trouble::OutOfTime) => {
                    let server = self.server.to_owned();
                    return Err(call.fail(CellError::ServiceSilent { server, timeout }));
                }
            }
        }
    }
}

impl Service<'_> {
    fn connect(&self) -> Result<Kept, ClaimsError> {
        match &self.way {
            Way::LookedUp(connection, cell_id) => connect::open(&connect::address(connection, self.server, *cell_id)?),
            Way::Known(address) => connect::open(address),
        }
    }
}

/// What the service has answered instead of a result. Where it has no such function, it is of a version before it.
fn refused(error: RemoteError) -> CellError {
    const UNDEFINED_FUNCTION: &[u8; 5] = b"42883";
    // Whatever language the rest of the message is in.
    match &error.sqlstate == UNDEFINED_FUNCTION && error.message.contains("claims.") {
        true => CellError::OlderService { answer: error.message },
        false => CellError::Refused(error),
    }
}

/// A process that helps with a query would begin what nobody ends.
fn must_be_leader() -> Result<(), ClaimsError> {
    if xact::is_parallel_worker() { Err(CellError::InParallelWorker.into()) } else { Ok(()) }
}

fn exchange(kept: &mut Kept, commands: &[Command], deadline: Instant) -> Result<Reply, Trouble> {
    if !kept.link.send(commands) {
        return Err(Trouble::Failed("The connection was lost.".into()));
    }
    kept.catch_up(deadline)?;
    let reply = kept.link.answer(deadline)?;
    if let Reply::Rows(rows) = &reply
        && commands.last().is_some_and(|command| command.name == Some(leases::TELLS_PROCESS))
    {
        let process = rows.first().and_then(|row| row.last()?.as_deref()?.parse().ok());
        kept.link.answered_by(process.unwrap_or_default());
    }
    Ok(reply)
}

fn command(text: &str, values: &[Parameter]) -> Command {
    Command { name: None, text: c_string(text), types: &[], values: c_strings(values) }
}

/// For calls of which there are many: where no pooler is in between they are prepared under a name. Parameters whose types are said
/// beside the statement need no casts in it.
fn frequent_command(name: &'static CStr, text: &str, types: &'static [Oid], values: &[Parameter]) -> Command {
    Command { name: Some(name), text: c_string(text), types, values: c_strings(values) }
}

/// Neither statements nor values of Postgres have a zero byte in them.
fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

fn c_strings(values: &[Parameter]) -> Vec<Option<CString>> {
    values.iter().map(|value| value.as_deref().map(c_string)).collect()
}
