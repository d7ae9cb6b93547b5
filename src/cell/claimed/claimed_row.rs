//! Rows that need a claim, and the locks with which they are read.

use pg::query::record;

record! {
    /// A row that needs a claim.
    pub struct ClaimedRow {
        pub source_id: Option<String>,
        pub value: String,
        pub subject_id: Option<String>,
    }
}

/// The row locks that a query takes until the (sub)transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareLock {
    None,
    /// FOR SHARE SKIP LOCKED: nobody changes or deletes the rows. Rows that another transaction is changing are skipped.
    Share,
    /// FOR SHARE NOWAIT: a row that another transaction has locked is an error (55P03).
    ShareOrError,
}
