//! Problems of input, as data. The extension turns them into SQLSTATE, message, DETAIL and HINT.

use std::fmt;

use claims_names::NameProblem;

/// A problem and its path in the input, for example `create_records[3].bucket.value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadInput {
    pub path: String,
    pub problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// A text that is not JSON, and where.
    NotJson {
        line: usize,
        column: usize,
    },
    /// A value of the wrong JSON type.
    WrongType {
        wanted: &'static str,
        got: &'static str,
    },
    /// A required key is missing.
    Missing,
    UnknownKey {
        allowed: &'static str,
    },
    /// Two spellings of one key in one object.
    TwoSpellings {
        first: String,
    },
    /// A number that is no 64-bit integer.
    NotAnInteger {
        got: String,
    },
    /// A type with this name or number does not exist.
    UnknownType {
        kind: &'static str,
        got: String,
    },
    /// UNSPECIFIED where a type is required.
    Unspecified {
        kind: &'static str,
    },
    Empty,
    TooLong {
        limit: usize,
    },
    TooManyBytes {
        got: usize,
        limit: usize,
    },
    /// A bucket that the list names twice.
    Duplicate {
        first: String,
    },
    EmptyBatch,
    TooManyRecords {
        got: usize,
        limit: usize,
    },
    /// More leases, or buckets, than one call may name.
    TooMany {
        what: &'static str,
        got: usize,
        limit: usize,
    },
    /// A name that the profile of its type refuses.
    NoName {
        problem: NameProblem,
    },
    /// A name that is too long, or whose canonical form is.
    NameTooLong {
        problem: NameProblem,
    },
    /// A result that does not fit into one answer.
    AnswerTooLarge,
    /// The payload of the lease would have more bytes than a jsonb can have.
    PayloadTooLarge,
    /// A text that no list function returned as a cursor.
    BadCursor,
    /// SQL NULL where a value is required.
    Null,
    OutOfRange {
        allowed: &'static str,
    },
}

impl Problem {
    pub fn name(problem: NameProblem) -> Self {
        if problem.is_length() { Problem::NameTooLong { problem } } else { Problem::NoName { problem } }
    }
}

impl BadInput {
    pub fn new(path: impl fmt::Display, problem: Problem) -> Self {
        BadInput { path: path.to_string(), problem }
    }
}

/// The path to a value in the arguments. It is formatted only for an error.
#[derive(Debug, Clone, Copy)]
pub enum JsonPath<'p> {
    Argument(&'p str),
    Index(&'p JsonPath<'p>, usize),
    Key(&'p JsonPath<'p>, &'p str),
}

impl fmt::Display for JsonPath<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonPath::Argument(name) => write!(out, "{name}"),
            JsonPath::Index(parent, index) => write!(out, "{parent}[{index}]"),
            JsonPath::Key(parent, key) if is_plain(key) => write!(out, "{parent}.{}", shortened(key)),
            JsonPath::Key(parent, key) => write!(out, "{parent}.{}", serde_json::Value::from(shortened(key))),
        }
    }
}

/// Returns whether a key can stand in a message unquoted. Other keys are quoted as in JSON.
fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

/// Cuts input for a message, so that a caller who sends a megabyte does not get it back.
pub fn shortened(text: &str) -> String {
    const KEPT: usize = 64;
    match text.char_indices().nth(KEPT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
