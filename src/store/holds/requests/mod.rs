//! Statements on requests.
//!
//! The conditions are written so that only the intended index matches. By primary key (`is_row`) no statement tests a
//! status, which would offer the planner the partial indexes. coalesce(), `+ 0` and `|| ''` exclude a comparison from
//! an index.

mod creates;
mod hands;
mod history;
mod search;

pub use creates::{
    close_create, create_status, enqueue, has_blocked, lock_create, mark_create, marked_creates, notify, unblock,
};
pub use hands::{Holds, InHand, extend, forget_lost_holds, hold, holds, lock_held, record_lost_holds, renew, settle};
pub use history::{has_more, purge, purge_lost_holds, purge_old, retry};
pub use search::{
    Cached, Candidate, Horizon, Outstanding, entity_state, expired, find, horizon, lock_entity, payloads,
};
