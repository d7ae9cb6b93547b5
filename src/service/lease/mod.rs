//! Leases: begin, commit, rollback. The SQL functions parse and authorize; the modules have the steps.

mod acquire;
mod attempt;
mod begin;
mod conflicts;
mod end;
pub mod errors;
mod first;
mod force;
pub mod here;
mod key;
pub mod limit;
mod lookalikes;
mod now;
mod outcome;
mod payload;
mod repeat;
mod request;
mod settle;
mod settle_many;
mod wait;
