//! Expiring claims: instances share keys, and each key is held by one of them until a deadline. The rows and the clock
//! of the database decide; an instance is only a name. Each function reads the clock before its statement takes a
//! snapshot. So a key that it finds expired cannot have been renewed before that time.

use claims_model::limits::{CLAIMANT_CHARS, KEY_CHARS, KIND_CHARS};
use claims_model::{BadInput, Problem};

use crate::error::{ClaimsError, HoldError};
use crate::store::holds::expiring;
use crate::{access, arguments};
use pg::clock::Moment;
use pg::prelude::*;
use pg::spi::{self, Connection};
use pg::subtransaction::without_waiting;
use pg::xact;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn add_expiring(kind: Option<String>, keys: Option<Vec<Option<String>>>) -> Result<i64, ErrorReport> {
    Ok(change_keys(kind, keys, expiring::add)?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn remove_expiring(kind: Option<String>, keys: Option<Vec<Option<String>>>) -> Result<i64, ErrorReport> {
    let remove = |connection: &_, kind: &str, keys: Vec<String>| {
        without_waiting(|| expiring::remove(connection, kind, keys.clone())).unwrap_or(0)
    };
    Ok(change_keys(kind, keys, remove)?)
}

fn change_keys(
    kind: Option<String>,
    keys: Option<Vec<Option<String>>>,
    change: fn(&Connection, &str, Vec<String>) -> usize,
) -> Result<i64, ClaimsError> {
    spi::connect(|connection| {
        let kind = arguments::required(kind, "kind")?;
        access::administer()?;
        let kind = arguments::text(Some(kind), "kind", KIND_CHARS)?;
        let keys = arguments::keys(keys.unwrap_or_default(), "keys")?;
        Ok(change(connection, &kind, keys) as i64)
    })
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn acquire_expiring(
    kind: Option<String>,
    claimant: Option<String>,
    ttl: Option<Interval>,
    max_results: default!(Option<i32>, "NULL"),
) -> Result<
    TableIterator<'static, (name!(key, String), name!(token, i64), name!(expires_at, TimestampWithTimeZone))>,
    ErrorReport,
> {
    let now = Moment::now();
    let (kind, claimant) = names(kind, claimant)?;
    let until = arguments::deadline(ttl, "ttl", now)?;
    match max_results {
        Some(0) => Ok(TableIterator::new(Vec::new())),
        Some(..0) => Err(ClaimsError::from(BadInput::new(
            "max_results",
            Problem::OutOfRange { allowed: "0 and more, or null for all" },
        ))
        .into()),
        limit => Ok(TableIterator::new(spi::connect(|connection| {
            let limit = limit.map(i64::from);
            without_waiting(|| expiring::acquire(connection, &kind, &claimant, now, until, limit)).unwrap_or_default()
        }))),
    }
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn renew_expiring(
    kind: Option<String>,
    claimant: Option<String>,
    ttl: Option<Interval>,
) -> Result<
    TableIterator<'static, (name!(key, String), name!(token, i64), name!(expires_at, TimestampWithTimeZone))>,
    ErrorReport,
> {
    let now = Moment::now();
    let (kind, claimant) = names(kind, claimant)?;
    let until = arguments::deadline(ttl, "ttl", now)?;
    let renew = |connection: &_| without_waiting(|| expiring::renew(connection, &kind, &claimant, now, until));
    Ok(TableIterator::new(spi::connect(renew).unwrap_or_default()))
}

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn held_expiring(
    kind: Option<String>,
    claimant: Option<String>,
) -> Result<
    TableIterator<'static, (name!(key, String), name!(token, i64), name!(expires_at, TimestampWithTimeZone))>,
    ErrorReport,
> {
    let now = Moment::now();
    let (kind, claimant) = names(kind, claimant)?;
    Ok(TableIterator::new(spi::connect(|connection| expiring::held_by(connection, &kind, &claimant, now))))
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn release_expiring(
    kind: Option<String>,
    claimant: Option<String>,
    keys: default!(Option<Vec<Option<String>>>, "NULL"),
) -> Result<i64, ErrorReport> {
    let now = Moment::now();
    let (kind, claimant) = names(kind, claimant)?;
    let keys = keys.map(|keys| arguments::keys(keys, "keys")).transpose()?;
    let release =
        |connection: &_| without_waiting(|| expiring::release(connection, &kind, &claimant, now, keys.clone()));
    Ok(spi::connect(release).unwrap_or(0) as i64)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn assert_held(kind: Option<String>, key: Option<String>, token: Option<i64>) -> Result<(), ErrorReport> {
    let kind = arguments::text(kind, "kind", KIND_CHARS)?;
    let key = arguments::text(key, "key", KEY_CHARS)?;
    let token = arguments::required(token, "token")?;
    Ok(spi::connect(|connection| require_held(connection, &kind, &key, token))?)
}

/// Raises an error unless the token is current and not expired. Otherwise no other claimant can take the key over until
/// the (sub)transaction ends.
pub fn require_held(connection: &Connection, kind: &str, key: &str, token: i64) -> Result<(), ClaimsError> {
    let now = Moment::now();
    let not_held = || Err(HoldError::NotHeld { kind: kind.to_owned(), key: key.to_owned(), token }.into());
    // An old snapshot shows neither releases nor renewals, so first read the committed state.
    let is_stale = xact::uses_transaction_snapshot();
    if is_stale && !expiring::is_held(connection, kind, key, token, now) {
        not_held()
    } else if without_waiting(|| expiring::lock_held(connection, kind, key, token, now)) == Some(true) {
        Ok(())
    } else if is_stale {
        Err(HoldError::StaleHold.into())
    } else {
        not_held()
    }
}

fn names(kind: Option<String>, claimant: Option<String>) -> Result<(String, String), ClaimsError> {
    Ok((arguments::text(kind, "kind", KIND_CHARS)?, arguments::text(claimant, "claimant", CLAIMANT_CHARS)?))
}
