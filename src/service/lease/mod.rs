//! Leases: begin, commit, rollback. The SQL functions parse and authorize; the modules have the steps.

mod acquire;
mod attempt;
mod begin;
mod conflicts;
pub mod current_transaction;
mod end;
pub mod errors;
mod first;
mod force;
mod key;
pub mod limit;
mod lookalikes;
mod one_step;
mod outcome;
mod payload;
mod repeat;
mod request;
mod settle;
mod settle_many;
mod wait;
