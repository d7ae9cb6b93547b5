//! A call to a service, in three steps: preparing it, sending it, and reading its answer. A session that calls several services at once
//! prepares all calls, then sends all of them, and only then waits for the first answer.

use std::ffi::{CStr, c_int};
use std::time::{Duration, Instant};

use super::answer::Answer;
use super::connection_cache::{self, CachedConnection, Unread};
use super::question::Question;
use super::turns::Turn;
use super::{Service, Way, breaker};
use crate::cell::errors::CellError;
use crate::kernel::error::ClaimsError;
use pg::libpq::{Command, Mismatch, Reply, Trouble};

/// Part of a timeout that waiting for a turn or a place leaves to the service, but at most a quarter of it.
const TIME_TO_ANSWER: Duration = Duration::from_millis(50);

/// How long after the end of a call its connection waits for the late answer. A connection whose server has vanished is replaced after it.
const LATE_ANSWER: Duration = Duration::from_secs(10);
/// The time to read a late answer that has come long ago.
const READING: Duration = Duration::from_millis(20);

/// The name of the call whose answer ends with the answering process.
const RETURNS_PROCESS: &CStr = c"claims_begin";

/// A call whose turn has come and that has a connection.
pub(super) struct ServiceCall<'s, 'c> {
    service: &'s Service<'c>,
    commands: &'s [Command],
    request_bytes: usize,
    admitted: breaker::AdmittedCall,
    /// `None` while it is replaced, and after the call.
    connection: Option<CachedConnection>,
    /// Whether the connection was cached. If it is dead, or leads to a server that has become read-only, the call is repeated once over
    /// a new one.
    is_reused: bool,
    /// The time that the service has to answer.
    timeout: Duration,
    /// The moment until which a further connection may wait for a place.
    places_until: Instant,
    sent_at: Instant,
    is_sent: bool,
    /// Part of `timeout` in which the service has still answered earlier calls.
    late: Duration,
    /// Whether the session waits for an answer. A cancel ends the wait without coming back.
    awaits: bool,
    /// The socket of the connection while other sessions can have it closed.
    lent: Option<c_int>,
    /// The end of the call, when it is dropped.
    turn: Turn,
}

impl<'s, 'c> ServiceCall<'s, 'c> {
    /// Waits until this session may call the service, and takes the cached connection or makes one.
    pub fn prepare(service: &'s Service<'c>, commands: &'s [Command], timeout: Duration) -> Result<Self, ClaimsError> {
        let request_bytes = request_bytes(commands)?;
        // Waiting for a turn, and then for a place for a connection, leaves some time for the answer.
        let arrived = Instant::now();
        let until = arrived + timeout.saturating_sub(TIME_TO_ANSWER.min(timeout / 4));
        let places_until = service.deadline.map_or(until, |deadline| deadline.min(until));
        let mut turn = Turn::default();
        service.take(&mut turn, places_until)?;
        let (admitted, reused) = match &service.way {
            Way::Catalog(..) => {
                (breaker::admit(service.server, service.oid(), false)?, connection_cache::take(service.server))
            }
            Way::Address(address) => (
                breaker::admit(service.server, address.oid, true)?,
                connection_cache::take_of(service.server, address.user),
            ),
        };
        admitted.waits(service.handed_wait.get());
        let mut call = ServiceCall {
            service,
            commands,
            request_bytes,
            admitted,
            is_reused: reused.is_some(),
            connection: reused,
            timeout,
            places_until,
            sent_at: arrived,
            is_sent: false,
            late: Duration::ZERO,
            awaits: false,
            lent: None,
            turn,
        };
        call.has_waited(Duration::ZERO);
        if !call.read_late()? {
            call.reconnect()?;
        }
        Ok(call)
    }

    /// Reads and drops the late answers of earlier calls, before anything is sent: a service that still executes them executes no further call
    /// behind them. Returns whether there is a connection to use. It is closed if an answer does not come in time; if a call that may fail
    /// the save has waited for half of its time, for then a new connection may be faster; or if the answer is wrong, as it is of no use.
    fn read_late(&mut self) -> Result<bool, ClaimsError> {
        let Some(connection) = &mut self.connection else { return Ok(false) };
        let Some(late_until) = connection.late_until() else { return Ok(true) };
        let now = Instant::now();
        let own = self.service.deadline.map_or(now + self.timeout / 2, |deadline| deadline.min(now + self.timeout));
        self.awaits = true;
        let read = connection.read_late(own.min(late_until.max(now + READING)));
        self.awaits = false;
        self.late = now.elapsed();
        self.service.has_waited(self.late);
        match read {
            Ok(()) => Ok(connection.link.is_alive()),
            Err(Trouble::OutOfTime) if self.service.deadline.is_some() && Instant::now() < late_until => {
                self.put_back();
                let error = self.service.failure(Trouble::OutOfTime, self.timeout).into();
                self.admitted.failed(&error, self.request_bytes);
                Err(error)
            }
            Err(_) => Ok(false),
        }
    }

