//! A lie: a wrong answer, made from the right one.

use std::time::Duration;

use super::call::Call;
use super::session::HONEST_LIMIT;
use super::wire::{self, Column, Message, Value};

/// A way to answer wrongly.
pub struct Lie {
    pub name: &'static str,
    pub place: Place,
    pub deed: Deed,
    pub fault: Fault,
    /// Whether it is so long that the cell gets more time to receive it.
    pub is_long: bool,
    /// Whether it has the cell compute for many seconds, in which the session cannot connect again.
    pub computes: bool,
    pub tell: fn(&Honest) -> Vec<Step>,
}

impl Lie {
    pub const fn long(self) -> Lie {
        Lie { is_long: true, ..self }
    }

    pub const fn computing(self) -> Lie {
        Lie { computes: true, ..self }
    }

    /// Returns how long a cell gives the service to answer. The truth must be accepted, however busy the machine is.
    pub fn timeout(&self) -> Duration {
        match self.fault {
            Fault::Truth => HONEST_LIMIT,
            _ if self.is_long => super::LONG_TIMEOUT,
            _ => super::TIMEOUT,
        }
    }
}

/// The place of a lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Instead of the answer to a call.
    Answer,
    /// While a connection is made.
    Greeting(Moment),
}

/// The message of an honest server that a lie replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The one byte that answers the request for encryption.
    Encryption,
    /// The first request for authentication.
    Request,
    /// The server's first message of SCRAM.
    Challenge,
    /// The server's signature.
    Signature,
    /// AuthenticationOk.
    Authenticated,
    Key,
    Ready,
}

/// The effect of the call at the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// The requested one.
    Done,
    /// None: the call is rolled back.
    Undone,
}

/// The calls that must end with an error because of the lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Every,
    /// All except those that count errors and continue.
    Refusal,
    /// Those whose answer is one row.
    OneRow,
    /// Those whose answer has values of types that do not accept every text.
    Values,
    /// Those whose answer names leases.
    Leases,
    /// Those whose answer names leases that were asked for.
    AskedLeases,
    /// The one whose answer is a range of ids. The lie is told nowhere else.
    Ranges,
    /// The one whose answer is a page of a list of leases. The lie is told nowhere else, and also where the page is empty.
    Pages,
    /// None, and all must succeed: it is no lie.
    Truth,
    /// None: it is odd but right, or wrong in a way that only the laws about saved rows can judge.
    None,
}

impl Fault {
    pub fn is_in(self, call: Call) -> bool {
        match self {
            Fault::Every => true,
            Fault::Refusal => call != Call::Settle,
            Fault::OneRow => call.has_one_row(),
            Fault::Values => call.has_values(),
            Fault::Leases => call.names_leases(),
            Fault::AskedLeases => call.names_asked_leases(),
            Fault::Ranges => call == Call::Range,
            Fault::Pages => call == Call::List,
            Fault::Truth | Fault::None => false,
        }
    }
}

/// A step of a lie.
pub enum Step {
    Send(Vec<u8>),
    /// Pieces without an end, made from their number.
    Flood(Box<dyn Fn(u64) -> Vec<u8> + Send>),
    /// One byte per second.
    Slowly(Vec<u8>),
    /// Pieces with pauses, without an end.
    Drip(Vec<u8>, Duration),
    Wait(Duration),
    /// Sends, reads the client's answer, and repeats without an end.
    Exchange(Vec<u8>),
    Silence,
    Close,
}

pub fn send(parts: impl IntoIterator<Item = Vec<u8>>) -> Step {
    Step::Send(parts.into_iter().flatten().collect())
}

/// The honest answer in its parts.
pub struct Honest {
    /// The messages before the description of the last statement's rows.
    pub head: Vec<u8>,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Value>>,
    /// CommandComplete.
    pub complete: Vec<u8>,
    /// The unchanged messages; in a greeting, the one message.
    pub messages: Vec<Message>,
    /// The request's parameters.
    pub parameters: Vec<Value>,
    /// A lease that does not exist.
    pub stranger: String,
}

impl Honest {
    pub fn new(messages: Vec<Message>, parameters: Vec<Value>) -> Honest {
        let start = messages.iter().rposition(|message| message.tag == b'T').unwrap_or(messages.len());
        let rows = messages[start..].iter().filter(|message| message.tag == b'D');
        Honest {
            head: messages[..start].iter().flat_map(Message::bytes).collect(),
            columns: messages.get(start).map(|message| wire::columns(&message.body)).unwrap_or_default(),
            rows: rows.map(|message| wire::values(&message.body)).collect(),
            complete: messages.iter().rfind(|message| message.tag == b'C').map(Message::bytes).unwrap_or_default(),
            stranger: uuid::Uuid::new_v4().to_string(),
            messages,
            parameters,
        }
    }

    /// Returns whether it is a result, not an error, and has a row.
    pub fn is_of_use(&self) -> bool {
        !self.rows.is_empty() && self.messages.iter().all(|message| message.tag != b'E')
    }

    /// Returns whether it is a result, not an error, perhaps without rows.
    pub fn is_page(&self) -> bool {
        !self.columns.is_empty() && self.messages.iter().all(|message| message.tag != b'E')
    }

    pub fn all(&self) -> Vec<u8> {
        self.messages.iter().flat_map(Message::bytes).collect()
    }

    pub fn description(&self) -> Vec<u8> {
        wire::description(&self.columns)
    }

    pub fn row(&self) -> Vec<u8> {
        self.rows.first().map(|row| wire::row(row)).unwrap_or_default()
    }

    pub fn all_rows(&self) -> Vec<u8> {
        self.rows.iter().flat_map(|row| wire::row(row)).collect()
    }

    /// Returns the end of an answer.
    pub fn end(&self) -> Vec<u8> {
        [self.complete.clone(), wire::ready(b'I')].concat()
    }

    /// Returns the answer with other messages in place of description and rows.
    pub fn around(&self, middle: Vec<u8>) -> Vec<Step> {
        vec![send([self.head.clone(), middle, self.end()])]
    }

    /// Returns the answer with other values.
    pub fn with_values(&self, change: impl Fn(&Value) -> Value) -> Vec<Step> {
        let changed = |row: &Vec<Value>| wire::row(&row.iter().map(&change).collect::<Vec<_>>());
        self.around([self.description(), self.rows.iter().flat_map(changed).collect()].concat())
    }

    /// Returns the answer with something before its description.
    pub fn after(&self, odd: Vec<u8>) -> Vec<Step> {
        vec![send([odd, self.all()])]
    }
}
