//! The ways in which an answer can differ from the expected one.

use std::ops::RangeInclusive;

/// The ways in which an answer can differ from the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    Columns {
        got: usize,
        wanted: usize,
    },
    Rows {
        got: usize,
        wanted: RangeInclusive<usize>,
    },
    /// More than `most` rows; the others were not read.
    MoreRows {
        most: usize,
    },
    /// The answer takes more than `most` bytes.
    TooLarge {
        most: usize,
    },
    /// The call ended before the answer.
    Early,
    /// Another answer came after the answer.
    Surplus,
    /// An answer of another kind.
    Kind(&'static str),
    /// ReadyForQuery reports that a transaction is open or has failed, although every call ends its own.
    Transaction(&'static str),
    /// A value that is not valid UTF-8, or has a NUL byte.
    NoText,
    /// A value that cannot be the answer.
    Value(String),
    /// libpq could not read the answer, with its reason.
    Unreadable(String),
}
