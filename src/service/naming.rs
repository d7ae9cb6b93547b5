//! Chooses the profiles by which names are written and read.
//!
//! Names must be written in the canonical form of the profile that is in force at COMMIT. So a transaction that writes names locks
//! claims.bucket_types ROW SHARE. The lock costs next to nothing, and conflicts only with claims.set_profile(), which locks it
//! EXCLUSIVE.
//!
//! A transaction that only reads takes no lock. It uses the profile in the snapshot of the names ([in_snapshot]), or reads again
//! if the profile has changed meanwhile ([steadily]).

use std::borrow::Cow;
use std::ffi::CStr;
use std::rc::Rc;
use std::time::Instant;

use claims_model::Types;
use pgrx::PgSqlErrorCode as Code;

use crate::kernel::call::CellCall;
use crate::kernel::catalog::{self, Catalog};
use crate::kernel::error::ClaimsError;
use crate::kernel::namings::{self, Namings};
use crate::kernel::settings;
use crate::kernel::tables::Tables;
use crate::service::errors::NamingError;
use pg::lock;
use pg::settings::LockWaits;
use pg::spi::{self, Connection};
use pg::subtransaction::translate_error;

::pgrx::extension_sql_file!("../../sql/install/service/hold_naming.sql", name = "hold_naming", requires = ["tables"]);

/// Maximum number of reads of data that changes while it is read.
const MAX_READS: usize = 5;

/// Returns the result of `read` with the current catalog. No profile changes until the transaction ends.
pub fn with_locked_profiles<T>(
    connection: &Connection,
    mut catalog: Rc<Catalog>,
    read: impl Fn(&Catalog) -> Result<T, ClaimsError>,
) -> Result<(Rc<Catalog>, T), ClaimsError> {
    for _ in 0..MAX_READS {
        let value = read(&catalog)?;
        hold()?;
        let now = catalog::current(connection);
        if now.types.naming == catalog.types.naming {
            return Ok((catalog, value));
        }
        catalog = now;
    }
    Err(NamingError::ProfileChanging.into())
}

/// Like [`with_locked_profiles`], for a call of a cell, which goes by that catalog from then on.
pub fn locked<'c, T>(
    call: &CellCall<'c>,
    read: impl Fn(&Catalog) -> Result<T, ClaimsError>,
) -> Result<(CellCall<'c>, T), ClaimsError> {
    let (catalog, value) = with_locked_profiles(call.connection, call.catalog.clone(), read)?;
    Ok((call.with_catalog(catalog), value))
}

/// Returns the result of `read` with the profiles in the snapshot of the calling query, for one bucket type or all.
///
/// The nodes of a cluster have no common snapshot. There it reads again if it has not found everything and a profile has changed.
pub fn in_snapshot<T>(
    tables: Tables,
    catalog: &Catalog,
    only: Option<i32>,
    read: impl Fn(&Types) -> Result<T, ClaimsError>,
    has_found_all: impl FnOnce(&T) -> bool,
) -> Result<T, ClaimsError> {
    let value = read(&catalog.types_in_snapshot(tables, only))?;
    if tables.have_snapshot() || has_found_all(&value) {
        return Ok(value);
    }
    let latest = spi::connect_as_owner(namings::latest);
    if latest.match_catalog(&catalog.types, &catalog.naming_rows) {
        Ok(value)
    } else {
        read(&latest.types(&catalog.types))
    }
}

/// Returns the result of `read`, which runs several statements, with profiles that were the same before and after.
pub fn with_unchanged_profiles<T>(
    connection: &Connection,
    catalog: &Catalog,
    read: impl Fn(&Types) -> Result<T, ClaimsError>,
) -> Result<T, ClaimsError> {
    let (mut types, mut known) = (Cow::Borrowed(&catalog.types), None::<Namings>);
    for _ in 0..MAX_READS {
        let value = read(&types)?;
        let latest = namings::latest(connection);
        let is_same = match &known {
            Some(known) => latest == *known,
            None => latest.match_catalog(&catalog.types, &catalog.naming_rows),
        };
        if is_same {
            return Ok(value);
        }
        (types, known) = (Cow::Owned(latest.types(&catalog.types)), Some(latest));
    }
    Err(NamingError::ProfileChanging.into())
}

/// The table that is locked.
const TABLE: &CStr = c"bucket_types";

/// Locks the profiles until the transaction ends. Returns `false` if one of them is being changed.
pub fn hold_now() -> bool {
    lock::conditionally_shared(TABLE)
}

/// Locks the profiles. Waits up to `claims.wait_timeout` for a change in progress.
fn hold() -> Result<(), ClaimsError> {
    if hold_now() {
        return Ok(());
    }
    let wait = settings::wait_timeout();
    if wait.is_zero() {
        return Err(NamingError::ProfileChanging.into());
    }
    let _waits = LockWaits::until(Instant::now() + wait);
    let changing = || ClaimsError::from(NamingError::ProfileChanging);
    translate_error(&[Code::ERRCODE_LOCK_NOT_AVAILABLE], changing, || {
        lock::shared(TABLE);
        Ok(())
    })
}
