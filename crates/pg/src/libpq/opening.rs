//! Making a connection.

use std::ffi::{CStr, CString};
use std::time::Instant;

use pgrx::pg_sys;

use super::attempt::{Attempt, AttemptState};
use super::bindings::*;
use super::link::{Link, Trouble};
use super::memory::ProcessMemory;
use super::mismatch::Mismatch;
use crate::wait::wait_for_socket;

/// The text that libpq writes before the message, if the other server has no slot for a connection.
const TOO_MANY_CONNECTIONS: &str = ":  53300: ";

/// The limit of memory for making a connection, which includes libraries that it loads.
const MAX_OPENING_BYTES: usize = 256 * 1024 * 1024;

impl Link {
    /// Connects, with the encoding of this database. A cancel, a timeout or a shutdown of this session ends it with an
    /// error.
    pub fn open(options: &[(CString, CString)], deadline: Instant) -> Result<Link, Trouble> {
        // SAFETY: a constant string.
        let encoding = unsafe { CStr::from_ptr(pg_sys::GetDatabaseEncodingName()) };
        let mut options = options.to_vec();
        options.push((c"client_encoding".into(), encoding.into()));
        let memory = ProcessMemory::now();
        let mut attempt = Attempt::start(options)?;
        let connection = loop {
            let report = attempt.report(deadline)?;
            if memory.growth() > MAX_OPENING_BYTES {
                return Err(Trouble::Wrong(Mismatch::TooLarge { most: MAX_OPENING_BYTES }));
            }
            match report {
                // The socket stays open, because the thread closes it only in its next step.
                AttemptState::Wait(socket, wanted) if wait_for_socket(socket, wanted, deadline) => attempt.step(),
                AttemptState::Wait(..) => return Err(Trouble::OutOfTime),
                AttemptState::Failed(message) => return Err(not_made(&message)),
                AttemptState::Open(connection) => break connection,
            }
        };
        let mut link = Link::new(connection, attempt.over());
        link.must_be_idle()?;
        // SAFETY: the connection is open.
        unsafe {
            PQsetErrorVerbosity(link.raw(), ERRORS_DEFAULT);
            if PQenterPipelineMode(link.raw()) == 0 {
                return Err(Trouble::Lost(link.last_message()));
            }
        }
        link.opened();
        Ok(link)
    }

    /// Returns whether the other server has asked for the password.
    pub fn has_used_password(&self) -> bool {
        // SAFETY: the connection is open.
        unsafe { PQconnectionUsedPassword(self.raw()) != 0 }
    }
}

/// Returns why a connection failed, by libpq's message.
fn not_made(message: &str) -> Trouble {
    let is_full = message.contains(TOO_MANY_CONNECTIONS);
    // The location in the source of the other server where the error was raised.
    let is_source_location = |line: &str| {
        let number = line.rsplit(':').next().unwrap_or_default();
        line.contains(":  ") && line.contains(", ") && !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit())
    };
    let lines: Vec<_> = message.lines().filter(|line| !is_source_location(line)).collect();
    let message = lines.join("\n");
    if is_full { Trouble::TooManyConnections(message) } else { Trouble::Lost(message) }
}
