//! The change feed: with `claims.change_feed` on, each change of an owner's claim is written down in its own transaction ([`tell`]),
//! and readers get it once nothing can come before it any more ([`list`]). docs/service/change-feed.md has the order and the locks.

mod history;
mod list;
mod page;
mod places;
mod purge;
mod several;
mod tell;

pub use purge::drop_old;
pub use tell::{is_on, tell, tell_freed, tell_settled, told};
