//! The place where a database is: what distinguishes it from its physical copies. A crash and a restart change nothing about it.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use pgrx::pg_sys;

use super::clock::Moment;

/// The directory of this server's data, and the machine that it is on.
pub struct ServerLocation {
    pub host: String,
    pub directory: String,
    /// The inode of the control file, which PostgreSQL only ever changes in place. Two containers may have a host name and a path in common.
    pub file: u64,
}

static LOCATION: OnceLock<ServerLocation> = OnceLock::new();

/// Returns the location. The first call decides: if the library is preloaded, that is in the postmaster, so that all processes have the same one
/// until the server is started anew, whatever becomes of the host name.
pub fn location() -> &'static ServerLocation {
    LOCATION.get_or_init(|| {
        let directory = data_directory();
        let file = std::fs::metadata(directory.join("global/pg_control")).map_or(0, |file| file.ino());
        ServerLocation { host: host_name(), directory: directory.to_string_lossy().into_owned(), file }
    })
}

fn data_directory() -> PathBuf {
    // SAFETY: the server has set it to an absolute path before it loads any library.
    let named = unsafe { pg_sys::DataDir };
    if named.is_null() {
        return PathBuf::new();
    }
    // SAFETY: a C string that lives as long as the process.
    let named = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(named) }.to_bytes()));
    named.canonicalize().unwrap_or_else(|_| named.to_owned())
}

fn host_name() -> String {
    let mut buffer = [0u8; 256];
    // SAFETY: the buffer has one byte more than the call may write, so it ends with a zero.
    if unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len() - 1) } != 0 {
        return String::new();
    }
    let name = buffer.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// Returns the timeline on which this server writes; 0 while it is a standby.
pub fn timeline() -> i32 {
    // SAFETY: reads shared memory. A server that has left recovery never goes back, and has a timeline to write on.
    unsafe { if pg_sys::RecoveryInProgress() { 0 } else { pg_sys::GetWALInsertionTimeLine().cast_signed() } }
}

/// Returns since when this server has taken writes without a break: since its start, or its promotion.
pub fn writable_since() -> Moment {
    // SAFETY: a variable that the postmaster sets at its start.
    let started = unsafe { pg_sys::PgStartTime };
    let timeline = timeline();
    // The promotion writes the history of the new timeline.
    let history = data_directory().join(format!("pg_wal/{timeline:08X}.history"));
    let promoted = std::fs::metadata(history).and_then(|file| file.modified()).ok();
    let promoted = promoted.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let promoted = promoted.and_then(|time| i64::try_from(time.as_micros()).ok());
    Moment(promoted.map_or(started, |micros| started.max(micros - Moment::UNIX_EPOCH_MICROS)))
}
