//! Checks of arguments that several functions share: not NULL and within limits. An error names the argument.

use std::time::{Duration, Instant};

use claims_model::limits::{self, KEY_CHARS, MAX_KEYS, is_longer_than};
use claims_model::source_range::SourceRange;
use claims_model::types::Kind;
use claims_model::{BadInput, Confusables, Problem, Profile, Types, id};
use pgrx::Uuid as PgUuid;
use pgrx::datum::Interval;
use uuid::Uuid;

use super::error::ClaimsError;
use pg::clock::Moment;
use pg::uuid::from_pg_uuid;

/// The longest hold: ten years, in microseconds.
const LONGEST_HOLD: i128 = 10 * 366 * 24 * 60 * 60 * 1_000_000;

/// Returns the value of an argument that must not be NULL.
pub fn required<T>(argument: Option<T>, name: &str) -> Result<T, ClaimsError> {
    argument.ok_or_else(|| BadInput::new(name, Problem::Null).into())
}

/// Unwraps arguments that must not be NULL: `require!(cell_id, reason);` declares variables of these names.
macro_rules! require {
    ($($argument:ident),+) => {
        $(let $argument = $crate::kernel::arguments::required($argument, stringify!($argument))?;)+
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

/// Returns the uuids of an array, which must not contain NULLs.
pub fn uuids(list: Vec<Option<PgUuid>>, name: &str) -> Result<Vec<Uuid>, ClaimsError> {
    let uuid = |(index, uuid): (usize, Option<PgUuid>)| {
        uuid.map(from_pg_uuid).ok_or_else(|| BadInput::new(format!("{name}[{index}]"), Problem::Null).into())
    };
    list.into_iter().enumerate().map(uuid).collect()
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

/// Returns a number between 1 and `most`.
pub fn in_range(number: i32, most: i32, name: &str, allowed: &'static str) -> Result<i64, ClaimsError> {
    if (1..=most).contains(&number) {
        return Ok(number.into());
    }
    Err(BadInput::new(name, Problem::OutOfRange { allowed }).into())
}

/// Returns the number of rows of a page that a cell asks for.
pub fn page_size(max_results: i32) -> Result<usize, ClaimsError> {
    in_range(max_results, 10_000, "max_results", "1 to 10000").map(|size| size as usize)
}

/// Returns the number of rows that a cell handles at once.
pub fn batch_size(batch_size: i32) -> Result<i64, ClaimsError> {
    in_range(batch_size, 10_000, "batch_size", "1 to 10000")
}

/// Returns the time at which a call that began at `began` stops. `None`: it has no limit.
pub fn end_of_runtime(max_runtime: Option<Interval>, began: Instant) -> Result<Option<Instant>, ClaimsError> {
    let until = |runtime| {
        let micros = span(runtime, "max_runtime")?.as_micros().unsigned_abs();
        Ok(began + Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)))
    };
    max_runtime.map(until).transpose()
}

/// Returns the profile that an argument names.
pub fn profile(name: Option<String>) -> Result<Profile, ClaimsError> {
    profile_named(&required(name, "profile")?)
}

/// Returns the profile of this name.
pub fn profile_named(name: &str) -> Result<Profile, ClaimsError> {
    const ALLOWED: &str = "exact, casefold, username, domain, email or path";
    let bad = || BadInput::new("profile", Problem::OutOfRange { allowed: ALLOWED });
    Ok(Profile::parse(name).ok_or_else(bad)?)
}

/// Returns how to treat confusable names.
pub fn confusables(name: Option<String>) -> Result<Confusables, ClaimsError> {
    let name = required(name, "confusables")?;
    let bad = || BadInput::new("confusables", Problem::OutOfRange { allowed: "allow or reject" });
    Ok(Confusables::parse(&name).ok_or_else(bad)?)
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
