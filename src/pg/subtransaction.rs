//! Subtransactions: the only way to go on after an error.

use std::panic::AssertUnwindSafe;

use pgrx::pg_sys;
use pgrx::pg_sys::panic::{CaughtError, ErrorReport, ErrorReportWithLevel};
use pgrx::{PgLogLevel, PgSqlErrorCode, PgTryBuilder};

use super::interrupts::Interrupts;
use super::settings::LockWaits;
use super::spi::rolled_back;

/// Why a subtransaction was rolled back.
pub enum Undone<E> {
    /// The body said so.
    ByBody(E),
    /// A statement failed with one of the errors that the caller wants to handle.
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

    /// A statement names a table, a column, a function, an operator or a type that is not there.
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

    /// Raised because a text is no value of a type. The types choose the SQLSTATE; of other things speak those of the
    /// connection, of resources, of cancels and shutdowns, of serialization and of damage.
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

/// Runs `body` in a subtransaction: kept where it returns `Ok`, rolled back otherwise, also after an error, which is
/// returned whatever it is. Whoever does not handle it must raise it again: a canceled statement is such an error, too. A
/// cancel that came with a lock timeout, and that Postgres has dropped for it, is raised here.
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
    // SAFETY: reads a backend variable.
    let number = unsafe { pg_sys::GetCurrentSubTransactionId() };
    let roll_back = || {
        unsafe { pg_sys::RollbackAndReleaseCurrentSubTransaction() };
        rolled_back(number);
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

/// Runs `body` in a subtransaction: kept where it returns `Ok`, rolled back otherwise. Of Postgres' errors those in
/// `handled` are returned; every other one is raised again, after the rollback, so that whoever catches it further out
/// finds the subtransaction that it opened itself.
pub fn subtransaction<T, E>(handled: &[PgSqlErrorCode], body: impl FnOnce() -> Result<T, E>) -> Result<T, Undone<E>> {
    let interrupts = Interrupts::from_now();
    let body = || {
        let result = body();
        // A lock timeout that has come and not been looked at belongs to this body, and to nothing that runs after it.
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

/// What [`in_one`] has done.
pub struct Parted<I, T, E> {
    /// What came of the body, for all but the troubled.
    pub kept: Option<T>,
    pub troubled: Vec<(I, Undone<E>)>,
}

/// Runs `body` for as many of `items` together as can be had, in one subtransaction that is kept: for all of them, or, where
/// that fails, for all but those with which it fails alone. A session has room for 64 subtransactions that wrote; beyond them
/// it makes every snapshot of the server slower. So what is tried alone is rolled back, and done again with the others.
pub fn in_one<I: Copy, T, E>(
    handled: &[PgSqlErrorCode],
    items: &[I],
    mut body: impl FnMut(&[I]) -> Result<T, E>,
) -> Parted<I, T, E> {
    /// How often others may come in the way between the trial of each and that of all.
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

/// Runs a statement that passes over locked rows, `body`, without waiting for other transactions; `None` where it would
/// have had to.
///
/// SKIP LOCKED and NOWAIT have a gap: where the transaction that was in the way ends in the very moment, Postgres goes on to
/// the row's next version and waits there for whoever has locked that. A `lock_timeout` ends such a wait; the second
/// attempt finds the row as it is now. The limit is so long that waits for a table being extended are over by then.
pub fn without_waiting<T>(mut body: impl FnMut() -> T) -> Option<T> {
    const ATTEMPTS: usize = 5;
    (0..ATTEMPTS).find_map(|_| {
        let _waits = LockWaits::limit(WITHOUT_WAITING);
        subtransaction(&[PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE], || Ok::<_, ()>(body())).ok()
    })
}

/// In milliseconds; see [`without_waiting`].
pub const WITHOUT_WAITING: i64 = 20;

/// Runs `body`, and raises another error in place of a Postgres error in `handled`. There is no subtransaction, so nothing can
/// go on after it: it is raised from here, and does not come back as a value.
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
