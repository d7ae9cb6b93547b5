//! Statements on requests.
//!
//! The conditions are written so that only the intended index matches. By primary key (`is_row`) no statement tests a
//! status, which would offer the planner the partial indexes. coalesce(), `+ 0` and `|| ''` exclude a comparison from
//! an index.

mod creates;
mod hands;
mod history;
mod search;

pub use creates::*;
pub use hands::*;
pub use history::*;
pub use search::*;