    /// Keeps the connection after a call that has ended without the answer, which may still come. Where the service waits for names, the
    /// connection is closed, which ends the wait. The lease of a begin may have begun: recovery rolls it back.
    fn keep_for_late_answer(&mut self) {
        let waits = self.waits();
        let Some(mut connection) = self.connection.take() else { return };
        if !waits && connection.link.abandon() {
            connection.unread.push_back(Unread::Late(Instant::now() + LATE_ANSWER));
            connection_cache::put_back(connection);
        }
    }

    /// Leaves the service the time that this session has not spent waiting for its turn and for a place.
    fn has_waited(&mut self, for_place: Duration) {
        let waited = std::mem::take(&mut self.turn.waited) + for_place;
        self.service.has_waited(waited);
        self.timeout = self.timeout.saturating_sub(waited);
    }

    /// Ends the call for now, before it is sent: others may call meanwhile. The session keeps the connection.
    pub fn pause(&mut self) {
        self.turn.pause();
    }

    /// Waits for the turn of a paused call.
    pub fn resume(&mut self) -> Result<(), ClaimsError> {
        self.service.take(&mut self.turn, self.places_until)?;
        self.has_waited(Duration::ZERO);
        Ok(())
    }

    /// Sends the commands. [`ServiceCall::answer`] reports a failure.
    pub fn send(&mut self) {
        self.sent_at = Instant::now();
        self.is_sent = self.connection.as_mut().is_some_and(|connection| connection.link.send(self.commands));
        // While the service waits for names, others may call, and may have the place of the connection.
        if self.waits() {
            self.turn.pause();
            self.lent = self.connection.as_ref().map(connection_cache::lend);
        }
    }

    /// Returns whether the service may wait for names within the call.
    fn waits(&self) -> bool {
        !self.service.handed_wait.get().is_zero()
    }

    /// Ends a wait of the service for names. Returns whether another session needs the place of the connection.
    fn ends_wait(&mut self) -> bool {
        let lent = self.connection.as_ref().zip(self.lent.take());
        lent.is_some_and(|(connection, socket)| connection_cache::take_back(connection, socket))
    }

    /// Waits for the answer, and reads it before the connection is cached. The service has at least `grace` from now: after its timeout has
    /// passed while this session waited for another service, its answer is there. If the cached connection turns out to be useless,
    /// repeats the call over a new one.
    pub fn answer<T>(
        mut self,
        grace: Duration,
        read: impl FnOnce(Answer) -> Result<T, Mismatch>,
    ) -> Result<T, ClaimsError> {
        loop {
            if let Some(answer) = self.receive_answer(grace)? {
                return self.end(answer, read);
            }
            self.reconnect()?;
            self.send();
        }
    }

    /// Like [`ServiceCall::answer`], for a session that has made other calls, too, and must not wait for another place meanwhile. Returns `None`
    /// if the caller must repeat the call when they have ended.
    pub fn answer_once<T>(
        mut self,
        grace: Duration,
        read: impl FnOnce(Answer) -> Result<T, Mismatch>,
    ) -> Result<Option<T>, ClaimsError> {
        match self.receive_answer(grace)? {
            Some(answer) => self.end(answer, read).map(Some),
            None => Ok(None),
        }
    }

    /// Ends the call, which was not sent or is answered, and caches the connection.
    pub fn give_up(mut self) {
        self.put_back();
    }

