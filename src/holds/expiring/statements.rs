//! Statements on expiring claims. Each statement that writes first locks its rows once, in a materialized CTE, and then
//! updates them by primary key. So no plan can run the locking part twice, or lock more rows than are taken. `is_row`
//! explains the join conditions.

use crate::kernel::sql_text::is_row;
use pg::clock::Moment;
use pg::query::{query, record};

record! {
    /// A held key, its token and its expiry.
    pub struct Held {
        pub key: String,
        pub token: i64,
        pub expires_at: Moment,
    }
}

const HELD: &str = "SELECT key, token, expires_at FROM claims.expiring_claims
      WHERE kind = :kind AND claimant = :claimant AND expires_at > :now ORDER BY key";

query! {
    /// Inserts keys. Existing keys are excluded before the INSERT, which would wait for a transaction that is changing
    /// one of them.
    pub fn add(kind: &str, keys: &[String]) -> usize = [Statement]
        "INSERT INTO claims.expiring_claims (kind, key)
         SELECT :kind, k.key FROM (SELECT DISTINCT key FROM unnest(:keys) AS key) AS k
          WHERE (SELECT true FROM claims.expiring_claims c WHERE c.kind = :kind AND c.key = k.key) IS NULL
          ORDER BY k.key COLLATE \"C\"
         ON CONFLICT DO NOTHING";
    pub fn remove(kind: &str, keys: &[String]) -> usize = [Statement] concat!(
        "WITH doomed AS MATERIALIZED (
             SELECT c.kind, c.key
               FROM (SELECT :kind AS kind, key FROM unnest(:keys) AS key OFFSET 0) AS k
               JOIN claims.expiring_claims c ON ", is_row!("c.kind", "c.key", "k.kind", "k.key"), "
              ORDER BY c.key FOR UPDATE OF c SKIP LOCKED)
         DELETE FROM claims.expiring_claims c USING doomed d WHERE ", is_row!("c.kind", "c.key", "d.kind", "d.key"));
    /// Takes free keys; `most` `None` means all. FOR UPDATE, unlike the lock of an UPDATE, conflicts with `assert_held`.
    /// The token is drawn while the row is locked, so that the tokens of a key increase with its holders.
    pub fn acquire(kind: &str, claimant: &str, now: Moment, until: Moment, most: Option<i64>) -> Vec<Held> = [Statement] concat!(
        "WITH free AS MATERIALIZED (
             SELECT kind, key FROM claims.expiring_claims
              WHERE kind = :kind AND (expires_at IS NULL OR expires_at <= :now)
              ORDER BY expires_at NULLS FIRST, key LIMIT :most FOR UPDATE SKIP LOCKED)
         UPDATE claims.expiring_claims c
            SET claimant = :claimant, token = nextval('claims.expiring_tokens'), acquired_at = :now, renewed_at = :now, expires_at = :until
           FROM free f WHERE ", is_row!("c.kind", "c.key", "f.kind", "f.key"), " RETURNING c.key, c.token, c.expires_at");
    pub fn renew(kind: &str, claimant: &str, now: Moment, until: Moment) -> Vec<Held> = [Statement] concat!(
        "WITH mine AS MATERIALIZED (
             SELECT kind, key FROM claims.expiring_claims WHERE kind = :kind AND claimant = :claimant AND expires_at > :now
              ORDER BY key FOR NO KEY UPDATE SKIP LOCKED)
         UPDATE claims.expiring_claims c SET renewed_at = greatest(renewed_at, :now), expires_at = greatest(expires_at, :until)
           FROM mine m WHERE ", is_row!("c.kind", "c.key", "m.kind", "m.key"), " RETURNING c.key, c.token, c.expires_at");
    pub fn held_by(kind: &str, claimant: &str, now: Moment) -> Vec<Held> = [Caller] HELD;
    /// Like [`held_by`], with a snapshot of its own, which shows the committed state and the changes of this transaction.
    pub fn held_now(kind: &str, claimant: &str, now: Moment) -> Vec<Held> = [Statement] HELD;
    /// Releases keys; `None` means all.
    pub fn release(kind: &str, claimant: &str, now: Moment, keys: Option<&[String]>) -> usize = [Statement] concat!(
        "WITH mine AS MATERIALIZED (
             SELECT kind, key FROM claims.expiring_claims
              WHERE kind = :kind AND claimant = :claimant AND expires_at > :now
                AND (:keys IS NULL OR key IN (SELECT unnest(:keys)))
              ORDER BY key FOR NO KEY UPDATE SKIP LOCKED)
         UPDATE claims.expiring_claims c SET expires_at = :now
           FROM mine m WHERE ", is_row!("c.kind", "c.key", "m.kind", "m.key"));
    /// Locks the key against a takeover, if the token is current and not expired.
    pub fn lock_held(kind: &str, key: &str, token: i64, now: Moment) -> bool = [Statement]
        "SELECT FROM claims.expiring_claims WHERE kind = :kind AND key = :key AND token = :token AND expires_at > :now
            FOR KEY SHARE SKIP LOCKED";
    /// Returns whether the token is current and not expired in the committed state.
    pub fn is_held(kind: &str, key: &str, token: i64, now: Moment) -> bool = [Latest]
        "SELECT FROM claims.expiring_claims WHERE kind = :kind AND key = :key AND token = :token AND expires_at > :now";
}
