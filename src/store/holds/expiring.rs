//! Statements on expiring claims. Each that writes locks its rows first, once, in a materialized part, and then updates
//! them by primary key: no plan can run the locking part twice or lock more than is taken. See `is_row` in the parent module for the
//! wording.
//!
//! What an instance is told must survive a crash, whatever `synchronous_commit` says: an acquire that is lost would give
//! its token to somebody else, a lost renewal the key, and a key that was removed would be held again. A lost release
//! frees the key later, and that is all: who acquires it makes the release durable with it. A token must not be drawn again
//! even if the transaction that was told it never commits: its holder may have shown it outside of the database.

use pgrx::datum::TimestampWithTimeZone;

use crate::pg::clock::Moment;
use crate::pg::spi::{Connection, Row, View};
use crate::pg::statement::statement;
use crate::pg::xact;

statement! {
    /// Keys that are there already are left out before the INSERT, which would wait for whoever is changing one of them.
    ADD(TEXTOID, TEXTARRAYOID) =
        "INSERT INTO claims.expiring_claims (kind, key)
         SELECT $1, k.key FROM (SELECT DISTINCT key FROM unnest($2) AS key) AS k
          WHERE (SELECT true FROM claims.expiring_claims c WHERE c.kind = $1 AND c.key = k.key) IS NULL
          ORDER BY k.key COLLATE \"C\"
         ON CONFLICT DO NOTHING";
    REMOVE(TEXTOID, TEXTARRAYOID) = concat!(
        "WITH doomed AS MATERIALIZED (
             SELECT c.kind, c.key
               FROM (SELECT $1 AS kind, key FROM unnest($2) AS key OFFSET 0) AS k
               JOIN claims.expiring_claims c ON ", is_row!("c.kind", "c.key", "k.kind", "k.key"), "
              ORDER BY c.key FOR UPDATE OF c SKIP LOCKED)
         DELETE FROM claims.expiring_claims c USING doomed d WHERE ", is_row!("c.kind", "c.key", "d.kind", "d.key"));
    /// Takes up to $5 keys for $2 at $3 until $4. FOR UPDATE, unlike the lock of an UPDATE, conflicts with
    /// `assert_held`. The token is drawn while the row is locked, so that tokens of a key grow in the order of its
    /// holders.
    ACQUIRE(TEXTOID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID) = concat!(
        "WITH free AS MATERIALIZED (
             SELECT kind, key FROM claims.expiring_claims
              WHERE kind = $1 AND (expires_at IS NULL OR expires_at <= $3)
              ORDER BY expires_at NULLS FIRST, key LIMIT $5 FOR UPDATE SKIP LOCKED)
         UPDATE claims.expiring_claims c
            SET claimant = $2, token = nextval('claims.expiring_tokens'), acquired_at = $3, renewed_at = $3, expires_at = $4
           FROM free f WHERE ", is_row!("c.kind", "c.key", "f.kind", "f.key"), " RETURNING c.key, c.token, c.expires_at");
    RENEW(TEXTOID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID) = concat!(
        "WITH mine AS MATERIALIZED (
             SELECT kind, key FROM claims.expiring_claims WHERE kind = $1 AND claimant = $2 AND expires_at > $3
              ORDER BY key FOR NO KEY UPDATE SKIP LOCKED)
         UPDATE claims.expiring_claims c SET renewed_at = greatest(renewed_at, $3), expires_at = greatest(expires_at, $4)
           FROM mine m WHERE ", is_row!("c.kind", "c.key", "m.kind", "m.key"), " RETURNING c.key, c.token, c.expires_at");
    HELD(TEXTOID, TEXTOID, TIMESTAMPTZOID) =
        "SELECT key, token, expires_at FROM claims.expiring_claims
          WHERE kind = $1 AND claimant = $2 AND expires_at > $3 ORDER BY key";
    /// $4 NULL: all keys.
    RELEASE(TEXTOID, TEXTOID, TIMESTAMPTZOID, TEXTARRAYOID) = concat!(
        "WITH mine AS MATERIALIZED (
             SELECT kind, key FROM claims.expiring_claims
              WHERE kind = $1 AND claimant = $2 AND expires_at > $3
                AND ($4 IS NULL OR key IN (SELECT unnest($4)))
              ORDER BY key FOR NO KEY UPDATE SKIP LOCKED)
         UPDATE claims.expiring_claims c SET expires_at = $3
           FROM mine m WHERE ", is_row!("c.kind", "c.key", "m.kind", "m.key"));
    ASSERT(TEXTOID, TEXTOID, INT8OID, TIMESTAMPTZOID) =
        "SELECT FROM claims.expiring_claims WHERE kind = $1 AND key = $2 AND token = $3 AND expires_at > $4
            FOR KEY SHARE SKIP LOCKED";
    IS_HELD(TEXTOID, TEXTOID, INT8OID, TIMESTAMPTZOID) =
        "SELECT FROM claims.expiring_claims WHERE kind = $1 AND key = $2 AND token = $3 AND expires_at > $4";
}