    fn put_back(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection_cache::put_back(connection);
        }
    }

    fn end<T>(mut self, answer: Answer, read: impl FnOnce(Answer) -> Result<T, Mismatch>) -> Result<T, ClaimsError> {
        let read = read(answer).map_err(|mismatch| self.service.failure(Trouble::Wrong(mismatch), self.timeout))?;
        self.admitted.succeeded();
        self.put_back();
        Ok(read)
    }

    /// Waits for the answer. Returns `None` if the cached connection is dead, or leads to a server that has become read-only.
    fn receive_answer(&mut self, grace: Duration) -> Result<Option<Answer>, ClaimsError> {
        loop {
            let timeout = self.timeout;
            let least = Instant::now() + grace;
            let end = (self.sent_at + timeout.saturating_sub(self.late)).max(least);
            // A connection that is not put back is closed.
            let deadline = self.service.deadline.map_or(end, |deadline| deadline.min(end));
            let mut catching_up = match (&self.connection, self.service.deadline) {
                (Some(connection), None) => connection.time_to_catch_up(),
                _ => Duration::ZERO,
            };
            self.awaits = self.is_sent;
            let reply = if self.is_sent { self.receive(deadline, &mut catching_up) } else { Err(lost()) };
            self.awaits = false;
            self.service.has_waited(self.sent_at.elapsed().saturating_sub(catching_up));
            if self.ends_wait() && matches!(reply, Err(Trouble::Lost(_))) {
                self.connection = None;
                self.service.gives_way();
                let detail = "Another session needed the place while the service waited for a name.".to_owned();
                return Err(CellError::ServiceFull { server: self.service.server.to_owned(), detail }.into());
            }
            match reply {
                Ok(Reply::Rows(rows)) => return Ok(Some(Answer(rows))),
                // A pooler is between cell and service, although it looked like the server itself.
                Ok(Reply::Refused(error)) if error.is_prepared_statement_error() && self.stop_preparing() => {
                    self.is_reused = true;
                }
                // The server is a standby after a switch-over: a new connection may lead to the new primary.
                Ok(Reply::Refused(error)) if error.is_read_only() && self.is_reused => return Ok(None),
                Ok(Reply::Refused(error)) => {
                    self.admitted.succeeded();
                    let refusal = self.service.refusal(error);
                    if !matches!(&refusal, CellError::Refused(error) if error.is_read_only()) {
                        self.put_back();
                    }
                    return Err(refusal.into());
                }
                Err(Trouble::Lost(_)) if self.is_reused => return Ok(None),
                Err(trouble) => {
                    if matches!(trouble, Trouble::OutOfTime) {
                        self.keep_for_late_answer();
                    }
                    let error = self.service.failure(trouble, timeout).into();
                    self.admitted.failed(&error, self.request_bytes);
                    return Err(error);
                }
            }
            self.send();
        }
    }

    fn stop_preparing(&mut self) -> bool {
        self.connection.as_mut().is_some_and(|connection| connection.link.stop_preparing())
    }

    /// Replaces the connection, which is closed, by a new one.
    fn reconnect(&mut self) -> Result<(), ClaimsError> {
        // It gives its place up.
        self.connection = None;
        let connected = self.service.find_place(self.places_until, &self.admitted, &mut self.turn);
        let (connection, for_place) = connected.inspect_err(|error| self.admitted.failed(error, self.request_bytes))?;
        self.connection = Some(connection);
        self.is_reused = false;
        self.has_waited(for_place);
        Ok(())
    }

    /// Reads the answer. The service may first have to settle large leases of an earlier transaction of this session. It may take up to
    /// `catching_up` longer for that, and the function sets `catching_up` to the time that it has taken.
    fn receive(&mut self, deadline: Instant, catching_up: &mut Duration) -> Result<Reply, Trouble> {
        let Some(connection) = &mut self.connection else { return Err(lost()) };
        let (began, most) = (Instant::now(), *catching_up);
        let caught_up = connection.catch_up(deadline + most);
        *catching_up = began.elapsed().min(most);
        caught_up?;
        let reply = connection.link.answer(deadline + *catching_up)?;
        if let Reply::Rows(rows) = &reply
            && self.commands.last().is_some_and(|command| command.name == Some(RETURNS_PROCESS))
        {
            let process = rows.first().and_then(|row| row.last()?.as_deref()?.parse().ok());
            connection.has_begun(process.unwrap_or_default());
        }
        Ok(reply)
    }
}

impl Drop for ServiceCall<'_, '_> {
    /// Keeps the connection of a call that an error of this session has ended while it waited, for example a cancel.
    fn drop(&mut self) {
        if !self.awaits {
            return;
        }
        let is_shut_down = self.ends_wait();
        if !self.is_sent {
            self.put_back();
        } else if !is_shut_down {
            self.keep_for_late_answer();
        }
    }
}

impl Service<'_> {
    /// Runs commands at the service in one transaction, and reads the answer to the last one before the connection is cached.
    pub(super) fn run<T>(
        &self,
        commands: &[Command],
        timeout: Duration,
        read: impl FnOnce(Answer) -> Result<T, Mismatch>,
    ) -> Result<T, ClaimsError> {
        let mut call = ServiceCall::prepare(self, commands, timeout)?;
        call.send();
        call.answer(Duration::ZERO, read)
    }
}

fn lost() -> Trouble {
    Trouble::Lost("The connection was lost.".into())
}

/// Returns the number of bytes that a call sends, or an error above a limit. A server accepts no message above a gigabyte, and closes the
/// connection.
fn request_bytes(commands: &[Command]) -> Result<usize, ClaimsError> {
    const MOST: usize = 512 * 1024 * 1024;
    match commands.iter().map(Question::bytes).sum() {
        bytes if bytes > MOST => Err(CellError::RequestTooLarge { bytes, most: MOST }.into()),
        bytes => Ok(bytes),
    }
}
