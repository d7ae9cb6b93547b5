//! What can be wrong with a name, as data. The extension turns it into SQLSTATE, message and DETAIL.

use std::fmt;

use crate::tables::UNICODE_VERSION;

/// Why a profile refuses a name, and where in the name as it was given.
///
/// As text it is one clause, subject first: `character 5 (U+0020) is a space`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameProblem {
    pub place: Place,
    pub reason: Reason,
}

/// The part of a name that is wrong. All numbers count from 1, in the name as it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Name,
    Character {
        code_point: char,
        position: usize,
    },
    /// The domain's n-th label.
    Label(usize),
    /// All of a domain, or of the part of an e-mail address behind its `@`.
    Domain,
    /// What stands before the `@`.
    LocalPart,
    /// The path's n-th segment.
    Segment(usize),
}

/// What is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    Empty,
    /// More characters than a name may have.
    TooManyChars {
        got: usize,
        limit: usize,
    },
    /// More characters than a name may have, in its canonical form only.
    CanonicalTooManyChars {
        got: usize,
        limit: usize,
    },
    /// More bytes than an index entry holds.
    CanonicalTooManyBytes {
        got: usize,
        limit: usize,
    },
    /// A code point that means nothing in this version of Unicode, and may mean anything in a later one.
    Unassigned,
    /// A character that the profile never takes: what kind of character it is.
    Forbidden(&'static str),
    /// A character that the profile takes in other surroundings only: which.
    Context(&'static str),
    /// Text in two directions that RFC 5893 refuses: what it asks.
    Direction(&'static str),
    /// A label of a domain that no domain can have: why.
    Label(&'static str),
    /// More octets than a domain, or one of its labels, may have.
    TooManyOctets {
        limit: usize,
    },
    /// An e-mail address without `@`.
    NoAt,
    /// A segment `.` or `..`.
    DotSegment,
}

impl NameProblem {
    pub(crate) fn of_name(reason: Reason) -> Self {
        NameProblem { place: Place::Name, reason }
    }

    pub(crate) fn at(code_point: char, position: usize, reason: Reason) -> Self {
        NameProblem { place: Place::Character { code_point, position }, reason }
    }

    /// Whether the name is too long, rather than of a wrong form.
    pub fn is_length(&self) -> bool {
        use Reason::*;
        matches!(self.reason, TooManyChars { .. } | CanonicalTooManyChars { .. } | CanonicalTooManyBytes { .. })
    }

    /// The same problem, of a text that stands behind `chars` characters of the name.
    pub(crate) fn moved_by(mut self, chars: usize) -> Self {
        match &mut self.place {
            Place::Character { position, .. } => *position += chars,
            whole @ Place::Name => *whole = Place::Domain,
            _ => (),
        }
        self
    }
}

impl std::error::Error for NameProblem {}

impl fmt::Display for NameProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.place, self.reason)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Name => out.write_str("the name"),
            // The number only: the character itself may be invisible, or turn the line around.
            Place::Character { code_point, position } => {
                write!(out, "character {position} (U+{:04X})", u32::from(*code_point))
            }
            Place::Label(number) => write!(out, "label {number} of the domain"),
            Place::Domain => out.write_str("the domain"),
            Place::LocalPart => out.write_str("the part before the @"),
            Place::Segment(number) => write!(out, "segment {number} of the path"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Empty => out.write_str("is empty"),
            Reason::TooManyChars { got, limit } => write!(out, "has {got} characters, more than {limit}"),
            Reason::CanonicalTooManyChars { got, limit } => {
                write!(out, "has {got} characters in its canonical form, more than {limit}")
            }
            Reason::CanonicalTooManyBytes { got, limit } => {
                write!(out, "has {got} bytes in its canonical form, more than {limit}")
            }
            Reason::Unassigned => write!(out, "is not assigned in Unicode {UNICODE_VERSION}"),
            Reason::Forbidden(kind) => write!(out, "is {kind}"),
            Reason::Context(rule) => write!(out, "may stand only {rule}"),
            Reason::Direction(rule) => write!(out, "breaks the rule for text from right to left: {rule}"),
            Reason::Label(why) => out.write_str(why),
            Reason::TooManyOctets { limit } => write!(out, "has more than {limit} octets"),
            Reason::NoAt => out.write_str("has no @"),
            Reason::DotSegment => out.write_str("is . or .."),
        }
    }
}
