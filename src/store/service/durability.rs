//! A statement that makes a transaction one that standbys wait for.

use crate::pg::spi::{Connection, View};
use crate::pg::statement::statement;

statement! {
    /// Writes into the log, and nothing else.
    LOG() = "SELECT pg_logical_emit_message(true, 'claims', '')";
}

/// COMMIT waits for standbys only where the transaction has written: an answer of what was committed before needs this, because
/// that commit may not have reached them.
pub fn write_something(connection: &Connection) {
    connection.run(&LOG, View::Statement, []);
}
