//! What can be wrong with input, as data. The extension turns it into SQLSTATE, message, DETAIL and HINT.

use std::fmt;

use claims_names::NameProblem;

/// A problem and the place in the input where it was found, e.g. `create_records[3].bucket.value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadInput {
    pub place: String,
    pub problem: Problem,
}

/// Every way in which input can be wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// A text that is no JSON: where this was seen.
    NotJson { line: usize, column: usize },
    /// A value of another JSON type than wanted.
    WrongType { wanted: &'static str, got: &'static str },
    /// A key that must be there is not.
    Missing,
    /// A key that nothing reads.
    UnknownKey { allowed: &'static str },
    /// Two spellings of one key in one object.
    TwoSpellings { first: String },
    /// A number that is no integer of 64 bits.
    NotAnInteger { got: String },
    /// No type of that name or number.
    UnknownType { kind: &'static str, got: String },
    /// UNSPECIFIED where a type is needed.
    Unspecified { kind: &'static str },
    /// A text of no characters.
    Empty,
    /// More characters than allowed.
    TooLong { limit: usize },
    /// More bytes than allowed.
    TooManyBytes { got: usize, limit: usize },
    /// The same bucket earlier in the batch.
    Duplicate { first: String },
    /// A batch without records.
    EmptyBatch,
    /// More records than a batch may have.
    TooManyRecords { got: usize, limit: usize },
    /// More leases, or buckets, than one call may name.
    TooMany { what: &'static str, got: usize, limit: usize },
    /// The type's profile does not take the name.
    NoName { problem: NameProblem },
    /// The name, or what it becomes, is longer than names may be.
    NameTooLong { problem: NameProblem },
    /// What is asked for does not fit into one answer.
    AnswerTooLarge,
    /// A cursor that no list function made.
    BadCursor,
    /// SQL NULL where a value is needed.
    Null,
    /// A number outside of its range.
    OutOfRange { allowed: &'static str },
}

impl Problem {
    /// What is wrong with a name.
    pub fn name(problem: NameProblem) -> Self {
        if problem.is_length() { Problem::NameTooLong { problem } } else { Problem::NoName { problem } }
    }
}

impl BadInput {
    pub fn new(place: impl fmt::Display, problem: Problem) -> Self {
        BadInput { place: place.to_string(), problem }
    }
}

/// The path to a value inside the arguments, built only when something is wrong.
#[derive(Debug, Clone, Copy)]
pub enum Place<'p> {
    Argument(&'p str),
    Index(&'p Place<'p>, usize),
    Key(&'p Place<'p>, &'p str),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Argument(name) => write!(out, "{name}"),
            Place::Index(parent, index) => write!(out, "{parent}[{index}]"),
            Place::Key(parent, key) if is_plain(key) => write!(out, "{parent}.{}", shortened(key)),
            Place::Key(parent, key) => write!(out, "{parent}.{}", serde_json::Value::from(shortened(key))),
        }
    }
}

/// Whether a key can stand in a message as it is. Any other one is quoted as in JSON.
fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

/// Input in a message is cut: a caller who sends a megabyte does not get it back.
pub fn shortened(text: &str) -> String {
    const KEPT: usize = 64;
    match text.char_indices().nth(KEPT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
