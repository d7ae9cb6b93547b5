//! What can be wrong with a name, as data. The extension turns it into SQLSTATE, message and DETAIL.

use std::fmt;

use crate::tables::UNICODE_VERSION;

/// Why a profile refuses a name, and where in the name as it was given.
///
/// As text it is one clause, subject first: `character 5 (U+0020) is a space`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameProblem {
    pub place: NamePart,
    pub reason: NameFault,
}

/// The part of a name that is wrong. All numbers count from 1, in the name as it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamePart {
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
pub enum NameFault {
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
    pub(crate) fn of_name(reason: NameFault) -> Self {
        NameProblem { place: NamePart::Name, reason }
    }

    pub(crate) fn at(code_point: char, position: usize, reason: NameFault) -> Self {
        NameProblem { place: NamePart::Character { code_point, position }, reason }
    }

    /// Whether the name is too long, rather than of a wrong form.
    pub fn is_length(&self) -> bool {
        use NameFault::*;
        matches!(self.reason, TooManyChars { .. } | CanonicalTooManyChars { .. } | CanonicalTooManyBytes { .. })
    }

    /// The same problem, of a text that stands behind `chars` characters of the name.
    pub(crate) fn moved_by(mut self, chars: usize) -> Self {
        match &mut self.place {
            NamePart::Character { position, .. } => *position += chars,
            whole @ NamePart::Name => *whole = NamePart::Domain,
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

impl fmt::Display for NamePart {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NamePart::Name => out.write_str("the name"),
            // The number only: the character itself may be invisible, or turn the line around.
            NamePart::Character { code_point, position } => {
                write!(out, "character {position} (U+{:04X})", u32::from(*code_point))
            }
            NamePart::Label(number) => write!(out, "label {number} of the domain"),
            NamePart::Domain => out.write_str("the domain"),
            NamePart::LocalPart => out.write_str("the part before the @"),
            NamePart::Segment(number) => write!(out, "segment {number} of the path"),
        }
    }
}

impl fmt::Display for NameFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameFault::Empty => out.write_str("is empty"),
            NameFault::TooManyChars { got, limit } => write!(out, "has {got} characters, more than {limit}"),
            NameFault::CanonicalTooManyChars { got, limit } => {
                write!(out, "has {got} characters in its canonical form, more than {limit}")
            }
            NameFault::CanonicalTooManyBytes { got, limit } => {
                write!(out, "has {got} bytes in its canonical form, more than {limit}")
            }
            NameFault::Unassigned => write!(out, "is not assigned in Unicode {UNICODE_VERSION}"),
            NameFault::Forbidden(kind) => write!(out, "is {kind}"),
            NameFault::Context(rule) => write!(out, "may stand only {rule}"),
            NameFault::Direction(rule) => write!(out, "breaks the rule for text from right to left: {rule}"),
            NameFault::Label(why) => out.write_str(why),
            NameFault::TooManyOctets { limit } => write!(out, "has more than {limit} octets"),
            NameFault::NoAt => out.write_str("has no @"),
            NameFault::DotSegment => out.write_str("is . or .."),
        }
    }
}
