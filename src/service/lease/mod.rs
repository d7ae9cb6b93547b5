//! The lease: begin, commit, rollback. Each SQL function here parses and authorizes; the steps are in the modules.

mod acquire;
mod attempt;
mod begin;
mod end;
mod key;
mod obstacles;
mod outcome;
mod repeat;
mod request;
mod settle;
mod settle_many;
