//! Profiles that stay what they are until a transaction ends.
//!
//! What is written by canonical forms must be written by the profile that is in force when it commits. Types that come with the
//! extension never change theirs. Whoever writes names of other types locks claims.bucket_types ROW SHARE, which costs
//! next to nothing and keeps out nobody but claims.set_profile(): that locks it EXCLUSIVE.

use std::ffi::CStr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use claims_model::limits::FIRST_FREE_TYPE;
use pgrx::PgSqlErrorCode as Code;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::error::{ClaimsError, NamesError};
use crate::pg::lock;
use crate::pg::settings::LockWaits;
use crate::pg::spi::Connection;
use crate::pg::subtransaction::translate_error;
use crate::settings;
use crate::store::catalog::{self, Catalog};

/// Whether the profile of a type can change.
pub fn can_change(bucket_type: i32) -> bool {
    bucket_type >= FIRST_FREE_TYPE
}

/// How often to read again what was changed while it was read.
const READINGS: usize = 5;

/// What `read` reads by the catalog as of now. Where it has names of types whose profile can change, none does any more until
/// the transaction ends.
pub fn settled<T>(
    connection: &Connection,
    mut catalog: Rc<Catalog>,
    read: impl Fn(&Catalog) -> Result<T, ClaimsError>,
    can_change: impl Fn(&T) -> bool,
) -> Result<(Rc<Catalog>, T), ClaimsError> {
    for _ in 0..READINGS {
        let value = read(&catalog)?;
        if !can_change(&value) {
            return Ok((catalog, value));
        }
        hold()?;
        let now = catalog::current(connection);
        if now.types.naming == catalog.types.naming {
            return Ok((catalog, value));
        }
        catalog = now;
    }
    Err(NamesError::ProfileChanging.into())
}

/// What is locked.
const TABLE: &CStr = c"bucket_types";

/// Statement trigger on claims.bucket_types, before a profile changes; declared in sql/install/service/hold_naming.sql. Where the tables
/// are spread, it is fired on each node.
#[pg_trigger(sql = false)]
fn hold_naming<'a>(_trigger: &'a PgTrigger<'a>) -> Result<Option<PgHeapTuple<'a, AllocatedByPostgres>>, ErrorReport> {
    lock::exclusively(TABLE);
    Ok(None)
}

/// Waits `claims.wait_timeout` for a change that is under way.
fn hold() -> Result<(), ClaimsError> {
    if lock::conditionally_shared(TABLE) {
        return Ok(());
    }
    let wait = Duration::from_millis(settings::wait_timeout().unsigned_abs());
    if wait.is_zero() {
        return Err(NamesError::ProfileChanging.into());
    }
    let _waits = LockWaits::until(Instant::now() + wait);
    let changing = || ClaimsError::from(NamesError::ProfileChanging);
    translate_error(Code::ERRCODE_LOCK_NOT_AVAILABLE, changing, || {
        lock::shared(TABLE);
        Ok(())
    })
}
