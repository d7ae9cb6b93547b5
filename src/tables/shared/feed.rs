//! Statements on the change feed that work for local and distributed tables.

use pg::query::query;

query! {
    /// Notifies the listeners on this node. PostgreSQL sends equal notifications of a transaction only once.
    pub fn notify() = [Statement Anywhere] "SELECT pg_notify('claims_changes', '')";
}
