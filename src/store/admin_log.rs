//! Statements on `claims.admin_log`, the log of administrative actions.

use serde_json::json;
use uuid::Uuid;

use pg::clock::Moment;
use pg::jsonb::JsonText;
use pg::spi::{Connection, View};
use pg::statement::shared_statement;
use pg::uuid::pg_uuid;

shared_statement! {
    RECORD(UUIDOID, TEXTOID, TEXTOID, TEXTOID, JSONBOID, TEXTOID, JSONBOID) =
        "INSERT INTO claims.admin_log (id, session_role, role, action, arguments, reason, counts)
         VALUES ($1, $2::name, $3::name, $4, $5, $6, $7)";
    /// Counts the actions named $2 since id $1 whose arguments contain $3. Ids are ordered by time.
    SINCE(UUIDOID, TEXTOID, JSONBOID) =
        "SELECT count(*) FROM claims.admin_log l WHERE l.id >= $1 AND l.action = $2 AND l.arguments @> $3";
    /// Deletes up to $3 entries from $2 or earlier. Their ids are below $1.
    PURGE(UUIDOID, TIMESTAMPTZOID, INT8OID) =
        "WITH old AS MATERIALIZED (
             SELECT l.id FROM claims.admin_log l WHERE l.id < $1 AND l.at <= $2 ORDER BY l.id LIMIT $3 FOR UPDATE SKIP LOCKED)
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
    let values = [pg_uuid(Uuid::from_u128(since)).into(), action.into(), arguments.into()];
    connection.run(&SINCE, View::Latest, values).first(|row| row.must(1)).unwrap_or_default()
}

/// Inserts an entry. Does not wait for other transactions.
pub fn record(connection: &Connection, entry: &AdminLogEntry) {
    let AdminLogEntry { session_role, role, action, arguments, reason, counts } = entry;
    connection.run(
        &RECORD,
        View::Statement,
        [
            pg_uuid(Uuid::now_v7()).into(),
            session_role.as_str().into(),
            role.as_str().into(),
            (*action).into(),
            JsonText(arguments.clone()).into(),
            reason.clone().into(),
            counts.clone().map(JsonText).into(),
        ],
    );
}

/// Deletes at most `limit` entries from `before` or earlier, oldest first. Returns their number.
pub fn purge(connection: &Connection, before: Moment, limit: i64) -> usize {
    // The first 48 bits of a UUIDv7 are its creation time in milliseconds.
    let milliseconds = u128::try_from(before.unix_ms().saturating_add(CLOCK_STEP_MS)).unwrap_or(0);
    let below = pg_uuid(Uuid::from_u128((milliseconds & ((1 << 48) - 1)) << 80));
    connection.run(&PURGE, View::Statement, [below.into(), before.into(), limit.into()]).count()
}
