//! Statements on the foreign servers that were named as services.

use super::event_triggers;
use pg::foreign;
use pg::spi::{Connection, View};
use pg::statement::statement;

statement! {
    ADD(TEXTOID, TEXTOID, TEXTOID) =
        "INSERT INTO claims.named_services (server_name, reason, role) VALUES ($1::name, $2, $3::name) ON CONFLICT (server_name) DO NOTHING";
    REMOVE(TEXTOID) = "DELETE FROM claims.named_services WHERE server_name = $1::name";
    FORGET(TEXTARRAYOID) = "DELETE FROM claims.named_services WHERE server_name::text = ANY ($1)";
    /// Returns the settings that name server $1.
    USERS(TEXTOID) =
        "SELECT 'automatic mode' FROM claims.automatic_service a WHERE a.service = $1
         UNION SELECT 'automatic mode' FROM claims.automatic_types t WHERE t.service = $1
         UNION ALL SELECT format('the worker for cell %s', a.cell_id) FROM claims.attended_cells a WHERE a.service = $1
          ORDER BY 1";
}

/// Names a server as a service. Returns whether it is new. Waits for other transactions that name or remove a service.
pub fn add(connection: &Connection, server: &str, reason: Option<&str>, role: &str) -> bool {
    // The event trigger deletes the entry when the server is dropped: a later server of this name is not trusted.
    event_triggers::add(connection);
    let values = [server.into(), reason.map(str::to_owned).into(), role.into()];
    let is_new = connection.run(&ADD, View::Statement, values).count() == 1;
    foreign::announce_change();
    is_new
}

/// Removes a server from the named services; all sessions close their connections to it. Returns whether it was named.
pub fn remove(connection: &Connection, server: &str) -> bool {
    let was_named = connection.run(&REMOVE, View::Statement, [server.into()]).count() == 1;
    foreign::announce_change();
    event_triggers::drop_unneeded(connection);
    was_named
}

/// Removes servers that were dropped. Returns whether any of them was named.
pub fn forget(connection: &Connection, servers: &[String]) -> bool {
    connection.run(&FORGET, View::Statement, [servers.to_vec().into()]).count() > 0
}

/// Returns the settings that name a server, as texts for messages.
pub fn users(connection: &Connection, server: &str) -> Vec<String> {
    connection.run(&USERS, View::Statement, [server.into()]).map(|row| row.must(1))
}
