//! A connection.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null;
use std::rc::Rc;
use std::time::Instant;

use pgrx::pg_sys;

use super::bindings::*;
use super::connection::{CountedFiles, PqConnection};
use super::expected::{AnswerState, Awaited, AwaitedResult, ExpectedRows};
use super::memory::ProcessMemory;
use super::mismatch::Mismatch;
use super::result::{AnswerRow, Received, RemoteError, libpq_notice};
use crate::wait::{Socket, WaitSet, wait_for_socket};

/// The limit of libpq's memory for data that it has not returned. It allocates powers of two. A message may have up to
/// 32 MiB, which is the size of an error about 100,000 conflicts.
const MAX_UNREAD_BYTES: usize = 48 * 1024 * 1024;

/// The size of a result after which a connection is not kept, because libpq frees the memory only with the connection.
const MAX_RESULT_BYTES: usize = 1024 * 1024;

/// The size of a part of an answer after which a connection is not kept for the rest of the answer.
const MAX_PARTIAL_BYTES: usize = 4 * 1024 * 1024;

/// A statement, with its parameters as texts.
pub struct Command {
    /// The name for a prepared statement, if it may be prepared.
    pub name: Option<&'static CStr>,
    pub text: &'static CStr,
    /// The types of the parameters, by oids that are equal on every server. If it is empty, the other server infers
    /// them.
    pub types: Vec<pg_sys::Oid>,
    pub values: Vec<Option<CString>>,
    /// The rows and columns that it must return.
    pub expected: ExpectedRows,
}

/// The answer to commands that were sent together.
#[derive(Debug)]
pub enum Reply {
    /// The rows of the last command, as expected.
    Rows(Vec<AnswerRow>),
    Refused(RemoteError),
}

/// The reason why there is no answer. The connection cannot be used any more, except as [`Link::abandon`] says.
pub enum Trouble {
    /// The answer may still come.
    OutOfTime,
    /// The connection failed or was lost, with the reason.
    Lost(String),
    /// The other server has no slot for another connection.
    TooManyConnections(String),
    /// This process has too many open files.
    NoFiles,
    /// The other server sent an unexpected answer.
    Wrong(Mismatch),
}

/// A connection to another server, which is closed when this value is dropped. It is not closed explicitly when the
/// process exits.
///
/// It is always in libpq's pipeline mode. Commands that are sent before an earlier answer was read wait at the other
/// server, and answers come in the order of the commands. Rows are read one by one, so libpq never holds many.
pub struct Link {
    /// Set when the connection is open. It is dropped before the connection, because its socket must be open.
    waiter: Option<WaitSet>,
    connection: PqConnection,
    /// The notice that libpq has raised about data of the other server. It is dropped after the connection, which
    /// points to it.
    libpq_notice: Rc<RefCell<Option<String>>>,
    /// The counted file descriptor of the connection.
    _file: Option<CountedFiles>,
    outstanding: VecDeque<Awaited>,
    prepares: Prepares,
    /// Whether it has read an answer for which libpq has allocated much memory.
    is_bloated: bool,
    /// The memory of the process before libpq has read a part of the answer that was awaited last.
    memory_before: ProcessMemory,
}

/// The state of prepared statements at the other server.
enum Prepares {
    /// It is unknown whether one process answers everything, because there may be a pooler.
    NotYet,
    /// Statements with these names are prepared.
    Yes(Vec<&'static CStr>),
    Never,
}

impl Link {
    /// Returns a link for an open connection and its file descriptor.
    pub(super) fn new(connection: PqConnection, file: Option<CountedFiles>) -> Self {
        Link {
            waiter: None,
            connection,
            libpq_notice: Rc::default(),
            _file: file,
            outstanding: VecDeque::new(),
            prepares: Prepares::NotYet,
            is_bloated: false,
            memory_before: ProcessMemory::now(),
        }
    }

    /// Starts to collect notices and notifications of the other server, and creates the waiter.
    pub(super) fn opened(&mut self) {
        self.overhear_notices();
        self.waiter = Some(WaitSet::new(self.socket()));
    }

