//! The lease: begin, commit, rollback. Each SQL function here parses and authorizes; the steps are in the modules.

mod acquire;
mod attempt;
mod begin;
mod end;
mod first;
mod force;
mod key;
mod lookalikes;
mod obstacles;
mod outcome;
mod payload;
mod repeat;
mod request;
mod settle;
mod settle_many;
