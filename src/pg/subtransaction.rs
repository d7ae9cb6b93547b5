//! Subtransactions: the only way to go on after an error.

use std::panic::AssertUnwindSafe;

use pgrx::pg_sys;
use pgrx::{PgSqlErrorCode, PgTryBuilder};

/// Why a subtransaction was rolled back.
pub enum Undone<E> {
    /// The body said so.
    ByBody(E),
    /// A statement failed with one of the errors that the caller wants to handle.
    ByError(PgSqlErrorCode),
}

/// Runs `body` in a subtransaction: kept where it returns `Ok`, rolled back otherwise. Of Postgres' errors those in
/// `handled` are returned; every other one is raised again, after the rollback, so that whoever catches it further out
/// finds the subtransaction that it opened itself.
pub fn subtransaction<T, E>(handled: &[PgSqlErrorCode], body: impl FnOnce() -> Result<T, E>) -> Result<T, Undone<E>> {
    // SAFETY: the pattern of PL/pgSQL's exception blocks: remember context and owner, begin, and put both back after
    // the subtransaction has ended either way.
    let (context, owner) = unsafe { (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner) };
    let restore = || unsafe {
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
    };
    unsafe {
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
    }
    let roll_back = || {
        unsafe { pg_sys::RollbackAndReleaseCurrentSubTransaction() };
        restore();
    };
    PgTryBuilder::new(AssertUnwindSafe(|| match body() {
        Ok(value) => {
            unsafe { pg_sys::ReleaseCurrentSubTransaction() };
            restore();
            Ok(value)
        }
        Err(error) => {
            roll_back();
            Err(Undone::ByBody(error))
        }
    }))
    .catch_others(|caught| {
        roll_back();
        match &caught {
            pg_sys::panic::CaughtError::PostgresError(report) if handled.contains(&report.sql_error_code()) => {
                Err(Undone::ByError(report.sql_error_code()))
            }
            _ => caught.rethrow(),
        }
    })
    .execute()
}

/// Runs `body`, and turns a Postgres error in `handled` into a value. No subtransaction: the caller must raise an error.
pub fn translate_error<T, E>(
    handled: PgSqlErrorCode,
    into: fn() -> E,
    body: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    PgTryBuilder::new(AssertUnwindSafe(body)).catch_when(handled, move |_| Err(into())).execute()
}
