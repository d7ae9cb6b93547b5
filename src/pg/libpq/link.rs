//! A connection.

use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{NonNull, null};
use std::time::Instant;

use pgrx::pg_sys;

use super::bindings::*;
use super::result::{Received, RemoteError};
use crate::pg::wait::{Socket, Waiter, wait_for_socket};

/// A statement, with its parameters as texts.
pub struct Command {
    /// The name under which it may be prepared.
    pub name: Option<&'static CStr>,
    pub text: CString,
    /// The types of the parameters, by numbers that are the same on every server; empty: as the statement says.
    pub types: &'static [pg_sys::Oid],
    pub values: Vec<Option<CString>>,
}

/// What came of commands.
#[derive(Debug)]
pub enum Reply {
    /// The rows of the last one, as texts.
    Rows(Vec<Vec<Option<String>>>),
    Refused(RemoteError),
    /// The connection is gone, and why.
    Lost(String),
}

/// Why nothing has come.
pub enum Trouble {
    OutOfTime,
    Failed(String),
}

/// What is being waited for.
#[derive(Default)]
struct AwaitedReply {
    rows: Vec<Vec<Option<String>>>,
    error: Option<RemoteError>,
}

/// A connection to another server; closed with this value. It is not closed when the process ends, which does that.
///
/// It is in libpq's pipeline mode all the time: what is sent before an earlier answer was read waits at the other end, and
/// answers come in the order of what was sent.
pub struct Link {
    conn: NonNull<PgConn>,
    outstanding: VecDeque<AwaitedReply>,
    prepares: Prepares,
    /// There once the connection is.
    waiter: Option<Waiter>,
}

/// Whether statements are prepared at the other end.
enum Prepares {
    /// It is not known whether the same process answers everything: a pooler may stand in between.
    NotYet,
    /// Statements of these names are.
    Yes(Vec<&'static CStr>),
    Never,
}

impl Link {
    /// Connects, to speak in the encoding of this database. A cancel, a timeout or a shutdown of this session ends it with
    /// an error.
    pub fn open(options: &[(CString, CString)], deadline: Instant) -> Result<Link, Trouble> {
        // SAFETY: a constant string.
        let encoding = unsafe { pg_sys::GetDatabaseEncodingName() };
        let terminated = |texts: Vec<*const c_char>| texts.into_iter().chain([null()]).collect::<Vec<_>>();
        let keywords = terminated(
            options.iter().map(|(keyword, _)| keyword.as_ptr()).chain([c"client_encoding".as_ptr()]).collect(),
        );
        let values = terminated(options.iter().map(|(_, value)| value.as_ptr()).chain([encoding]).collect());
        // SAFETY: counts a file descriptor, given back when the link is dropped.
        if !unsafe { pg_sys::AcquireExternalFD() } {
            return Err(Trouble::Failed("There are too many open files on the local server.".into()));
        }
        // SAFETY: two arrays of C strings of the same length, each ended by NULL.
        let Some(conn) = NonNull::new(unsafe { PQconnectStartParams(keywords.as_ptr(), values.as_ptr(), 0) }) else {
            // SAFETY: takes back the count from above.
            unsafe { pg_sys::ReleaseExternalFD() };
            return Err(Trouble::Failed("Out of memory.".into()));
        };
        let mut link = Link { conn, outstanding: VecDeque::new(), prepares: Prepares::NotYet, waiter: None };
        link.poll_until_open(deadline)?;
        // SAFETY: the connection is open.
        unsafe {
            PQsetnonblocking(conn.as_ptr(), 1);
            PQsetNoticeReceiver(conn.as_ptr(), Some(overhear), std::ptr::null_mut());
            if PQenterPipelineMode(conn.as_ptr()) == 0 {
                return Err(Trouble::Failed(link.last_message()));
            }
        }
        link.waiter = Some(Waiter::new(link.socket()));
        Ok(link)
    }

    fn poll_until_open(&self, deadline: Instant) -> Result<(), Trouble> {
        // The first wait is for the socket to be writable, whatever is polled.
        let mut state = POLLING_WRITING;
        if self.is_broken() {
            return Err(Trouble::Failed(self.last_message()));
        }
        loop {
            let wanted = match state {
                POLLING_OK => return Ok(()),
                POLLING_READING => Socket::Readable,
                POLLING_WRITING => Socket::Writable,
                POLLING_FAILED => return Err(Trouble::Failed(self.last_message())),
                _ => Socket::Readable,
            };
            if !wait_for_socket(self.socket(), wanted, deadline) {
                return Err(Trouble::OutOfTime);
            }
            // SAFETY: the connection is being made.
            state = unsafe { PQconnectPoll(self.raw()) };
        }
    }

    /// Whether the other server has asked for the password.
    pub fn has_used_password(&self) -> bool {
        // SAFETY: the connection is open.
        unsafe { PQconnectionUsedPassword(self.raw()) != 0 }
    }

    /// As far as is known.
    pub fn is_alive(&self) -> bool {
        !self.is_broken()
    }

    /// How many answers are still to come.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// The process that has answered a command. Where it is the one to which the connection was made, statements are prepared there
    /// from now on; where another one answers, never.
    pub fn answered_by(&mut self, process: i64) {
        // SAFETY: the connection is open.
        let is_own = process != 0 && i64::from(unsafe { PQbackendPID(self.raw()) }) == process;
        match self.prepares {
            Prepares::NotYet if is_own => self.prepares = Prepares::Yes(Vec::new()),
            _ if !is_own => self.prepares = Prepares::Never,
            _ => {}
        }
    }

