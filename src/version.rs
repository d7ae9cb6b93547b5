//! Calls are refused unless library and tables are of the same version.
//!
//! Between the installation of a new library and ALTER EXTENSION the tables are older than the library; until it reconnects,
//! a session may have a library older than the tables. The third number, of releases that change no SQL object, does not count.

use crate::error::{ClaimsError, raise};
use crate::pg::extension;

const LIBRARY: &str = env!("CARGO_PKG_VERSION");

/// The check of the gate: raises an error if library and tables are of different versions.
pub fn require_same() {
    raise(compare());
}

/// Whether they are of the same version.
pub fn is_same() -> bool {
    compare().is_ok()
}

fn compare() -> Result<(), ClaimsError> {
    // Without the extension there are no tables; Postgres reports that.
    let Some(installed) = extension::installed_version(c"claims") else { return Ok(()) };
    if series(&installed) == series(LIBRARY) {
        return Ok(());
    }
    let is_older = series(&installed) < series(LIBRARY);
    Err(ClaimsError::OtherVersion { installed, library: LIBRARY, is_older })
}

/// The first two numbers.
fn series(version: &str) -> (u32, u32) {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}
