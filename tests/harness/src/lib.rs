//! Clients of a running claims database.
//!
//! - `distant` is a relay behind which a server is far away.
//! - `fleet` saves in a cell by hundreds of sessions at the same time.
//! - `saves` measures saves in a cell.
//! - `demo` shows two cells in a terminal, as a story.
//! - `stress` tries to give a bucket two owners at a time.
//! - `campaign` tries the same from two cells' databases, while clusters and network fail.
//! - `failover` tries it while the service's primary dies and a standby takes over.
//! - `forge` is a service that lies to its cells.
//!
//! All but `distant` connect as ordinary clients with ordinary roles.

pub mod batch;
pub mod campaign;
pub mod cell;
pub mod damage;
pub mod demo;
pub mod distance;
pub mod failover;
pub mod failure;
pub mod fleet;
pub mod forge;
pub mod history;
pub mod saves;
pub mod server;
pub mod stress;
