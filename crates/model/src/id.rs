//! Parses ids and types as callers write them: JSON numbers or strings.

use std::borrow::Cow;

use crate::limits;
use crate::problem::{BadInput, JsonPath, Problem, shortened};
use crate::types::{Kind, Types, UNSPECIFIED};
use claims_json::Token;

/// Parses an integer of 64 bits.
fn integer(number: &str) -> Result<i64, Problem> {
    // jsonb prints numbers without exponent. A fraction is no integer, even .0.
    number.parse::<i64>().map_err(|_| Problem::NotAnInteger { got: shortened(number) })
}

/// Checks that a text has 1 to `limit` characters.
pub fn bounded_text(text: &str, limit: usize) -> Result<&str, Problem> {
    if text.is_empty() {
        return Err(Problem::Empty);
    }
    if limits::is_longer_than(text, limit) {
        return Err(Problem::TooLong { limit });
    }
    Ok(text)
}

/// Reads a bucket value, which must be a string, because a number has more than one spelling. The limit in bytes
/// applies to the canonical form, and is checked there.
pub fn bucket_value<'a>(token: Token<'a>, path: &JsonPath) -> Result<&'a str, BadInput> {
    match token {
        Token::Text(text) => bounded_text(text, limits::BUCKET_VALUE_CHARS),
        other => Err(Problem::WrongType { wanted: "a string", got: other.type_name() }),
    }
    .map_err(|problem| BadInput::new(path, problem))
}

/// Reads any string.
pub fn any_text<'a>(token: Token<'a>, path: &JsonPath) -> Result<&'a str, BadInput> {
    match token {
        Token::Text(text) => Ok(text),
        other => Err(BadInput::new(path, Problem::WrongType { wanted: "a string", got: other.type_name() })),
    }
}

/// Reads a subject id or source id, as text.
pub fn record_id<'a>(token: Token<'a>, path: &JsonPath) -> Result<Cow<'a, str>, BadInput> {
    match token {
        Token::Text(text) => bounded_text(text, limits::ID_CHARS).map(Cow::Borrowed),
        Token::Number(number) => integer(&number).map(|id| Cow::Owned(id.to_string())),
        other => Err(Problem::WrongType { wanted: "a string or a number", got: other.type_name() }),
    }
    .map_err(|problem| BadInput::new(path, problem))
}

/// Reads a type by name or number.
pub fn type_id(token: Token, kind: Kind, types: &Types, path: &JsonPath) -> Result<i32, BadInput> {
    match token {
        Token::Text(name) => named_type(name, kind, types),
        Token::Number(number) => integer(&number).and_then(|id| numbered_type(id, kind, types)),
        other => Err(Problem::WrongType { wanted: "a string or a number", got: other.type_name() }),
    }
    .map_err(|problem| BadInput::new(path, problem))
}

pub fn named_type(name: &str, kind: Kind, types: &Types) -> Result<i32, Problem> {
    let id = types.of(kind).id(name);
    id.ok_or_else(|| unknown_type(kind, name)).and_then(|id| specified(id, kind))
}

/// Returns the id of a type by name, or by its number written as text.
pub fn type_from_text(text: &str, kind: Kind, types: &Types) -> Result<i32, Problem> {
    match text.parse::<i32>() {
        Ok(id) if types.of(kind).id(text).is_none() => numbered_type(id.into(), kind, types),
        _ => named_type(text, kind, types),
    }
}

fn numbered_type(id: i64, kind: Kind, types: &Types) -> Result<i32, Problem> {
    let found = i32::try_from(id).ok().filter(|id| types.of(kind).name(*id).is_some());
    found.ok_or_else(|| unknown_type(kind, &id.to_string())).and_then(|id| specified(id, kind))
}

fn unknown_type(kind: Kind, got: &str) -> Problem {
    Problem::UnknownType { kind: kind.name(), got: shortened(got) }
}

fn specified(id: i32, kind: Kind) -> Result<i32, Problem> {
    if id == UNSPECIFIED { Err(Problem::Unspecified { kind: kind.name() }) } else { Ok(id) }
}
