//! A connection.

use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{NonNull, null};
use std::time::Instant;

use pgrx::pg_sys;

use super::bindings::*;
use super::result::{Received, RemoteError};
use crate::pg::wait::{Socket, wait_for_socket};

/// A statement, with its parameters as texts.
pub struct Command {
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
        let link = Link { conn, outstanding: VecDeque::new() };
        link.poll_until_open(deadline)?;
        // SAFETY: the connection is open.
        unsafe {
            PQsetnonblocking(conn.as_ptr(), 1);
            PQsetNoticeReceiver(conn.as_ptr(), Some(overhear), std::ptr::null_mut());
            if PQenterPipelineMode(conn.as_ptr()) == 0 {
                return Err(Trouble::Failed(link.last_message()));
            }
        }
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

    /// Sends commands, as one transaction, as far as that goes without waiting; the rest goes with [`Link::try_answer`] and
    /// [`Link::answer`]. Raises nothing and does not look for cancels: for callbacks at a transaction's end, too. `false`:
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

    fn send_one(&self, Command { text, types, values }: &Command) -> bool {
        const MOST: usize = 16;
        let mut pointers: [*const c_char; MOST] = [null(); MOST];
        for (pointer, value) in pointers.iter_mut().zip(values) {
            *pointer = value.as_ref().map_or(null(), |value| value.as_ptr());
        }
        let count = values.len().min(MOST) as c_int;
        let types = if types.len() == values.len() { types.as_ptr() } else { null() };
        // SAFETY: `pointers` holds as many C strings, or NULLs, as there are values, and `types` as many numbers; libpq copies
        // them.
        unsafe { PQsendQueryParams(self.raw(), text.as_ptr(), count, types, pointers.as_ptr(), null(), null(), 0) == 1 }
    }

    /// The answer to the first that was sent of what was not answered, if it is there. Neither waits nor raises.
    pub fn try_answer(&mut self) -> Option<Reply> {
        // SAFETY: the connection is open.
        let is_alive = unsafe { PQflush(self.raw()) >= 0 } & unsafe { PQconsumeInput(self.raw()) == 1 };
        self.read(is_alive)
    }

    /// Waits for that answer. A cancel, a timeout or a shutdown of this session ends it with an error; the
    /// connection is of no use then, since the answer may still come.
    pub fn answer(&mut self, deadline: Instant) -> Result<Reply, Trouble> {
        loop {
            if let Some(reply) = self.try_answer() {
                return Ok(reply);
            }
            // SAFETY: the connection is open.
            let wanted = if unsafe { PQflush(self.raw()) } == 1 { Socket::Either } else { Socket::Readable };
            if !wait_for_socket(self.socket(), wanted, deadline) {
                return Err(Trouble::OutOfTime);
            }
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
        // SAFETY: made by libpq and not closed before; the count was taken when it was made.
        unsafe {
            PQfinish(self.raw());
            pg_sys::ReleaseExternalFD();
        }
    }
}

/// Notices of the other server are not for this session's client.
unsafe extern "C" fn overhear(_argument: *mut c_void, _notice: *const PgResult) {}
