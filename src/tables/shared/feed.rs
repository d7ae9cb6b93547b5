//! Statements on the change feed that work for local and distributed tables.

use pg::spi::{Connection, View};
use pg::statement::shared_statement;

shared_statement! {
    /// Notifies the listeners on this node.
    NOTIFY() = "SELECT pg_notify('claims_changes', '')";
}

/// Notifies the listeners. PostgreSQL sends equal notifications of a transaction only once.
pub fn notify(connection: &Connection) {
    connection.run(&NOTIFY, View::Statement, []);
}
