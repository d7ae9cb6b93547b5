//! Clients of a running claims database.
//!
//! `saves` measures what a save in a cell takes; `demo` tells the story of two cells in a terminal, `stress` tries to break the promise that a
//! bucket has one owner at a time, `campaign` tries the same from two cells' databases while clusters and network fail.
//! `failover` tries it while the service's primary dies and a standby takes over.
//! All speak to the server as ordinary clients with ordinary roles.

pub mod batch;
pub mod campaign;
pub mod cell;
pub mod demo;
pub mod failover;
pub mod failure;
pub mod history;
pub mod saves;
pub mod server;
pub mod stress;
