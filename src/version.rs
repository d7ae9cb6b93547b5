//! The library and the tables are of one version, or the calls are refused.
//!
//! Between the installation of a new library and ALTER EXTENSION it meets older tables; until it reconnects, a session may
//! meet newer ones with an older library. A third number, of a release that changes no SQL object, makes no difference.

use crate::error::{ClaimsError, raise};
use crate::pg::extension;

const LIBRARY: &str = env!("CARGO_PKG_VERSION");

/// What the gate asks: raises an error where library and tables are of two versions.
pub fn require_same() {
    raise(compare());
}

/// Whether they are of one.
pub fn is_same() -> bool {
    compare().is_ok()
}

fn compare() -> Result<(), ClaimsError> {
    // Without an extension there are no tables; what is asked then is answered by Postgres.
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
