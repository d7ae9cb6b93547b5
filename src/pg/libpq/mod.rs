//! Connections to other servers through libpq: non-blocking, waiting on this process' latch, as Postgres' own clients
//! inside the server do it.

mod bindings;
mod link;
mod options;
mod result;

pub use link::{Command, Link, Reply, Trouble};
pub use options::known_options;
pub use result::RemoteError;
