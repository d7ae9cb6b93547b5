//! Expiring claims: instances share keys, and each key is held by one of them until a deadline. The rows and the clock
//! of the database decide; an instance is only a name. Each function reads the clock before its statement takes a
//! snapshot. So a key that it finds expired cannot have been renewed before that time.
//!
//! Every answer to an instance must survive a crash, whatever `synchronous_commit` is. After a lost acquire another
//! instance would get the same token. After a lost renewal the key could pass to another instance, and after a lost
//! removal a removed key would be held again. A lost release only frees the key later, and the next acquire makes it
//! durable. A token must not be drawn again even if its transaction never commits, because its holder may have used it
//! outside of the database.

mod statements;

use claims_model::limits::{CLAIMANT_CHARS, KEY_CHARS, KIND_CHARS};
use claims_model::{BadInput, Problem};

use super::errors::HoldError;
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, arguments};
use pg::clock::Moment;
use pg::prelude::*;
use pg::spi::{self, Connection};
use pg::subtransaction::without_waiting;
use pg::xact;
pub use statements::{Held, add, held_now};

::pgrx::extension_sql_file!(
    "../../../sql/install/holds/expiring.sql",
    name = "expiring",
    requires = [
        "admin",
        holds::expiring::add_expiring,
        holds::expiring::remove_expiring,
        holds::expiring::acquire_expiring,
        holds::expiring::renew_expiring,
        holds::expiring::held_expiring,
        holds::expiring::release_expiring,
        holds::expiring::assert_held,
        service::admin::grants::grant_worker
    ]
);

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn add_expiring(kind: Option<String>, keys: Option<Vec<Option<String>>>) -> Result<i64, ErrorReport> {
    Ok(change_keys(kind, keys, add)?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn remove_expiring(kind: Option<String>, keys: Option<Vec<Option<String>>>) -> Result<i64, ErrorReport> {
    Ok(change_keys(kind, keys, remove)?)
}

fn change_keys(
    kind: Option<String>,
    keys: Option<Vec<Option<String>>>,
    change: fn(&Connection, &str, &[String]) -> usize,
) -> Result<i64, ClaimsError> {
    spi::connect(|connection| {
        let kind = arguments::required(kind, "kind")?;
        access::administer()?;
        let kind = arguments::text(Some(kind), "kind", KIND_CHARS)?;
        let keys = arguments::keys(keys.unwrap_or_default(), "keys")?;
        Ok(change(connection, &kind, &keys) as i64)
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
        most => {
            let hold = Hold { kind: &kind, claimant: &claimant, now, until };
            Ok(rows(spi::connect(|connection| hold.acquire(connection, most.map(i64::from)))))
        }
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
    let hold = Hold { kind: &kind, claimant: &claimant, now, until };
    Ok(rows(spi::connect(|connection| hold.renew(connection))))
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
    Ok(rows(spi::connect(|connection| statements::held_by(connection, &kind, &claimant, now))))
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
    let release = |connection: &Connection| {
        without_waiting(|| statements::release(connection, &kind, &claimant, now, keys.as_deref()))
    };
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
    if is_stale && !statements::is_held(connection, kind, key, token, now) {
        not_held()
    } else if without_waiting(|| statements::lock_held(connection, kind, key, token, now)) == Some(true) {
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

/// Removes keys that no other transaction is changing. Returns their number.
pub fn remove(connection: &Connection, kind: &str, keys: &[String]) -> usize {
    let removed = without_waiting(|| statements::remove(connection, kind, keys)).unwrap_or(0);
    durably_if(removed > 0);
    removed
}

/// A hold that begins or is renewed now, and ends at `until`.
pub struct Hold<'h> {
    pub kind: &'h str,
    pub claimant: &'h str,
    pub now: Moment,
    pub until: Moment,
}

impl Hold<'_> {
    /// Takes free keys. `most` `None` means all.
    pub fn acquire(&self, connection: &Connection, most: Option<i64>) -> Vec<Held> {
        let Hold { kind, claimant, now, until } = *self;
        let acquire = || statements::acquire(connection, kind, claimant, now, until, most);
        let acquired = without_waiting(acquire).unwrap_or_default();
        if !acquired.is_empty() {
            xact::commit_durably();
            // The rows were written after their tokens were drawn, so flushing them flushes the draws.
            xact::flush_log();
        }
        acquired
    }

    /// Renews the holds of the claimant. Returns them.
    pub fn renew(&self, connection: &Connection) -> Vec<Held> {
        let Hold { kind, claimant, now, until } = *self;
        let renewed = without_waiting(|| statements::renew(connection, kind, claimant, now, until));
        let renewed = renewed.unwrap_or_default();
        durably_if(!renewed.is_empty());
        renewed
    }
}

fn durably_if(anything_was_done: bool) {
    if anything_was_done {
        xact::commit_durably();
    }
}

fn rows(held: Vec<Held>) -> TableIterator<'static, (String, i64, TimestampWithTimeZone)> {
    TableIterator::new(held.into_iter().map(|held| (held.key, held.token, held.expires_at.into())))
}
