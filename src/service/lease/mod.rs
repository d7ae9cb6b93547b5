//! The lease: begin, commit, rollback. Each SQL function here parses and authorizes; the steps are in the modules.

mod acquire;
mod begin;
mod explain;
mod key;
mod outcome;
mod settle;
mod settle_many;

pub use acquire::IN_THE_WAY;
