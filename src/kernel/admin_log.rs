//! Statements on `claims.admin_log`, the log of administrative actions.

use serde_json::json;
use uuid::Uuid;

use pg::clock::Moment;
use pg::jsonb::JsonText;
use pg::query::query;
use pg::spi::Connection;

query! {
    fn insert(id: Uuid, session_role: &str, role: &str, action: &str, arguments: JsonText, reason: Option<&str>, counts: Option<JsonText>)
        = [Statement Anywhere]
        "INSERT INTO claims.admin_log (id, session_role, role, action, arguments, reason, counts)
         VALUES (:id, :session_role::name, :role::name, :action, :arguments, :reason, :counts)";
    /// Counts the actions of a name since an id whose arguments contain these. Ids are ordered by time.
    fn count_since(since: Uuid, action: &str, arguments: JsonText) -> Option<i64> = [Latest Anywhere]
        "SELECT count(*) FROM claims.admin_log l WHERE l.id >= :since AND l.action = :action AND l.arguments @> :arguments";
    /// Deletes up to `most` entries from `before` or earlier, oldest first. Their ids are below `below`.
    fn delete(below: Uuid, before: Moment, most: i64) -> usize = [Statement Anywhere]
        "WITH old AS MATERIALIZED (
             SELECT l.id FROM claims.admin_log l WHERE l.id < :below AND l.at <= :before ORDER BY l.id LIMIT :most FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.admin_log l USING old o WHERE l.id = o.id";
}

/// How much an id's time may lie after the time in the row, because the clock was set.
const CLOCK_STEP_MS: i64 = 60 * 60 * 1000;
const HOUR_MS: u128 = 60 * 60 * 1000;

/// An entry of the log: one administrative action that was carried out.
pub struct AdminLogEntry {
    pub session_role: String,
    pub role: String,
    pub action: &'static str,
    /// A JSON object.
    pub arguments: String,
    pub reason: Option<String>,
    /// A JSON object; `None` for an action that counts nothing.
    pub counts: Option<String>,
}

/// Returns how many entries of the last hour have this action and this cell as argument.
pub fn actions_of_last_hour(connection: &Connection, action: &'static str, cell_id: i64) -> i64 {
    // The first 48 bits of a UUIDv7 are its creation time in milliseconds.
    let since = ((Uuid::now_v7().as_u128() >> 80) - HOUR_MS) << 80;
    let arguments = JsonText(json!({ "cell_id": cell_id }).to_string());
    count_since(connection, Uuid::from_u128(since), action, arguments).unwrap_or_default()
}

/// Inserts an entry. Does not wait for other transactions.
pub fn record(connection: &Connection, entry: &AdminLogEntry) {
    let AdminLogEntry { session_role, role, action, arguments, reason, counts } = entry;
    let (arguments, counts) = (JsonText(arguments.clone()), counts.clone().map(JsonText));
    insert(connection, Uuid::now_v7(), session_role, role, action, arguments, reason.as_deref(), counts);
}

/// Deletes at most `limit` entries from `before` or earlier, oldest first. Returns their number.
pub fn purge(connection: &Connection, before: Moment, limit: i64) -> usize {
    // The first 48 bits of a UUIDv7 are its creation time in milliseconds.
    let milliseconds = u128::try_from(before.unix_ms().saturating_add(CLOCK_STEP_MS)).unwrap_or(0);
    let below = Uuid::from_u128((milliseconds & ((1 << 48) - 1)) << 80);
    delete(connection, below, before, limit)
}
