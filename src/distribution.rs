//! Calls are refused where Citus manages the tables of the extension.
//!
//! It keeps the rows of such a table in shards. What is left under its name, empty or with the rows of that day, statements that it
//! plans never read; but looks into an index do, and would find names free that are not. On its other nodes Citus installs the
//! extension by itself, with tables that nobody has filled: there every name would be free.

use crate::error::{DistributionError, raise};
use crate::pg::{citus, extension, gate};

/// The check of the gate: raises an error where calls would read tables that are not the ones. `false`: an extension's script may
/// do what is refused to others.
pub fn require_own_tables() -> bool {
    if extension::is_script_running() {
        return false;
    }
    raise(look().map_err(Into::into));
    true
}

/// Whether the tables are what calls take them for.
pub fn has_own_tables() -> bool {
    look().is_ok()
}

/// Where Citus is installed it tells all sessions what it has done to a table; from then on this is asked again.
pub fn look() -> Result<(), DistributionError> {
    let catalogs = citus::catalogs();
    if catalogs.is_empty() {
        return Ok(());
    }
    // First of all: a change that is announced while this looks is not to be missed.
    gate::watch(extension::relations(c"claims").into_iter().chain(catalogs).collect());
    let Some(managed) = citus::managed(c"claims") else { return Ok(()) };
    match managed.tables.as_slice() {
        [] if managed.is_worker => Err(DistributionError::NotTheCoordinator),
        [] => Ok(()),
        _ => Err(DistributionError::ByOtherMeans { tables: managed.tables }),
    }
}
