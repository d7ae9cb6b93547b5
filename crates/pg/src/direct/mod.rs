//! Reads and writes rows of the extension's tables through the table and index access methods. With statements a begin and commit of one claim
//! would take a third to a half longer in the server.
//!
//! A statement finds out for each execution what a table may have: triggers, constraints, row security, indexes on
//! expressions. Here this is found out once, and again when the table's relcache entry changes: [`Layout`] says how the
//! extension has created a table, and a table that differs in anything is not opened. The caller then uses statements,
//! which respect whatever an administrator has added.
//!
//! Whatever depends on the transaction instead of the table is checked for each call: read-only transactions, parallel
//! mode, replica identity. Predicate locks of serializable transactions, replica identity in WAL, TOAST and statistics
//! are the task of the access methods, so they are as with statements.
//!
//! [`Table::insert`] waits for a transaction that is inserting the same key, and raises an error if it commits. Nothing else here waits
//! for another transaction, except for locks of whole tables, which a caller takes before without waiting if it must not wait.

mod indexes;
mod layout;
mod scan;
mod sequence;
mod table;
mod write;

pub use self::layout::{ColumnLayout, Identity, IndexKey, IndexLayout, Layout, difference};
pub use self::scan::{Bound, KeyScan, Position, Reading, Scans, TooNew};
pub use self::table::{Row, Table, open, read};
pub use self::write::{Changed, Conflict, RowLock};
