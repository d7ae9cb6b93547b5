//! Problems of names, as data. The extension turns them into SQLSTATE, message and DETAIL.

use std::fmt;

use crate::tables::UNICODE_VERSION;

/// The reason why a profile refuses a name, and its place in the input.
///
/// Displayed, it is one clause, subject first: `character 5 (U+0020) is a space`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameProblem {
    pub place: NamePart,
    pub reason: NameFault,
}

/// The part of a name that is wrong. All numbers count from 1, in the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamePart {
    Name,
    Character {
        code_point: char,
        position: usize,
    },
    /// The n-th label of the domain.
    Label(usize),
    /// The whole domain, also that of an e-mail address.
    Domain,
    /// The part of an e-mail address before its `@`.
    LocalPart,
    /// The n-th segment of the path.
    Segment(usize),
}

/// The rule that a name breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameFault {
    Empty,
    /// More characters than a name may have.
    TooManyChars {
        got: usize,
        limit: usize,
    },
    /// More characters than a name may have, in the canonical form only.
    CanonicalTooManyChars {
        got: usize,
        limit: usize,
    },
    /// More bytes than an index entry holds.
    CanonicalTooManyBytes {
        got: usize,
        limit: usize,
    },
    /// A code point that this version of Unicode has not assigned. A later version may give it any meaning.
    Unassigned,
    /// A character that the profile never accepts, with its description.
    Forbidden(&'static str),
    /// A character that the profile accepts only in certain contexts, with the context.
    Context(&'static str),
    /// Text in two directions that RFC 5893 refuses, with the rule.
    Direction(&'static str),
    /// An invalid label of a domain, with the reason.
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

    /// Returns whether the problem is the length of the name, and not its form.
    pub fn is_length(&self) -> bool {
        use NameFault::*;
        matches!(self.reason, TooManyChars { .. } | CanonicalTooManyChars { .. } | CanonicalTooManyBytes { .. })
    }

    /// Moves the problem behind `chars` more characters of the name.
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
            // Only the number. The character itself may be invisible, or reverse the direction of the line.
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
