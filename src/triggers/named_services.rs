//! Statements on the foreign servers that were named as services.

use super::event_triggers;
use pg::foreign;
use pg::query::query;
use pg::spi::Connection;

query! {
    fn insert(server: &str, reason: Option<&str>, role: &str) -> bool = [Statement]
        "INSERT INTO claims.named_services (server_name, reason, role) VALUES (:server::name, :reason, :role::name)
         ON CONFLICT (server_name) DO NOTHING";
    fn delete(server: &str) -> bool = [Statement] "DELETE FROM claims.named_services WHERE server_name = :server::name";
    /// Removes servers that were dropped. Returns whether any of them was named.
    pub fn forget(servers: &[String]) -> bool = [Statement] "DELETE FROM claims.named_services WHERE server_name::text = ANY (:servers)";
    /// Returns the settings that name a server, as texts for messages.
    pub fn users(server: &str) -> Vec<String> = [Statement]
        "SELECT 'automatic mode' FROM claims.automatic_service a WHERE a.service = :server
         UNION SELECT 'automatic mode' FROM claims.automatic_types t WHERE t.service = :server
         UNION ALL SELECT format('the worker for cell %s', a.cell_id) FROM claims.attended_cells a WHERE a.service = :server
          ORDER BY 1";
}

/// Names a server as a service. Returns whether it is new. Waits for other transactions that name or remove a service.
pub fn add(connection: &Connection, server: &str, reason: Option<&str>, role: &str) -> bool {
    // The event trigger deletes the entry when the server is dropped: a later server of this name is not trusted.
    event_triggers::add(connection);
    let is_new = insert(connection, server, reason, role);
    foreign::announce_change();
    is_new
}

/// Removes a server from the named services; all sessions close their connections to it. Returns whether it was named.
pub fn remove(connection: &Connection, server: &str) -> bool {
    let was_named = delete(connection, server);
    foreign::announce_change();
    event_triggers::drop_unneeded(connection);
    was_named
}
