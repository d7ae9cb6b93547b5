//! The calls of a cell, as the service sees them.

use super::wire::{Bytes, Message, Value};

/// The calls of a cell, by the function at the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// The start of a connection, up to the first ReadyForQuery.
    Connect,
    Begin,
    Commit,
    CommitUnflushed,
    Rollback,
    Settle,
    Outcomes,
    Details,
    List,
    Holders,
    Present,
    Limit,
    Digest,
    Nth,
    Compare,
    Correct,
    Range,
    Confirm,
    Other,
}

/// The texts by which statements are recognized. If a statement has two of them, the first one of this list counts.
const TEXTS: [(&str, Call); 16] = [
    ("claims.begin_update_text(", Call::Begin),
    ("claims.commit_update(", Call::Commit),
    ("claims.commit_unflushed(", Call::CommitUnflushed),
    ("claims.rollback_update(", Call::Rollback),
    ("claims.settle_leases(", Call::Settle),
    ("claims.lease_outcome(", Call::Outcomes),
    ("claims.lease_details(", Call::Details),
    ("claims.get_records(", Call::Holders),
    ("claims.list_leases(", Call::List),
    ("claims.digest_records(", Call::Digest),
    ("claims.list_records(", Call::Nth),
    ("claims.verify_records(", Call::Compare),
    ("claims.present_epoch(", Call::Present),
    ("claims.batch_limit(", Call::Limit),
    ("claims.lease_id_range(", Call::Range),
    ("claims.confirm_id_range(", Call::Confirm),
];

/// The index of verify_records' parameter that says whether to correct.
const CORRECT: usize = 8;

impl Call {
    /// Returns the call of a statement.
    pub fn of(statement: &str) -> Call {
        TEXTS.iter().find(|(text, _)| statement.contains(text)).map_or(Call::Other, |(_, call)| *call)
    }

    /// Distinguishes a correction from a comparison.
    pub fn with(self, parameters: &[Value]) -> Call {
        match parameters.get(CORRECT) {
            Some(Some(correct)) if self == Call::Compare && correct == b"true" => Call::Correct,
            _ => self,
        }
    }

    /// Returns whether the answer has exactly one row.
    pub fn has_one_row(self) -> bool {
        use Call::*;
        matches!(self, Begin | Commit | CommitUnflushed | Rollback | Present | Limit | Digest | Range | Confirm)
    }

    /// Returns whether the answer has values of types that do not accept every text.
    pub fn has_values(self) -> bool {
        !matches!(self, Call::Present | Call::Nth | Call::Connect | Call::Other)
    }

    /// Returns whether the answer names leases.
    pub fn names_leases(self) -> bool {
        use Call::*;
        matches!(self, Begin | Settle | Outcomes | Details | List | Holders)
    }

    /// Returns whether the answer names leases that were asked for.
    pub fn names_asked_leases(self) -> bool {
        self.names_leases() && !matches!(self, Call::List | Call::Holders)
    }
}

/// Returns the name of the prepared statement and the statement of a Parse message.
pub fn parse(body: &[u8]) -> (Vec<u8>, String) {
    let mut rest = Bytes(body);
    let name = rest.text().to_vec();
    (name, String::from_utf8_lossy(rest.text()).into_owned())
}

/// Returns the name of the prepared statement and the parameters of a Bind message.
pub fn bind(body: &[u8]) -> (Vec<u8>, Vec<Value>) {
    let mut rest = Bytes(body);
    rest.text();
    let name = rest.text().to_vec();
    let formats = rest.number_16();
    rest.take(2 * usize::try_from(formats).unwrap_or(0));
    (name, super::wire::values(rest.0))
}

/// Messages up to a Sync, which are answered together.
#[derive(Default)]
pub struct Request {
    pub bytes: Vec<u8>,
    /// The call of the last statement, and its parameters.
    pub call: Option<(Call, Vec<Value>)>,
}

impl Request {
    /// Adds a message. Returns whether it was the last one.
    pub fn add(&mut self, message: &Message) -> bool {
        self.bytes.extend(message.bytes());
        matches!(message.tag, b'S' | b'Q')
    }
}
