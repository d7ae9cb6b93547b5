//! Checks of arguments that several functions share: not NULL and within limits. An error names the argument.

use claims_model::limits::{self, KEY_CHARS, MAX_KEYS, is_longer_than};
use claims_model::source_range::SourceRange;
use claims_model::types::Kind;
use claims_model::{BadInput, Problem, Types, id};
use pgrx::datum::Interval;

use crate::error::ClaimsError;
use pg::clock::Moment;

/// The longest hold: ten years, in microseconds.
const LONGEST_HOLD: i128 = 10 * 366 * 24 * 60 * 60 * 1_000_000;

/// Returns the value of an argument that must not be NULL.
pub fn required<T>(argument: Option<T>, name: &str) -> Result<T, ClaimsError> {
    argument.ok_or_else(|| BadInput::new(name, Problem::Null).into())
}

/// Unwraps arguments that must not be NULL: `require!(cell_id, reason);` declares variables of these names.
macro_rules! require {
    ($($argument:ident),+) => {
        $(let $argument = $crate::arguments::required($argument, stringify!($argument))?;)+
    };
}
pub(crate) use require;

/// Returns a text of 1 to `limit` characters.
pub fn text(value: Option<String>, name: &str, limit: usize) -> Result<String, ClaimsError> {
    let value = required(value, name)?;
    id::bounded_text(&value, limit).map_err(|problem| BadInput::new(name, problem))?;
    Ok(value)
}

/// Returns a text of up to `limit` characters.
pub fn at_most(value: String, name: &str, limit: usize) -> Result<String, ClaimsError> {
    if is_longer_than(&value, limit) {
        return Err(BadInput::new(name, Problem::TooLong { limit }).into());
    }
    Ok(value)
}

/// Returns the keys of an array, each not NULL and within its limits.
pub fn keys(list: Vec<Option<String>>, name: &str) -> Result<Vec<String>, ClaimsError> {
    if list.len() > MAX_KEYS {
        let problem = Problem::OutOfRange { allowed: "up to 100000 keys in one call" };
        return Err(BadInput::new(name, problem).into());
    }
    let key = |(index, key): (usize, Option<String>)| text(key, &format!("{name}[{index}]"), KEY_CHARS);
    list.into_iter().enumerate().map(key).collect()
}

/// Returns the time a duration after `now`. A month is 30 days and a day 24 hours, whatever the calendar.
pub fn deadline(duration: Option<Interval>, name: &str, now: Moment) -> Result<Moment, ClaimsError> {
    let microseconds = required(duration, name)?.as_micros();
    if !(1..=LONGEST_HOLD).contains(&microseconds) {
        return Err(BadInput::new(name, Problem::OutOfRange { allowed: "1 microsecond to 3660 days" }).into());
    }
    Ok(Moment(now.0 + microseconds as i64))
}

/// Returns the time a duration before `now`.
pub fn before(duration: Interval, name: &str, now: Moment) -> Result<Moment, ClaimsError> {
    Ok(Moment(now.0.saturating_sub(span(duration, name)?.as_micros() as i64)))
}

/// Returns a duration that can be added to, or subtracted from, every time of our age: not negative, and at most a
/// thousand years.
pub fn span(duration: Interval, name: &str) -> Result<Interval, ClaimsError> {
    if !(0..=100 * LONGEST_HOLD).contains(&duration.as_micros()) {
        return Err(BadInput::new(name, Problem::OutOfRange { allowed: "0 to 366000 days" }).into());
    }
    Ok(duration)
}

/// Returns the number of the source type that an argument names, and its first name, under which a cell stores it.
pub fn source_type(text: &str, types: &Types) -> Result<(i32, String), ClaimsError> {
    let number =
        id::type_from_text(text, Kind::Source, types).map_err(|problem| BadInput::new("source_type", problem))?;
    Ok((number, types.source.first_name(number).unwrap_or(text).to_owned()))
}

/// Returns the range between two arguments, for which NULL means no bound.
pub fn source_range(above: Option<String>, up_to: Option<String>) -> Result<SourceRange, ClaimsError> {
    for (bound, name) in [(&above, "source_id_gt"), (&up_to, "source_id_lte")] {
        let Some(bound) = bound else { continue };
        id::bounded_text(bound, limits::ID_CHARS).map_err(|problem| BadInput::new(name, problem))?;
    }
    Ok(SourceRange { above, up_to })
}
