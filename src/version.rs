//! Refuses calls unless library and tables have the same version.
//!
//! After a new library is installed, and before ALTER EXTENSION, the tables are older than the library. Until a session
//! reconnects, its library may be older than the tables. The third number of a version does not count, because such a
//! release changes no SQL object.

use crate::error::{ClaimsError, raise};
use crate::pg::extension;

const LIBRARY: &str = env!("CARGO_PKG_VERSION");

/// Raises an error if library and tables have different versions. The compatibility check calls it.
pub fn require_same() {
    raise(compare());
}

/// Returns whether they have the same version.
pub fn is_same() -> bool {
    compare().is_ok()
}

fn compare() -> Result<(), ClaimsError> {
    // Without the extension there are no tables; PostgreSQL reports that.
    let Some(installed) = extension::installed_version(c"claims") else { return Ok(()) };
    if series(&installed) == series(LIBRARY) {
        return Ok(());
    }
    let is_older = series(&installed) < series(LIBRARY);
    Err(ClaimsError::OtherVersion { installed, library: LIBRARY, is_older })
}

/// Returns the first two numbers.
fn series(version: &str) -> (u32, u32) {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}
