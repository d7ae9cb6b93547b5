//! `begin_verification`: begins a verification that several workers share.

use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use super::errors::VerificationError;
use super::expected::Expected;
use super::passes::{self, VerificationPass};
use crate::cell::reading;
use crate::kernel::arguments;
use crate::kernel::error::ClaimsError;
use pg::prelude::*;
use pg::settings::LockWaits;
use pg::spi::{self, Connection};
use pg::subtransaction::subtransaction;
use pg::uuid::pg_uuid;
use pg::xact;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn begin_verification(
    cell_id: Option<i64>,
    source_type: Option<String>,
    correct: default!(Option<bool>, false),
) -> Result<PgUuid, ErrorReport> {
    xact::must_be_writable(c"claims.begin_verification()");
    Ok(spi::connect(|connection| {
        arguments::require!(cell_id, source_type, correct);
        let source_type = reading::source_type_of(connection, cell_id, &source_type)?;
        must_be_claimed(&Expected::of(connection, &source_type, false), &source_type)?;
        passes::purge(connection);
        let pass = VerificationPass { uuid: Uuid::now_v7(), cell_id, source_type, correct, service: None };
        join(connection, pass).map(pg_uuid)
    })?)
}

/// Raises an error if no column is claimed for the source type: verification would report every claim as extra.
pub fn must_be_claimed(expected: &Expected, source_type: &str) -> Result<(), ClaimsError> {
    if !expected.is_claimed() {
        return Err(VerificationError::NothingClaimed { source_type: source_type.to_owned() }.into());
    }
    Ok(())
}

/// Returns the open pass, or begins one.
fn join(connection: &Connection, pass: VerificationPass) -> Result<Uuid, ClaimsError> {
    let under_way = || passes::open(connection, pass.cell_id, &pass.source_type, pass.correct);
    if let Some(uuid) = under_way() {
        return Ok(uuid);
    }
    match with_lock_timeout(|| passes::begin(connection, pass.uuid, pass.cell_id, &pass.source_type, pass.correct)) {
        Some(true) => Ok(pass.uuid),
        // Another session has begun a pass. It may have finished already.
        Some(false) => under_way().ok_or(VerificationError::BeingBegun.into()),
        None => Err(VerificationError::BeingBegun.into()),
    }
}

/// Limit for waiting for another call that stores its position or divides a pass.
const LOCK_TIMEOUT_MS: i64 = 1000;

/// Runs `body` with a lock timeout of [LOCK_TIMEOUT_MS]. Returns `None` if it had to wait longer.
pub fn with_lock_timeout<T>(body: impl FnOnce() -> T) -> Option<T> {
    let _waits = LockWaits::limit(LOCK_TIMEOUT_MS);
    subtransaction(&[Code::ERRCODE_LOCK_NOT_AVAILABLE], || Ok::<_, ()>(body())).ok()
}
