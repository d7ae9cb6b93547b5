//! Subtransactions, which are the only way to continue after an error.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;

use pgrx::pg_sys::panic::{CaughtError, ErrorReport, ErrorReportWithLevel};
use pgrx::{PgLogLevel, PgSqlErrorCode, PgTryBuilder, pg_sys};

use super::connections::{close_within, rolled_back};
use super::interrupts::Interrupts;
use super::nesting;
use super::settings::LockWaits;

/// The reason why a subtransaction was rolled back.
pub enum Undone<E> {
    /// The body returned `Err`.
    ByBody(E),
    /// A statement failed with one of the errors that the caller handles.
    ByError(PgSqlErrorCode),
}

/// A caught error, raised by PostgreSQL or by Rust.
pub struct Caught(Box<CaughtError>);

impl Caught {
    pub fn code(&self) -> PgSqlErrorCode {
        self.report().sql_error_code()
    }

    pub fn message(&self) -> &str {
        self.report().message()
    }

    /// Raises the error again.
    pub fn rethrow(self) -> ! {
        self.0.rethrow()
    }

    fn report(&self) -> &ErrorReportWithLevel {
        match &*self.0 {
            CaughtError::PostgresError(report) | CaughtError::ErrorReport(report) => report,
            CaughtError::RustPanic { ereport, .. } => ereport,
        }
    }

    /// Returns whether a statement named a table, a column, a function, an operator or a type that does not exist.
    pub fn is_undefined_object(&self) -> bool {
        use PgSqlErrorCode as Code;
        let codes = [
            Code::ERRCODE_UNDEFINED_COLUMN,
            Code::ERRCODE_UNDEFINED_FUNCTION,
            Code::ERRCODE_UNDEFINED_TABLE,
            Code::ERRCODE_UNDEFINED_OBJECT,
            Code::ERRCODE_INVALID_SCHEMA_NAME,
        ];
        self.is_of_postgres() && codes.contains(&self.code())
    }

    /// Returns whether the caller may go on after it: not after a cancel, a timeout of the statement or a shutdown.
    pub fn may_be_ignored(&self) -> bool {
        let class = |code: PgSqlErrorCode| code as i32 & 0xFFF;
        class(self.code()) != class(PgSqlErrorCode::ERRCODE_OPERATOR_INTERVENTION)
    }

    /// Returns whether PostgreSQL raised it, and not a fault of this extension.
    pub fn is_of_postgres(&self) -> bool {
        matches!(*self.0, CaughtError::PostgresError(_))
    }

    /// Returns whether a text was not a valid value of a type. Types choose the SQLSTATE themselves. So it is every
    /// error that is not of a class for connections, resources, operator intervention, serialization or corruption.
    pub fn is_about_data(&self) -> bool {
        use PgSqlErrorCode as Code;
        // The class is in the two lowest of five groups of six bits.
        let class = |code: Code| code as i32 & 0xFFF;
        let others = [
            Code::ERRCODE_CONNECTION_EXCEPTION,
            Code::ERRCODE_TRANSACTION_ROLLBACK,
            Code::ERRCODE_INSUFFICIENT_RESOURCES,
            Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            Code::ERRCODE_OPERATOR_INTERVENTION,
            Code::ERRCODE_SYSTEM_ERROR,
            Code::ERRCODE_CONFIG_FILE_ERROR,
            Code::ERRCODE_INTERNAL_ERROR,
        ];
        self.is_of_postgres() && !others.iter().any(|other| class(*other) == class(self.code()))
    }
}

/// The reason why the body of [`attempt`] ended early.
pub enum Stopped<E> {
    ByBody(E),
    ByError(Caught),
}

/// Runs `body` outside of any transaction, and returns the error that it raises. `body` must not use any table.
pub fn caught<T>(body: impl FnOnce() -> T) -> Result<T, Caught> {
    PgTryBuilder::new(AssertUnwindSafe(|| Ok(body()))).catch_others(|error| Err(Caught(Box::new(error)))).execute()
}

