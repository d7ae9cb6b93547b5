//! A connection of libpq and the file descriptors that PostgreSQL counts for it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{NonNull, null, null_mut};

use pgrx::pg_sys;

use super::bindings::*;

/// A connection of libpq, which is closed when this value is dropped.
///
/// One thread uses it at a time. The value has one owner, and nothing copies the pointer beyond a call, so only the
/// owning thread uses it. libpq needs no more to be thread-safe.
pub(super) struct PqConnection(NonNull<PgConn>);

// SAFETY: libpq has no thread-local state for a connection, so any thread may make the next call.
unsafe impl Send for PqConnection {}

impl PqConnection {
    /// Starts to connect; libpq looks up the name of the first host. Returns `None` if libpq has no memory. Calls no
    /// function of the server, so any thread may call it.
    pub(super) fn start(options: &[(CString, CString)]) -> Option<Self> {
        let terminated = |texts: Vec<*const c_char>| texts.into_iter().chain([null()]).collect::<Vec<_>>();
        let keywords = terminated(options.iter().map(|(keyword, _)| keyword.as_ptr()).collect());
        let values = terminated(options.iter().map(|(_, value)| value.as_ptr()).collect());
        // SAFETY: two arrays of C strings of equal length, each terminated by NULL; libpq copies the strings.
        let conn = NonNull::new(unsafe { PQconnectStartParams(keywords.as_ptr(), values.as_ptr(), 0) })?;
        // SAFETY: the connection is being made. Without the first call libpq would wait without limit for a server that
        // reads nothing. Without the second one it would write the server's notices to the log. The third one makes
        // error messages contain their SQLSTATE.
        unsafe {
            PQsetnonblocking(conn.as_ptr(), 1);
            PQsetNoticeReceiver(conn.as_ptr(), Some(ignore), null_mut());
            PQsetErrorVerbosity(conn.as_ptr(), ERRORS_VERBOSE);
        }
        Some(PqConnection(conn))
    }

    /// Returns the pointer for calls of libpq that end before this value is dropped.
    pub(super) fn raw(&self) -> *mut PgConn {
        self.0.as_ptr()
    }

    pub(super) fn is_broken(&self) -> bool {
        // SAFETY: reads a field.
        unsafe { PQstatus(self.raw()) == CONNECTION_BAD }
    }

    pub(super) fn socket(&self) -> c_int {
        // SAFETY: reads a field.
        unsafe { PQsocket(self.raw()) }
    }

    /// Drops notifications of an open connection, which libpq collects.
    pub(super) fn drop_notifications(&self) {
        loop {
            // SAFETY: the connection is open; the notification is freed.
            unsafe {
                let notification = PQnotifies(self.raw());
                if notification.is_null() {
                    return;
                }
                PQfreemem(notification);
            }
        }
    }

    /// Like [`PqConnection::drop_notifications`], while the connection is made. PQnotifies reads messages, which libpq does itself
    /// only after authentication. Before, it would take the messages of the authentication for others.
    pub(super) fn drop_early_notifications(&self) {
        // SAFETY: reads a field.
        if unsafe { PQstatus(self.raw()) } == CONNECTION_AUTH_OK {
            self.drop_notifications();
        }
    }

    /// Returns the message of libpq's last failure. It never contains a password.
    pub(super) fn last_message(&self) -> String {
        // SAFETY: a C string that lives as long as the connection.
        let message = unsafe { CStr::from_ptr(PQerrorMessage(self.raw())) }.to_string_lossy().trim_end().to_owned();
        if message.is_empty() { "The connection was lost.".into() } else { message }
    }
}

impl Drop for PqConnection {
    fn drop(&mut self) {
        // SAFETY: made by libpq, and closed once.
        unsafe { PQfinish(self.raw()) };
    }
}

/// Ignores notices while a connection is made, in any thread.
unsafe extern "C" fn ignore(_: *mut c_void, _: *const PgResult) {}

/// File descriptors that PostgreSQL did not open, counted for its limit. Only the backend's own thread uses the value.
pub(super) struct CountedFiles {
    number: u32,
    // Not Send.
    _thread: std::marker::PhantomData<*const ()>,
}

impl CountedFiles {
    /// Counts file descriptors. Returns `None` if this process has too many.
    pub(super) fn take(number: u32) -> Option<Self> {
        let mut files = CountedFiles { number: 0, _thread: std::marker::PhantomData };
        for _ in 0..number {
            // SAFETY: counts a file descriptor, which is released with this value.
            if !unsafe { pg_sys::AcquireExternalFD() } {
                return None;
            }
            files.number += 1;
        }
        Some(files)
    }

    /// Releases all except `number`.
    pub(super) fn keep(&mut self, number: u32) {
        while self.number > number {
            self.number -= 1;
            // SAFETY: releases a counted file descriptor.
            unsafe { pg_sys::ReleaseExternalFD() };
        }
    }
}

impl Drop for CountedFiles {
    fn drop(&mut self) {
        self.keep(0);
    }
}
