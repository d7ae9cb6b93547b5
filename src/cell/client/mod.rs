//! Calls to the claims service through dblink, over a foreign server that leads to the shared database.
//!
//! A connection lives no longer than [`with_service`], however that ends. It has a name of its own, so that it can never
//! be one that the caller's session has open. Calls are sent without waiting and then asked for, so that a cancel or a
//! timeout of the caller is obeyed while the service is silent. An answer that has arrived is read without looking for a
//! cancel: so an error that comes while it is read is the service's, also when it is a cancel there.
//!
//! [`leases`] and [`records`] have the calls, and the only SQL text that goes to the service.

mod answer;
pub mod leases;
mod parameters;
pub mod records;

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use self::answer::Answer;
use self::parameters::Parameter;
use crate::error::{CellError, ClaimsError};
use crate::pg::roles;
use crate::pg::spi::{Connection, Rows};
use crate::pg::subtransaction::{Caught, Stopped, attempt};
use crate::pg::wait::{obey_interrupts, pause, uninterrupted};
use crate::store::cell::servers;

/// Wrappers whose servers name a PostgreSQL database that libpq can reach.
const WRAPPERS: [&str; 2] = ["dblink_fdw", "postgres_fdw"];

/// The pauses between two looks for an answer are a tenth of the time waited so far, so that an answer lies about for
/// no longer than a tenth of the time that it took; within these limits.
const PAUSES_TO_DOUBLE: u32 = 10;
const SHORTEST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// In what state the connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Closed,
    Ready,
    /// It is being made, or a call was sent whose end has not been read.
    Busy,
    /// A call's answer has arrived and is being read. Stays so where the answer was an error.
    Answering,
}

/// The service, as long as `with_service` runs.
pub struct Service<'c> {
    connection: &'c Connection,
    /// dblink's schema, quoted.
    schema: String,
    /// Name of the foreign server.
    server: &'c str,
    /// Name of the connection.
    name: String,
    link: Cell<Link>,
    /// The statement that each connection begins with.
    prelude: RefCell<Option<String>>,
    /// Whether a connection is closed again after each call.
    is_hidden: Cell<bool>,
}

/// Runs `body` with the service at hand. What `body` wrote here is rolled back when it fails; the connection is closed
/// either way. A service that cannot be reached, or that goes away, is `ServiceUnreachable`.
pub fn with_service<T>(
    connection: &Connection,
    server: &str,
    body: impl FnOnce(&Service) -> Result<T, ClaimsError>,
) -> Result<T, ClaimsError> {
    must_be_one(connection, server)?;
    let schema = servers::dblink_schema(connection).ok_or(CellError::NoDblink)?;
    let name = format!("claims {}", Uuid::now_v7());
    let service = Service {
        connection,
        schema,
        server,
        name,
        link: Cell::new(Link::Closed),
        prelude: RefCell::default(),
        is_hidden: Cell::new(false),
    };
    let result = attempt(|| body(&service));
    service.close();
    result.map_err(|stopped| match stopped {
        Stopped::ByBody(error) => error,
        Stopped::ByError(caught) if is_unreachable(&caught) => {
            let detail = caught.detail().filter(|detail| !detail.is_empty()).unwrap_or(caught.message()).to_owned();
            CellError::ServiceUnreachable { server: server.to_owned(), detail }.into()
        }
        Stopped::ByError(caught) => caught.rethrow(),
    })
}

/// Raises unless `server` is an administrator's foreign server that leads to a Postgres database. What a service says
/// decides over claims, and the connection to it is made by the extension's owner: neither is for anybody who may create
/// servers.
pub fn must_be_one(connection: &Connection, server: &str) -> Result<(), ClaimsError> {
    match servers::server(connection, server) {
        Some(found) if WRAPPERS.contains(&found.wrapper.as_str()) => {
            let is_trusted = roles::is_admin(found.owner);
            let owner = || roles::name(found.owner);
            if is_trusted {
                Ok(())
            } else {
                Err(CellError::ServerOfOther { server: server.to_owned(), owner: owner() }.into())
            }
        }
        _ => Err(CellError::NotAService { server: server.to_owned() }.into()),
    }
}

/// Whether an error says that the connection could not be made, or is gone.
pub fn is_unreachable(caught: &Caught) -> bool {
    matches!(
        caught.code(),
        Code::ERRCODE_CONNECTION_EXCEPTION
            | Code::ERRCODE_CONNECTION_DOES_NOT_EXIST
            | Code::ERRCODE_CONNECTION_FAILURE
            | Code::ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION
            | Code::ERRCODE_SQLSERVER_REJECTED_ESTABLISHMENT_OF_SQLCONNECTION
            | Code::ERRCODE_ADMIN_SHUTDOWN
            | Code::ERRCODE_CRASH_SHUTDOWN
            | Code::ERRCODE_CANNOT_CONNECT_NOW
    )
}