/// Runs `body`. If it raises an error, `translate` sees that, and may raise another one in its place: the transaction fails either way.
pub fn translating<T>(translate: fn(&Caught), body: impl FnOnce() -> T) -> T {
    PgTryBuilder::new(AssertUnwindSafe(body))
        .catch_others(|error| {
            let caught = Caught(Box::new(error));
            translate(&caught);
            caught.rethrow()
        })
        .execute()
}

/// Runs `body` in a subtransaction. Commits it if `body` returns `Ok`, and rolls it back otherwise, also after any
/// error, which it returns. The caller must raise an error that it does not handle, for example a cancel. If PostgreSQL
/// has dropped a cancel in favor of a lock timeout, the cancel is raised here.
pub fn attempt<T, E>(body: impl FnOnce() -> Result<T, E>) -> Result<T, Stopped<E>> {
    nesting::begin();
    attempt_on_demand(body)
}

/// Like [`attempt`], but leaves it to a statement to connect SPI. A statement in `body` does so until `body` ends, so no rows
/// may leave it.
fn attempt_on_demand<T, E>(body: impl FnOnce() -> Result<T, E>) -> Result<T, Stopped<E>> {
    let interrupts = Interrupts::from_now();
    // SAFETY: does what PL/pgSQL does for exception blocks: saves context and owner, begins, and restores both after
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
    // SAFETY: reads backend variables.
    let (number, level) = unsafe { (pg_sys::GetCurrentSubTransactionId(), pg_sys::GetCurrentTransactionNestLevel()) };
    let roll_back = || {
        unsafe {
            // Another extension may raise an error at the very beginning of a nested subtransaction (Citus, if a node
            // is gone). The nested one is half started then, and cannot be released. AbortCurrentTransaction() removes it and
            // aborts this one, which is then released like every aborted one.
            if pg_sys::GetCurrentTransactionNestLevel() > level {
                pg_sys::AbortCurrentTransaction();
            }
            pg_sys::RollbackAndReleaseCurrentSubTransaction();
        }
        rolled_back(number);
        restore();
        LockWaits::reassert();
    };
    PgTryBuilder::new(AssertUnwindSafe(|| match body() {
        Ok(value) => {
            close_within(number);
            unsafe { pg_sys::ReleaseCurrentSubTransaction() };
            restore();
            Ok(value)
        }
        Err(error) => {
            roll_back();
            Err(Stopped::ByBody(error))
        }
    }))
    .catch_others(|caught| {
        roll_back();
        let caught = Caught(Box::new(caught));
        if caught.is_of_postgres() {
            interrupts.raise_if_swallowed(caught.code());
        }
        Err(Stopped::ByError(caught))
    })
    .execute()
}

/// Runs `body` in a subtransaction. Commits it if `body` returns `Ok`, and rolls it back otherwise. Returns the errors
/// of PostgreSQL in `handled`. It raises every other error again after the rollback, so that an outer handler finds its
/// own subtransaction.
pub fn subtransaction<T, E>(handled: &[PgSqlErrorCode], body: impl FnOnce() -> Result<T, E>) -> Result<T, Undone<E>> {
    nesting::begin();
    subtransaction_on_demand(handled, body)
}

/// Like [`subtransaction`], but leaves it to a statement to connect SPI. A statement in `body` does so until `body` ends,
/// so no rows may leave it.
pub fn subtransaction_on_demand<T, E>(
    handled: &[PgSqlErrorCode],
    body: impl FnOnce() -> Result<T, E>,
) -> Result<T, Undone<E>> {
    let interrupts = Interrupts::from_now();
    let body = || {
        let result = body();
        // A pending lock timeout belongs to this body, not to the code after it.
        pg_sys::check_for_interrupts!();
        result
    };
    attempt_on_demand(body).map_err(|stopped| match stopped {
        Stopped::ByBody(error) => Undone::ByBody(error),
        Stopped::ByError(caught) => {
            let code = interrupts.real_code(caught.code());
            if caught.is_of_postgres() && handled.contains(&code) { Undone::ByError(code) } else { caught.rethrow() }
        }
    })
}

/// The result of [`in_one`].
pub struct Parted<I, T, E> {
    /// The result of the body, for all items except the failed ones.
    pub result: Option<T>,
    pub failed: Vec<(I, Undone<E>)>,
}