    fn overhear_notices(&self) {
        let argument = Rc::as_ptr(&self.libpq_notice).cast_mut().cast();
        // SAFETY: the connection is valid, and the argument lives as long as it.
        unsafe { PQsetNoticeReceiver(self.raw(), Some(overhear), argument) };
    }

    /// Returns whether the connection is not known to be broken, and may be kept.
    pub fn is_alive(&self) -> bool {
        !self.is_broken() && !self.is_bloated
    }

    /// Returns the number of answers that are still missing.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Gives up the wait for the answer to the commands that were sent last, after [`Trouble::OutOfTime`] or a cancel. [`Link::answer`]
    /// drops its rows when it comes. Returns false if the connection must be closed instead: the commands are not sent completely, so the
    /// other server has not begun to execute them; the connection is broken; or a large part of the answer has come.
    pub fn abandon(&mut self) -> bool {
        // SAFETY: the connection is open.
        let is_sent = unsafe { PQflush(self.raw()) == 0 };
        let is_kept = is_sent && self.is_alive() && self.memory_before.growth() <= MAX_PARTIAL_BYTES;
        is_kept && self.outstanding.back_mut().map(Awaited::abandon).is_some()
    }

    /// Records the process that has answered a command. If it is the one to which the connection was made, statements
    /// are prepared from now on. If another one answers, they never are.
    pub fn answered_by(&mut self, process: i64) {
        // SAFETY: the connection is open.
        let is_own = process != 0 && i64::from(unsafe { PQbackendPID(self.raw()) }) == process;
        match self.prepares {
            Prepares::NotYet if is_own => self.prepares = Prepares::Yes(Vec::new()),
            _ if !is_own => self.prepares = Prepares::Never,
            _ => {}
        }
    }

    /// Returns whether one process has answered everything since the first answer that named its process: the one to which the connection
    /// was made. Statements are prepared then, and no other process would know them.
    pub fn is_of_one_process(&self) -> bool {
        matches!(self.prepares, Prepares::Yes(_))
    }

    /// Stops preparing statements. Returns false if none was prepared before.
    pub fn stop_preparing(&mut self) -> bool {
        matches!(std::mem::replace(&mut self.prepares, Prepares::Never), Prepares::Yes(_))
    }

    /// Sends commands as one transaction, as far as possible without waiting; [`Link::answer`] sends the rest. Raises
    /// no error and does not check for cancels, so callbacks at the end of a transaction may call it. Returns false if
    /// the connection cannot be used any more.
    pub fn send(&mut self, commands: &[Command]) -> bool {
        let mut awaited = Awaited::default();
        let is_sent = commands.iter().all(|command| self.send_one(command, &mut awaited));
        self.outstanding.push_back(awaited);
        // SAFETY: the connection is open.
        is_sent && unsafe { PQpipelineSync(self.raw()) == 1 && PQflush(self.raw()) >= 0 }
    }

    fn send_one(&mut self, command: &Command, awaited: &mut Awaited) -> bool {
        const MOST: usize = 16;
        let Command { name, text, types, values, expected } = command;
        let mut pointers: [*const c_char; MOST] = [null(); MOST];
        for (pointer, value) in pointers.iter_mut().zip(values) {
            *pointer = value.as_ref().map_or(null(), |value| value.as_ptr());
        }
        let count = values.len().min(MOST) as c_int;
        let (type_count, types) = if types.len() == values.len() { (count, types.as_ptr()) } else { (0, null()) };
        let (conn, pointers) = (self.raw(), pointers.as_ptr());
        // SAFETY: `pointers` has a C string or NULL for each value, and `types` has an oid for each value or none.
        // libpq copies them, and the statement to prepare.
        let is_sent = unsafe {
            if let (Prepares::Yes(prepared), Some(name)) = (&mut self.prepares, *name) {
                if !prepared.contains(&name) {
                    prepared.push(name);
                    awaited.add(AwaitedResult::Preparation);
                    if PQsendPrepare(conn, name.as_ptr(), text.as_ptr(), type_count, types) != 1 {
                        return false;
                    }
                }
                PQsendQueryPrepared(conn, name.as_ptr(), count, pointers, null(), null(), 0) == 1
            } else {
                PQsendQueryParams(conn, text.as_ptr(), count, types, pointers, null(), null(), 0) == 1
            }
        };
        awaited.add(AwaitedResult::Rows(expected.clone()));
        is_sent
    }

