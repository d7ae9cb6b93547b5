//! Ids and types as callers write them: JSON numbers or strings, kept as text or looked up.

use std::borrow::Cow;

use crate::limits;
use crate::problem::{BadInput, Place, Problem, shortened};
use crate::token::Token;
use crate::types::{Kind, Types, UNSPECIFIED};

/// The text of an integer of 64 bits, or what is wrong with it.
fn integer(number: &str) -> Result<i64, Problem> {
    // jsonb prints numbers without exponent; a fraction, even .0, is no integer.
    number.parse::<i64>().map_err(|_| Problem::NotAnInteger { got: shortened(number) })
}

/// A text of 1 to `limit` characters.
pub fn bounded_text(text: &str, limit: usize) -> Result<&str, Problem> {
    if text.is_empty() {
        return Err(Problem::Empty);
    }
    if limits::is_longer_than(text, limit) {
        return Err(Problem::TooLong { limit });
    }
    Ok(text)
}

/// A bucket value, which is a string and nothing else: a number has more than one spelling. How many bytes it may have is said
/// of its canonical form.
pub fn bucket_value<'a>(token: Token<'a>, place: &Place) -> Result<&'a str, BadInput> {
    match token {
        Token::Text(text) => bounded_text(text, limits::BUCKET_VALUE_CHARS),
        other => Err(Problem::WrongType { wanted: "a string", got: other.type_name() }),
    }
    .map_err(|problem| BadInput::new(place, problem))
}

/// Any string.
pub fn any_text<'a>(token: Token<'a>, place: &Place) -> Result<&'a str, BadInput> {
    match token {
        Token::Text(text) => Ok(text),
        other => Err(BadInput::new(place, Problem::WrongType { wanted: "a string", got: other.type_name() })),
    }
}

/// A subject id or source id, kept as text.
pub fn record_id<'a>(token: Token<'a>, place: &Place) -> Result<Cow<'a, str>, BadInput> {
    match token {
        Token::Text(text) => bounded_text(text, limits::ID_CHARS).map(Cow::Borrowed),
        Token::Number(number) => integer(&number).map(|id| Cow::Owned(id.to_string())),
        other => Err(Problem::WrongType { wanted: "a string or a number", got: other.type_name() }),
    }
    .map_err(|problem| BadInput::new(place, problem))
}

/// A type by name or number.
pub fn type_id(token: Token, kind: Kind, types: &Types, place: &Place) -> Result<i32, BadInput> {
    match token {
        Token::Text(name) => named_type(name, kind, types),
        Token::Number(number) => integer(&number).and_then(|id| numbered_type(id, kind, types)),
        other => Err(Problem::WrongType { wanted: "a string or a number", got: other.type_name() }),
    }
    .map_err(|problem| BadInput::new(place, problem))
}

/// A type by name.
pub fn named_type(name: &str, kind: Kind, types: &Types) -> Result<i32, Problem> {
    let id = types.of(kind).id(name);
    id.ok_or_else(|| unknown_type(kind, name)).and_then(|id| specified(id, kind))
}

/// A type by name, or by its number written as text.
pub fn type_from_text(text: &str, kind: Kind, types: &Types) -> Result<i32, Problem> {
    match text.parse::<i32>() {
        Ok(id) if types.of(kind).id(text).is_none() => numbered_type(id.into(), kind, types),
        _ => named_type(text, kind, types),
    }
}

fn numbered_type(id: i64, kind: Kind, types: &Types) -> Result<i32, Problem> {
    let known = i32::try_from(id).ok().filter(|id| types.of(kind).name(*id).is_some());
    known.ok_or_else(|| unknown_type(kind, &id.to_string())).and_then(|id| specified(id, kind))
}

fn unknown_type(kind: Kind, got: &str) -> Problem {
    Problem::UnknownType { kind: kind.name(), got: shortened(got) }
}

fn specified(id: i32, kind: Kind) -> Result<i32, Problem> {
    if id == UNSPECIFIED { Err(Problem::Unspecified { kind: kind.name() }) } else { Ok(id) }
}
