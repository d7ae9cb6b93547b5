//! Messages of PostgreSQL's protocol, version 3, and parts of them, right and wrong.
//!
//! The code is written by hand, because the crate `postgres-protocol` encodes only a client's messages, and no wrong
//! ones.

use std::io::{ErrorKind, Read, Result};

/// A value of a row; `None` is NULL.
pub type Value = Option<Vec<u8>>;

/// A message with its tag. The body does not include the length.
#[derive(Debug, Clone)]
pub struct Message {
    pub tag: u8,
    pub body: Vec<u8>,
}

impl Message {
    /// Reads the next message. Returns `None` at the end of the stream.
    pub fn read(from: &mut impl Read) -> Result<Option<Message>> {
        let mut head = [0; 5];
        match from.read_exact(&mut head) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let [tag, length @ ..] = head;
        let mut body = vec![0; (u32::from_be_bytes(length) as usize).saturating_sub(4)];
        from.read_exact(&mut body)?;
        Ok(Some(Message { tag, body }))
    }

    pub fn bytes(&self) -> Vec<u8> {
        message(self.tag, &self.body)
    }
}

pub fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    with_length(tag, body.len() as i32 + 4, body)
}

/// Returns a message that claims to have some length.
pub fn with_length(tag: u8, length: i32, body: &[u8]) -> Vec<u8> {
    [&[tag], length.to_be_bytes().as_slice(), body].concat()
}

pub fn ready(status: u8) -> Vec<u8> {
    message(b'Z', &[status])
}

pub fn row(values: &[Value]) -> Vec<u8> {
    message(b'D', &row_body(values.len() as i16, values))
}

/// Returns the body of a row that claims to have some number of values.
pub fn row_body(count: i16, values: &[Value]) -> Vec<u8> {
    let mut body = count.to_be_bytes().to_vec();
    for value in values {
        body.extend(value.as_ref().map_or(-1, |value| value.len() as i32).to_be_bytes());
        body.extend(value.iter().flatten());
    }
    body
}

/// Returns the values of a row.
pub fn values(body: &[u8]) -> Vec<Value> {
    let mut rest = Bytes(body);
    let count = rest.number_16();
    (0..count).map(|_| usize::try_from(rest.number_32()).ok().map(|length| rest.take(length).to_vec())).collect()
}

/// A column of a row description: its name, and the 18 bytes after it.
#[derive(Debug, Clone)]
pub struct Column {
    pub name: Vec<u8>,
    pub rest: Vec<u8>,
}

pub fn columns(body: &[u8]) -> Vec<Column> {
    let mut rest = Bytes(body);
    let count = rest.number_16();
    (0..count).map(|_| Column { name: rest.text().to_vec(), rest: rest.take(18).to_vec() }).collect()
}

pub fn description(columns: &[Column]) -> Vec<u8> {
    let mut body = (columns.len() as i16).to_be_bytes().to_vec();
    for Column { name, rest } in columns {
        body.extend([name.as_slice(), b"\0", rest].concat());
    }
    message(b'T', &body)
}

/// Returns an error or a notice: fields by their types, each terminated by a NUL byte.
pub fn fields(tag: u8, fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (kind, text) in fields {
        body.extend([&[*kind], *text, b"\0"].concat());
    }
    body.push(0);
    message(tag, &body)
}

/// Returns an error, like a server's.
pub fn error(sqlstate: &str, text: &str) -> Vec<u8> {
    let severity = (b'S', b"ERROR".as_slice());
    fields(b'E', &[severity, (b'V', b"ERROR"), (b'C', sqlstate.as_bytes()), (b'M', text.as_bytes())])
}

pub fn parameter(name: &str, value: &str) -> Vec<u8> {
    message(b'S', format!("{name}\0{value}\0").as_bytes())
}

pub fn notification(payload: &str) -> Vec<u8> {
    message(b'A', [&4711_i32.to_be_bytes(), b"channel\0".as_slice(), payload.as_bytes(), b"\0"].concat().as_slice())
}

/// Returns a request for authentication.
pub fn authentication(kind: i32, rest: &[u8]) -> Vec<u8> {
    message(b'R', &[kind.to_be_bytes().as_slice(), rest].concat())
}

/// The unread rest of a body. Missing bytes read as zero.
pub struct Bytes<'b>(pub &'b [u8]);

impl<'b> Bytes<'b> {
    pub fn take(&mut self, length: usize) -> &'b [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub fn number_16(&mut self) -> i16 {
        self.take(2).try_into().map_or(0, i16::from_be_bytes)
    }

    pub fn number_32(&mut self) -> i32 {
        self.take(4).try_into().map_or(0, i32::from_be_bytes)
    }

    /// Reads a text and its NUL terminator.
    pub fn text(&mut self) -> &'b [u8] {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        let text = self.take(length);
        self.take(1);
        text
    }
}