    /// Waits for the answer to the oldest unanswered commands. A cancel, a timeout or a shutdown of this session ends
    /// the wait with an error. Then the answer may still come, and must be read before those to later commands.
    pub fn answer(&mut self, deadline: Instant) -> Result<Reply, Trouble> {
        // Includes the buffers of commands that are being sent.
        self.memory_before = ProcessMemory::now();
        let mut memory = AnswerMemory { before: self.memory_before, reads: 0 };
        let mut is_reachable = true;
        loop {
            if let Some(reply) = self.read(is_reachable, memory)? {
                return Ok(reply);
            }
            self.connection.drop_notifications();
            // SAFETY: the connection is open.
            let wanted = if unsafe { PQflush(self.raw()) } == 1 { Socket::Either } else { Socket::Readable };
            let has_time = match &mut self.waiter {
                Some(waiter) => waiter.wait(wanted, deadline),
                None => wait_for_socket(self.socket(), wanted, deadline),
            };
            if !has_time {
                return Err(Trouble::OutOfTime);
            }
            // SAFETY: the connection is open.
            is_reachable = unsafe { PQflush(self.raw()) >= 0 } & unsafe { PQconsumeInput(self.raw()) == 1 };
            memory.reads += 1;
        }
    }

    /// Takes the results that have arrived. Returns the reply when it is complete. Never waits.
    fn read(&mut self, is_reachable: bool, memory: AnswerMemory) -> Result<Option<Reply>, Trouble> {
        let Some(mut awaited) = self.outstanding.pop_front() else { return Ok(None) };
        loop {
            let was_open = is_reachable && !self.is_broken();
            // SAFETY: the connection is open. The mode applies to one statement, and can be set until its first row is
            // read.
            let is_busy = unsafe {
                PQsetSingleRowMode(self.raw());
                PQisBusy(self.raw()) == 1
            };
            if let Some(notice) = self.libpq_notice.take() {
                return Err(Trouble::Wrong(Mismatch::Unreadable(notice)));
            }
            if is_busy && was_open {
                if memory.reads > 0 {
                    must_be_bounded(memory, awaited.bytes())?;
                }
                self.outstanding.push_front(awaited);
                return Ok(None);
            }
            if is_busy {
                return Err(Trouble::Lost(self.last_message()));
            }
            // SAFETY: the connection is open, and the result has arrived: libpq would wait for it only while it is
            // busy.
            let result = Received(unsafe { PQgetResult(self.raw()) });
            if self.is_broken() {
                return Err(self.end(&result, was_open));
            }
            match awaited.take(&result) {
                Ok(AnswerState::More) => {}
                Ok(AnswerState::Complete) => return self.reply(awaited, memory).map(Some),
                // The end of the other server's session can follow any result, also an error.
                Err(mismatch) => {
                    let end = result.error().filter(RemoteError::is_connection_error);
                    return Err(end.map_or(Trouble::Wrong(mismatch), |end| Trouble::Lost(end.message)));
                }
            }
        }
    }

    /// Returns why the connection was lost. `was_open` means that libpq has closed it itself, because it could not read
    /// the data.
    fn end(&self, result: &Received, was_open: bool) -> Trouble {
        if was_open {
            return Trouble::Wrong(Mismatch::Unreadable(self.last_message()));
        }
        // An error that the other server has sent before says more than libpq's message.
        let mut error = result.error();
        for _ in 0..100 {
            // SAFETY: a lost connection returns the results that have arrived, and then NULL.
            let next = Received(unsafe { PQgetResult(self.raw()) });
            error = error.or_else(|| next.error());
            if error.is_some() || next.status().is_none() {
                break;
            }
        }
        Trouble::Lost(error.map_or_else(|| self.last_message(), |error| error.message))
    }

