//! Errors of reading.

use uuid::Uuid;

use crate::kernel::error::errors;

errors! {
    /// The reason why a call cannot see what it is to see.
    pub enum ReadError {
        /// The transaction's snapshot does not show how the lease ended, and never will.
        NotInSnapshot { lease: Uuid } => ERRCODE_ACTIVE_SQL_TRANSACTION: "lease {lease} has not ended in this transaction's snapshot",
            detail "Under REPEATABLE READ and SERIALIZABLE waiting does not change what a transaction sees.",
            hint "Call read_after() under READ COMMITTED, or before the transaction.";
    }
}
