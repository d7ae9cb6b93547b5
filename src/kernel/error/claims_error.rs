//! The error of a call: any of those that the slices declare.

use std::any::Any;
use std::fmt::Debug;

use pgrx::PgLogLevel;
use pgrx::pg_sys::panic::ErrorReport;

use super::text::Text;

/// An error that a slice declares: whatever becomes a [Text].
pub trait Failing: Any + Debug {
    fn text(self: Box<Self>) -> Text;
    fn as_any(&self) -> &dyn Any;
}

impl<E: Any + Debug + Into<Text>> Failing for E {
    fn text(self: Box<Self>) -> Text {
        (*self).into()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Any error that a call can raise.
#[derive(Debug)]
pub struct ClaimsError(Box<dyn Failing>);

impl<E: Failing> From<E> for ClaimsError {
    fn from(error: E) -> Self {
        ClaimsError(Box::new(error))
    }
}

impl ClaimsError {
    /// Returns the error if it is one of type `E`.
    pub fn of<E: Failing>(&self) -> Option<&E> {
        (*self.0).as_any().downcast_ref()
    }

    /// Returns what PostgreSQL would raise.
    pub fn text(self) -> Text {
        self.0.text()
    }

    /// Returns the report that the caller raises at once.
    #[track_caller]
    pub fn report(self) -> ErrorReport {
        self.text().report()
    }
}

impl From<ClaimsError> for ErrorReport {
    fn from(error: ClaimsError) -> Self {
        error.report()
    }
}

/// Raises the error of a result, if it is one. Triggers need it, because pgrx would turn their errors into XX000.
pub fn raise<T>(result: Result<T, ClaimsError>) {
    if let Err(error) = result {
        error.report().report(PgLogLevel::ERROR);
    }
}

/// Returns the value, or raises the error. It is for callers that cannot return an error.
pub fn or_raise<T>(result: Result<T, ClaimsError>) -> T {
    result.unwrap_or_else(|error| {
        error.report().report(PgLogLevel::ERROR);
        unreachable!("an error was raised")
    })
}