/// A key in somebody's hands.
pub type Held = (String, i64, TimestampWithTimeZone);

fn held(row: Row) -> Held {
    (row.must(1), row.must(2), row.must::<Moment>(3).into())
}

pub fn add(connection: &Connection, kind: &str, keys: Vec<String>) -> usize {
    connection.run(&ADD, View::Statement, [kind.into(), keys.into()]).count()
}

pub fn remove(connection: &Connection, kind: &str, keys: Vec<String>) -> usize {
    let removed = connection.run(&REMOVE, View::Statement, [kind.into(), keys.into()]).count();
    durably_if(removed > 0);
    removed
}

fn durably_if(anything_was_done: bool) {
    if anything_was_done {
        xact::commit_durably();
    }
}

/// `limit`: `None` is no limit.
pub fn acquire(
    connection: &Connection,
    kind: &str,
    claimant: &str,
    now: Moment,
    until: Moment,
    limit: Option<i64>,
) -> Vec<Held> {
    let values = [kind.into(), claimant.into(), now.into(), until.into(), limit.into()];
    let acquired = connection.run(&ACQUIRE, View::Statement, values).map(held);
    durably_if(!acquired.is_empty());
    if !acquired.is_empty() {
        // The rows were written after their tokens were drawn.
        xact::flush_log();
    }
    acquired
}

pub fn renew(connection: &Connection, kind: &str, claimant: &str, now: Moment, until: Moment) -> Vec<Held> {
    let values = [kind.into(), claimant.into(), now.into(), until.into()];
    let renewed = connection.run(&RENEW, View::Statement, values).map(held);
    durably_if(!renewed.is_empty());
    renewed
}

pub fn held_by(connection: &Connection, kind: &str, claimant: &str, now: Moment) -> Vec<Held> {
    connection.run(&HELD, View::Caller, [kind.into(), claimant.into(), now.into()]).map(held)
}

/// As [`held_by`], by what is committed, or was done by this transaction, right now.
pub fn held_now(connection: &Connection, kind: &str, claimant: &str, now: Moment) -> Vec<Held> {
    connection.run(&HELD, View::Statement, [kind.into(), claimant.into(), now.into()]).map(held)
}

pub fn release(connection: &Connection, kind: &str, claimant: &str, now: Moment, keys: Option<Vec<String>>) -> usize {
    let values = [kind.into(), claimant.into(), now.into(), keys.into()];
    connection.run(&RELEASE, View::Statement, values).count()
}

/// Locks the key against being taken over, if the token is current and unexpired.
pub fn lock_held(connection: &Connection, kind: &str, key: &str, token: i64, now: Moment) -> bool {
    let values = [kind.into(), key.into(), token.into(), now.into()];
    connection.run(&ASSERT, View::Statement, values).count() == 1
}

/// Whether the token is current and unexpired by what is committed right now.
pub fn is_held(connection: &Connection, kind: &str, key: &str, token: i64, now: Moment) -> bool {
    let values = [kind.into(), key.into(), token.into(), now.into()];
    connection.run(&IS_HELD, View::Latest, values).count() == 1
}