    /// Prepares nothing any more. `false`: it has not before.
    pub fn stop_preparing(&mut self) -> bool {
        matches!(std::mem::replace(&mut self.prepares, Prepares::Never), Prepares::Yes(_))
    }

    /// Sends commands, as one transaction, as far as that goes without waiting; the rest goes with [`Link::answer`].
    /// Raises nothing and does not look for cancels: for callbacks at a transaction's end, too. `false`:
    /// the connection is of no use any more.
    pub fn send(&mut self, commands: &[Command]) -> bool {
        self.outstanding.push_back(AwaitedReply::default());
        // SAFETY: the connection is open; libpq copies what it is given.
        unsafe {
            commands.iter().all(|command| self.send_one(command))
                && PQpipelineSync(self.raw()) == 1
                && PQflush(self.raw()) >= 0
        }
    }

    fn send_one(&mut self, Command { name, text, types, values }: &Command) -> bool {
        const MOST: usize = 16;
        let mut pointers: [*const c_char; MOST] = [null(); MOST];
        for (pointer, value) in pointers.iter_mut().zip(values) {
            *pointer = value.as_ref().map_or(null(), |value| value.as_ptr());
        }
        let count = values.len().min(MOST) as c_int;
        let (type_count, types) = if types.len() == values.len() { (count, types.as_ptr()) } else { (0, null()) };
        let (conn, pointers) = (self.raw(), pointers.as_ptr());
        // SAFETY: `pointers` holds as many C strings, or NULLs, as there are values, and `types` as many numbers, or none; libpq
        // copies them, and what is prepared, too.
        unsafe {
            let (Prepares::Yes(prepared), Some(name)) = (&mut self.prepares, *name) else {
                return PQsendQueryParams(conn, text.as_ptr(), count, types, pointers, null(), null(), 0) == 1;
            };
            if !prepared.contains(&name) {
                prepared.push(name);
                if PQsendPrepare(conn, name.as_ptr(), text.as_ptr(), type_count, types) != 1 {
                    return false;
                }
            }
            PQsendQueryPrepared(conn, name.as_ptr(), count, pointers, null(), null(), 0) == 1
        }
    }

    /// Waits for the answer to the first that was sent of what was not answered. A cancel, a timeout or a shutdown of this session
    /// ends it with an error; the connection is of no use then, since the answer may still come.
    pub fn answer(&mut self, deadline: Instant) -> Result<Reply, Trouble> {
        let mut is_alive = true;
        loop {
            if let Some(reply) = self.read(is_alive) {
                return Ok(reply);
            }
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
            is_alive = unsafe { PQflush(self.raw()) >= 0 } & unsafe { PQconsumeInput(self.raw()) == 1 };
        }
    }

    /// Takes in the results that have arrived; the reply once there are no more of them.
    fn read(&mut self, is_alive: bool) -> Option<Reply> {
        let mut outstanding = self.outstanding.pop_front()?;
        let is_gone = |link: &Link| !is_alive || link.is_broken();
        loop {
            // SAFETY: the connection is open; a result is freed when it was read.
            let (status, result) = unsafe {
                // Of a connection that is gone libpq hands out what had arrived before.
                if !is_gone(self) && PQisBusy(self.raw()) == 1 {
                    self.outstanding.push_front(outstanding);
                    return None;
                }
                let result = PQgetResult(self.raw());
                (if result.is_null() { -1 } else { PQresultStatus(result) }, Received(result))
            };
            match status {
                // The end of one command's results; others follow.
                -1 if !is_gone(self) => continue,
                -1 | PIPELINE_SYNC => break,
                COMMAND_OK => outstanding.rows.clear(),
                TUPLES_OK => outstanding.rows = result.rows(),
                PIPELINE_ABORTED => {}
                _ => {
                    outstanding.error.get_or_insert_with(|| result.error(|| self.last_message()));
                }
            }
        }
        Some(match outstanding.error {
            Some(error) if is_gone(self) || error.is_of_connection() => Reply::Lost(error.message),
            None if is_gone(self) => Reply::Lost(self.last_message()),
            Some(error) => Reply::Refused(error),
            None => Reply::Rows(outstanding.rows),
        })
    }

    fn is_broken(&self) -> bool {
        // SAFETY: reads a field.
        unsafe { PQstatus(self.raw()) == CONNECTION_BAD }
    }

    fn socket(&self) -> c_int {
        // SAFETY: reads a field.
        unsafe { PQsocket(self.raw()) }
    }

    /// What libpq says of its last failure. It never says a password.
    fn last_message(&self) -> String {
        // SAFETY: a C string that lives as long as the connection.
        let message = unsafe { CStr::from_ptr(PQerrorMessage(self.raw())) }.to_string_lossy().trim_end().to_owned();
        if message.is_empty() { "The connection was lost.".into() } else { message }
    }

    fn raw(&self) -> *mut PgConn {
        self.conn.as_ptr()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // While the socket that it waits for is open.
        drop(self.waiter.take());
        // SAFETY: made by libpq and not closed before; the count was taken when it was made.
        unsafe {
            PQfinish(self.raw());
            pg_sys::ReleaseExternalFD();
        }
    }
}

/// Notices of the other server are not for this session's client.
unsafe extern "C" fn overhear(_argument: *mut c_void, _notice: *const PgResult) {}