impl Service<'_> {
    /// Runs one statement at the service, in a transaction of its own there, and returns its rows. An error of the service
    /// is raised here as it is; after `timeout` it is `ServiceSilent`.
    fn call(&self, query: &Query, values: &[Parameter], timeout: Duration) -> Result<Answer, ClaimsError> {
        self.open(timeout)?;
        let answer = self.exchange(&spelled_out(query.text, values), query.columns, timeout)?;
        if self.is_hidden.get() {
            self.close();
        }
        Ok(answer)
    }

    /// Has the service give up each statement by itself after a time. `timeout`: how long this call may take.
    pub fn limit_statements(&self, limit: Duration, timeout: Duration) -> Result<(), ClaimsError> {
        let statement = format!("SELECT pg_catalog.set_config('statement_timeout', '{}', false)", limit.as_millis());
        self.begin_with(statement, timeout)
    }

    /// Has each connection begin with a statement, the one that is open too.
    fn begin_with(&self, statement: String, timeout: Duration) -> Result<(), ClaimsError> {
        if self.link.get() == Link::Ready {
            self.exchange(&statement, 1, timeout)?;
        }
        self.prelude.replace(Some(statement));
        Ok(())
    }

    /// From now on nothing is open between two calls. For whoever runs other people's code in between: an open connection
    /// of dblink can be used by all that runs in the session.
    pub fn hide(&self) {
        self.is_hidden.set(true);
        self.close();
    }

    fn exchange(&self, statement: &str, columns: usize, timeout: Duration) -> Result<Answer, ClaimsError> {
        let started = Instant::now();
        self.send(statement)?;
        self.wait(started, timeout)?;
        let texts: Vec<_> = (1..=columns).map(|column| format!("c{column} text")).collect();
        let numbers = || 1..=i32::try_from(columns).unwrap_or(0);
        let rows = self.answer(&texts.join(", ")).map(|row| numbers().map(|column| row.get(column)).collect());
        // The answer's end is an answer of its own; the connection takes no other call before that was read.
        self.wait(started, timeout)?;
        self.answer("nothing text");
        self.link.set(Link::Ready);
        Ok(Answer(rows))
    }

    /// Whether the error that has just ended a [`Service::call`] was the service's answer to it, so that others may be made
    /// after it. Raises a cancel of this session's own statement, should one have arrived at the same time.
    pub fn has_answered(&self, caught: &Caught) -> bool {
        obey_interrupts();
        self.link.get() == Link::Answering && caught.is_of_postgres() && !is_unreachable(caught)
    }

    fn open(&self, timeout: Duration) -> Result<(), ClaimsError> {
        if matches!(self.link.get(), Link::Busy | Link::Answering) {
            self.close();
        }
        if self.link.get() == Link::Closed {
            self.connect();
            self.link.set(Link::Ready);
            if let Some(statement) = &*self.prelude.borrow() {
                self.exchange(statement, 1, timeout)?;
            }
        }
        Ok(())
    }

    fn connect(&self) {
        // A cancel may arrive when the connection was made and before this function knows it.
        self.link.set(Link::Busy);
        let text = format!("SELECT {}.dblink_connect($1, $2)", self.schema);
        self.connection.run_text(&text, [self.name.as_str().into(), self.server.into()]);
    }

    fn send(&self, statement: &str) -> Result<(), ClaimsError> {
        self.link.set(Link::Busy);
        let text = format!("SELECT {}.dblink_send_query($1, $2)", self.schema);
        let sent = self.connection.run_text(&text, [self.name.as_str().into(), statement.into()]);
        match sent.first(|row| row.get::<i32>(1)).flatten() {
            Some(1) => Ok(()),
            _ => Err(CellError::ServiceUnreachable {
                server: self.server.to_owned(),
                detail: "The connection was lost.".into(),
            }
            .into()),
        }
    }

    /// Until there is something to read.
    fn wait(&self, started: Instant, timeout: Duration) -> Result<(), ClaimsError> {
        self.link.set(Link::Busy);
        let text = format!("SELECT {}.dblink_is_busy($1)", self.schema);
        loop {
            let busy = self.connection.run_text(&text, [self.name.as_str().into()]);
            if busy.first(|row| row.get::<i32>(1)).flatten() != Some(1) {
                return Ok(());
            }
            drop(busy);
            let waited = started.elapsed();
            if waited >= timeout {
                return Err(CellError::ServiceSilent { server: self.server.to_owned(), timeout }.into());
            }
            pause((waited / PAUSES_TO_DOUBLE).clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
        }
    }

    /// Reads what has arrived.
    fn answer(&self, columns: &str) -> Rows {
        let text = format!("SELECT * FROM {}.dblink_get_result($1) AS answer ({columns})", self.schema);
        self.link.set(Link::Answering);
        uninterrupted(|| self.connection.run_text(&text, [self.name.as_str().into()]))
    }

    fn close(&self) {
        if self.link.replace(Link::Closed) != Link::Closed {
            let dblink = &self.schema;
            let text =
                format!("SELECT {dblink}.dblink_disconnect($1) WHERE $1 = ANY ({dblink}.dblink_get_connections())");
            // A second cancel must not keep it open.
            uninterrupted(|| self.connection.run_text(&text, [self.name.as_str().into()]));
        }
    }
}

/// A statement of the service, with its parameters as $1, $2.
struct Query {
    text: &'static str,
    columns: usize,
}

/// A statement with literals in the places of its parameters.
fn spelled_out(text: &str, values: &[Parameter]) -> String {
    let mut parts = text.split('$');
    let mut statement = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let value = part[..end].parse().ok().and_then(|number: usize| values.get(number - 1)?.as_deref());
        statement += &value.map_or("NULL".to_owned(), literal);
        statement += &part[end..];
    }
    statement
}

/// A text as a literal of SQL, whatever the server's `standard_conforming_strings`.
fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if text.contains('\\') { format!(" E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}
