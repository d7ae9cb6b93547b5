//! Statements on requests.
//!
//! Conditions are written so that only the right index matches: by primary key (`is_row` in the parent module) no
//! statement asks for a status, which would offer the planner the partial indexes; coalesce(), `+ 0` and `|| ''` keep a
//! comparison out of an index.

mod creates;
mod hands;
mod history;
mod search;

pub use creates::{
    close_create, create_status, enqueue, has_blocked, lock_create, mark_create, marked_creates, notify, unblock,
};
pub use hands::{Holds, InHand, begin_anew, extend, hold, holds, leave_word, lock_held, renew, settle};
pub use history::{has_more, purge, purge_words, retry};
pub use search::{Candidate, Horizon, Known, Outstanding, expired, find, horizon, lock_entity, payloads, standing};