    fn reply(&mut self, awaited: Awaited, memory: AnswerMemory) -> Result<Reply, Trouble> {
        if self.outstanding.is_empty() {
            if !self.is_quiet() {
                return Err(Trouble::Wrong(Mismatch::Surplus));
            }
            self.must_be_idle()?;
        }
        self.is_bloated |= awaited.largest_result() > MAX_RESULT_BYTES;
        if !self.is_bloated && !memory.was_in_buffer() {
            must_be_bounded(memory, awaited.bytes())?;
        }
        match awaited.into_answer() {
            Ok(rows) => Ok(Reply::Rows(rows)),
            // Whatever its SQLSTATE says: this connection is there, and only one behind the service may be lost.
            Err(error) => Ok(Reply::Refused(error)),
        }
    }

    /// Returns whether libpq accepts the data after the last answer.
    fn is_quiet(&self) -> bool {
        // SAFETY: the connection is open; reads what has arrived.
        let is_busy = unsafe { PQisBusy(self.raw()) == 1 };
        !is_busy && !self.is_broken() && self.libpq_notice.take().is_none()
    }

    /// Returns an error unless the other server has reported that no transaction is open there. Only then the answered
    /// commands are committed. libpq knows the state while nothing is outstanding. If several answers come together,
    /// the last one counts.
    pub(super) fn must_be_idle(&self) -> Result<(), Trouble> {
        // SAFETY: reads fields.
        let says = match unsafe { PQtransactionStatus(self.raw()) } {
            TRANSACTION_IDLE => return Ok(()),
            IN_TRANSACTION => "a transaction is open",
            IN_FAILED_TRANSACTION => "a transaction has failed",
            _ => "a transaction is in an unknown state",
        };
        Err(Trouble::Wrong(Mismatch::Transaction(says)))
    }

    fn is_broken(&self) -> bool {
        self.connection.is_broken()
    }

    /// Returns the file descriptor of its socket, which is open as long as this value.
    pub fn descriptor(&self) -> c_int {
        self.socket()
    }

    fn socket(&self) -> c_int {
        self.connection.socket()
    }

    /// Returns the message of libpq's last failure. It never contains a password.
    pub(super) fn last_message(&self) -> String {
        self.connection.last_message()
    }

    pub(super) fn raw(&self) -> *mut PgConn {
        self.connection.raw()
    }
}

/// The memory of the process while libpq reads an answer.
#[derive(Clone, Copy)]
struct AnswerMemory {
    before: ProcessMemory,
    /// How often libpq has read from the socket since.
    reads: usize,
}

impl AnswerMemory {
    /// Returns whether a complete answer was in the buffer that libpq had, or came into it at once: it enlarges the buffer for a message of
    /// which it has a part. Asking the system would take a small call as long as sending it.
    fn was_in_buffer(self) -> bool {
        self.reads <= 1
    }
}

/// Checks the memory of libpq. The start of a large message makes libpq allocate memory for all of it; a later call
/// reads the rest. `held` is the memory of rows that it has returned.
fn must_be_bounded(memory: AnswerMemory, held: usize) -> Result<(), Trouble> {
    match memory.before.growth() {
        growth if growth > MAX_UNREAD_BYTES + held => {
            Err(Trouble::Wrong(Mismatch::TooLarge { most: MAX_UNREAD_BYTES }))
        }
        _ => Ok(()),
    }
}

/// Receives notices. Those of the other server are ignored, because they are not for this session's client. Those of
/// libpq itself report wrong data.
unsafe extern "C" fn overhear(argument: *mut c_void, notice: *const PgResult) {
    // SAFETY: the argument is that of `overhear_notices`, and libpq supplies the notice.
    unsafe {
        if let (Some(text), Ok(mut last_notice)) =
            (libpq_notice(notice), (*argument.cast::<RefCell<Option<String>>>()).try_borrow_mut())
        {
            *last_notice = Some(text);
        }
    }
}
