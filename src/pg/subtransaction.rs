//! Subtransactions: the only way to continue after an error.

use std::panic::AssertUnwindSafe;

use pgrx::pg_sys;
use pgrx::pg_sys::panic::{CaughtError, ErrorReport, ErrorReportWithLevel};
use pgrx::{PgLogLevel, PgSqlErrorCode, PgTryBuilder};

use super::interrupts::Interrupts;
use super::settings::LockWaits;
use super::spi::rolled_back;

/// Why a subtransaction was rolled back.
pub enum Undone<E> {
    /// The body returned `Err`.
    ByBody(E),
    /// A statement failed with one of the errors that the caller handles.
    ByError(PgSqlErrorCode),
}

/// An error that was raised, by Postgres or by Rust, and caught.
pub struct Caught(Box<CaughtError>);

impl Caught {
    pub fn code(&self) -> PgSqlErrorCode {
        self.report().sql_error_code()
    }

    pub fn message(&self) -> &str {
        self.report().message()
    }

    /// Raises it again.
    pub fn rethrow(self) -> ! {
        self.0.rethrow()
    }

    fn report(&self) -> &ErrorReportWithLevel {
        match &*self.0 {
            CaughtError::PostgresError(report) | CaughtError::ErrorReport(report) => report,
            CaughtError::RustPanic { ereport, .. } => ereport,
        }
    }

    /// A statement names a table, a column, a function, an operator or a type that does not exist.
    pub fn names_what_is_not_there(&self) -> bool {
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

    /// Raised by Postgres, not by a fault of this extension.
    pub fn is_of_postgres(&self) -> bool {
        matches!(*self.0, CaughtError::PostgresError(_))
    }

    /// Raised because a text is not a valid value of a type. Types choose the SQLSTATE themselves; so this is every error that is
    /// not of a class for connections, resources, operator intervention, serialization or corruption.
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

/// What stopped the body of [`attempt`].
pub enum Stopped<E> {
    ByBody(E),
    ByError(Caught),
}

/// Runs `body` outside of any transaction, and returns the error that it has raised. For what touches no table.
pub fn caught<T>(body: impl FnOnce() -> T) -> Result<T, Caught> {
    PgTryBuilder::new(AssertUnwindSafe(|| Ok(body()))).catch_others(|error| Err(Caught(Box::new(error)))).execute()
}

/// Runs `body` in a subtransaction: committed if it returns `Ok`, rolled back otherwise, also after an error, which is
/// returned whatever it is. A caller that does not handle it must raise it again: a cancel is such an error, too. A
/// cancel that Postgres has dropped in favour of a lock timeout is raised here.
pub fn attempt<T, E>(body: impl FnOnce() -> Result<T, E>) -> Result<T, Stopped<E>> {
    let interrupts = Interrupts::from_now();
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
    // SAFETY: reads backend variables.
    let (number, level) = unsafe { (pg_sys::GetCurrentSubTransactionId(), pg_sys::GetCurrentTransactionNestLevel()) };
    let roll_back = || {
        unsafe {
            // Where a node is gone, Citus raises an error from the very beginning of a subtransaction. One within this one has begun by half
            // then, and cannot be released: this takes it away, and aborts this one, which is released as every aborted one.
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

/// Runs `body` in a subtransaction: committed if it returns `Ok`, rolled back otherwise. Errors of Postgres in
/// `handled` are returned; every other one is raised again after the rollback, so that an outer handler
/// finds its own subtransaction.
pub fn subtransaction<T, E>(handled: &[PgSqlErrorCode], body: impl FnOnce() -> Result<T, E>) -> Result<T, Undone<E>> {
    let interrupts = Interrupts::from_now();
    let body = || {
        let result = body();
        // A pending lock timeout belongs to this body, not to what runs after it.
        pg_sys::check_for_interrupts!();
        result
    };
    attempt(body).map_err(|stopped| match stopped {
        Stopped::ByBody(error) => Undone::ByBody(error),
        Stopped::ByError(caught) => {
            let code = interrupts.real_code(caught.code());
            if caught.is_of_postgres() && handled.contains(&code) { Undone::ByError(code) } else { caught.rethrow() }
        }
    })
}

/// The result of [`in_one`].
pub struct Parted<I, T, E> {
    /// The result of the body, for all but the failed items.
    pub kept: Option<T>,
    pub troubled: Vec<(I, Undone<E>)>,
}

/// Runs `body` for as many of `items` as possible in one subtransaction: for all of them, or, if
/// that fails, for all but those for which it fails alone. A session caches 64 subtransaction ids; with more it
/// makes every snapshot of the server slower. So trials of single items are rolled back, and done again with the others.
pub fn in_one<I: Copy, T, E>(
    handled: &[PgSqlErrorCode],
    items: &[I],
    mut body: impl FnMut(&[I]) -> Result<T, E>,
) -> Parted<I, T, E> {
    /// How often other transactions may interfere between the single trials and the common one.
    const ROUNDS: usize = 3;
    let (mut left, mut troubled) = (items.to_vec(), Vec::new());
    for _ in 0..ROUNDS {
        if left.is_empty() {
            return Parted { kept: None, troubled };
        }
        if let Ok(kept) = subtransaction(handled, || body(&left)) {
            return Parted { kept: Some(kept), troubled };
        }
        left.retain(|item| {
            let tried =
                subtransaction(handled, || body(&[*item]).map_or_else(|error| Err(Some(error)), |_| Err::<T, _>(None)));
            match tried {
                Ok(_) | Err(Undone::ByBody(None)) => true,
                Err(Undone::ByBody(Some(error))) => {
                    troubled.push((*item, Undone::ByBody(error)));
                    false
                }
                Err(Undone::ByError(code)) => {
                    troubled.push((*item, Undone::ByError(code)));
                    false
                }
            }
        });
    }
    let in_the_way = |item| (item, Undone::ByError(PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE));
    troubled.extend(left.into_iter().map(in_the_way));
    Parted { kept: None, troubled }
}

/// Runs `body`, a statement with SKIP LOCKED or NOWAIT, without waiting for other transactions; `None` if it would
/// have to.
///
/// SKIP LOCKED and NOWAIT have a gap: if the other transaction ends at that moment, Postgres follows the row to
/// its next version and waits for the transaction that has locked that one. A `lock_timeout` ends such a wait; the second
/// attempt finds the row as it is now. The limit is long enough for relation extension.
pub fn without_waiting<T>(mut body: impl FnMut() -> T) -> Option<T> {
    const ATTEMPTS: usize = 5;
    (0..ATTEMPTS).find_map(|_| {
        let _waits = LockWaits::limit(WITHOUT_WAITING);
        subtransaction(&[PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE], || Ok::<_, ()>(body())).ok()
    })
}

/// In milliseconds; see [`without_waiting`].
pub const WITHOUT_WAITING: i64 = 20;

/// Runs `body`, and raises another error in place of a Postgres error with SQLSTATE `handled`. There is no subtransaction, so
/// the code cannot continue: the error is raised here, and not returned as a value.
pub fn translate_error<T, E: Into<ErrorReport>>(
    handled: PgSqlErrorCode,
    into: fn() -> E,
    body: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let interrupts = Interrupts::from_now();
    PgTryBuilder::new(AssertUnwindSafe(body))
        .catch_others(move |caught| {
            let caught = Caught(Box::new(caught));
            if caught.is_of_postgres() {
                interrupts.raise_if_swallowed(caught.code());
                if interrupts.real_code(caught.code()) == handled {
                    into().into().report(PgLogLevel::ERROR);
                }
            }
            caught.rethrow()
        })
        .execute()
}
