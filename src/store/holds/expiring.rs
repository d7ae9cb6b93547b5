//! Statements on expiring claims. Each statement that writes first locks its rows once, in a materialized CTE, and then
//! updates them by primary key. So no plan can run the locking part twice, or lock more rows than are taken. `is_row`
//! explains the join conditions.
//!
//! Every answer to an instance must survive a crash, whatever `synchronous_commit` is. After a lost acquire another
//! instance would get the same token. After a lost renewal the key could pass to another instance, and after a lost
//! removal a removed key would be held again. A lost release only frees the key later, and the next acquire makes it
//! durable. A token must not be drawn again even if its transaction never commits, because its holder may have used it
//! outside of the database.

use pgrx::datum::TimestampWithTimeZone;

use pg::clock::Moment;
use pg::spi::{Connection, Row, View};
use pg::statement::statement;
use pg::xact;

statement! {
    /// Inserts keys. Existing keys are excluded before the INSERT, which would wait for a transaction that is changing
    /// one of them.
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
    /// Takes up to $5 keys for $2, from $3 until $4. FOR UPDATE, unlike the lock of an UPDATE, conflicts with
    /// `assert_held`. The token is drawn while the row is locked, so that the tokens of a key increase with its
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
    /// Releases keys; $4 NULL means all keys.
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

/// A held key, its token and its expiry.
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

/// Takes free keys. `limit` `None` means no limit.
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
        // The rows were written after their tokens were drawn, so flushing them flushes the draws.
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

/// Like [`held_by`], with a snapshot of its own, which shows the committed state and the changes of this transaction.
pub fn held_now(connection: &Connection, kind: &str, claimant: &str, now: Moment) -> Vec<Held> {
    connection.run(&HELD, View::Statement, [kind.into(), claimant.into(), now.into()]).map(held)
}

pub fn release(connection: &Connection, kind: &str, claimant: &str, now: Moment, keys: Option<Vec<String>>) -> usize {
    let values = [kind.into(), claimant.into(), now.into(), keys.into()];
    connection.run(&RELEASE, View::Statement, values).count()
}

/// Locks the key against a takeover, if the token is current and not expired.
pub fn lock_held(connection: &Connection, kind: &str, key: &str, token: i64, now: Moment) -> bool {
    let values = [kind.into(), key.into(), token.into(), now.into()];
    connection.run(&ASSERT, View::Statement, values).count() == 1
}

/// Returns whether the token is current and not expired in the committed state.
pub fn is_held(connection: &Connection, kind: &str, key: &str, token: i64, now: Moment) -> bool {
    let values = [kind.into(), key.into(), token.into(), now.into()];
    connection.run(&IS_HELD, View::Latest, values).count() == 1
}
