//! Refuses calls unless library and tables have the same version.
//!
//! After a new library is installed, and before ALTER EXTENSION, the tables are older than the library. Until a session
//! reconnects, its library may be older than the tables. An upgrade over several versions runs their scripts one after
//! the other, and these call functions of the newest library. The third number of a version does not count, because such a
//! release changes no SQL object.

use super::error::{ClaimsError, VersionError, raise};
use pg::extension;

/// The version of the library.
pub const LIBRARY: &str = env!("CARGO_PKG_VERSION");

/// Raises an error if library and tables have different versions. Returns false while a script of the extension is running, which may be
/// one of several between two versions: then it compares nothing, and the caller must call it again. The compatibility check calls it.
pub fn require_same() -> bool {
    let is_being_updated = extension::is_script_of(c"claims");
    if !is_being_updated {
        raise(compare());
    }
    !is_being_updated
}

/// Returns whether the tables are older than the library, and no script of the extension is running, which may be updating them.
pub fn are_tables_older() -> bool {
    compare().is_err_and(|error| matches!(error.of(), Some(VersionError::OtherVersion { is_older: true, .. })))
        && !extension::is_script_of(c"claims")
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
    Err(VersionError::OtherVersion { installed, library: LIBRARY, is_older }.into())
}

/// Returns the first two numbers.
fn series(version: &str) -> (u32, u32) {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}
