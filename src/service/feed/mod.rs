//! The change feed. With `claims.change_feed` on, each change of a claim's owner is recorded in its own transaction ([`record`]).
//! Readers get it once no change can come before it any more ([`list`]). docs/internals/history.md describes the order and the
//! locks.

pub mod errors;
mod history;
mod list;
mod local;
mod page;
mod purge;
mod tables;
mod tell;

pub use self::tables::*;

pub use purge::drop_old;
pub use tell::{is_on, notify_readers, tell, tell_ended, tell_freed};

::pgrx::extension_sql_file!("../../../sql/install/service/changes.sql", name = "changes", requires = ["admin"]);
::pgrx::extension_sql_file!(
    "../../../sql/install/service/feed_holder.sql",
    name = "feed_holder",
    requires = ["changes"]
);