/// Runs `body` for as many of `items` as possible in one subtransaction: for all of them, or, if that fails, for all
/// except those for which it fails alone. A session caches 64 subtransaction ids, and with more it slows down every
/// snapshot of the server. So the attempts with single items are rolled back, and repeated together with the others.
pub fn in_one<I: Copy, T, E>(
    handled: &[PgSqlErrorCode],
    items: &[I],
    mut body: impl FnMut(&[I]) -> Result<T, E>,
) -> Parted<I, T, E> {
    /// The number of attempts. Other transactions may interfere between the single attempts and the common one.
    const ROUNDS: usize = 3;
    let (mut remaining, mut failed) = (items.to_vec(), Vec::new());
    for _ in 0..ROUNDS {
        if remaining.is_empty() {
            return Parted { result: None, failed };
        }
        if let Ok(result) = subtransaction(handled, || body(&remaining)) {
            return Parted { result: Some(result), failed };
        }
        remaining.retain(|item| {
            let tried =
                subtransaction(handled, || body(&[*item]).map_or_else(|error| Err(Some(error)), |_| Err::<T, _>(None)));
            match tried {
                Ok(_) | Err(Undone::ByBody(None)) => true,
                Err(Undone::ByBody(Some(error))) => {
                    failed.push((*item, Undone::ByBody(error)));
                    false
                }
                Err(Undone::ByError(code)) => {
                    failed.push((*item, Undone::ByError(code)));
                    false
                }
            }
        });
    }
    let is_locked = |item| (item, Undone::ByError(PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE));
    failed.extend(remaining.into_iter().map(is_locked));
    Parted { result: None, failed }
}

/// Runs `body`, a statement with SKIP LOCKED or NOWAIT, without waiting for other transactions. Returns `None` if it
/// would have to wait.
///
/// SKIP LOCKED and NOWAIT have a gap: if the other transaction ends at that moment, PostgreSQL follows the row to its
/// next version, and waits for the transaction that has locked that one. A `lock_timeout` ends such a wait, and the
/// next attempt finds the row in its new state. The limit is long enough for relation extension.
pub fn without_waiting<T>(mut body: impl FnMut() -> T) -> Option<T> {
    const ATTEMPTS: usize = 5;
    (0..ATTEMPTS).find_map(|_| {
        let _waits = LockWaits::limit(NO_WAIT_LIMIT_MS);
        subtransaction(&[PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE], || Ok::<_, ()>(body())).ok()
    })
}

/// Runs `body` in a subtransaction. Returns its error if the caller handles that, and raises any other.
pub fn attempt_handling<T>(is_handled: impl Fn(&Caught) -> bool, body: impl FnOnce() -> T) -> Result<T, Caught> {
    match attempt(|| Ok::<_, Infallible>(body())) {
        Ok(done) => Ok(done),
        Err(Stopped::ByBody(never)) => match never {},
        Err(Stopped::ByError(caught)) if is_handled(&caught) => Err(caught),
        Err(Stopped::ByError(caught)) => caught.rethrow(),
    }
}

/// The limit of [`without_waiting`] in milliseconds.
pub const NO_WAIT_LIMIT_MS: i64 = 20;

/// The errors of a statement that another transaction's lock has stopped.
pub const LOCK_ERRORS: &[PgSqlErrorCode] =
    &[PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE, PgSqlErrorCode::ERRCODE_T_R_DEADLOCK_DETECTED];

/// Runs `body`, and raises another error in place of a PostgreSQL error with one of the SQLSTATEs `handled`. There is no
/// subtransaction, so the code cannot continue. So the error is raised here, and not returned as a value.
pub fn translate_error<T, E: Into<ErrorReport>>(
    handled: &'static [PgSqlErrorCode],
    into: fn() -> E,
    body: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let interrupts = Interrupts::from_now();
    PgTryBuilder::new(AssertUnwindSafe(body))
        .catch_others(move |caught| {
            let caught = Caught(Box::new(caught));
            if caught.is_of_postgres() {
                interrupts.raise_if_swallowed(caught.code());
                if handled.contains(&interrupts.real_code(caught.code())) {
                    into().into().report(PgLogLevel::ERROR);
                }
            }
            caught.rethrow()
        })
        .execute()
}
