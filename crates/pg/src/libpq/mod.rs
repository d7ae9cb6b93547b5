//! Connections to other servers through libpq. They are non-blocking and wait on the latch of this process, like
//! PostgreSQL's own clients inside the server.
//!
//! The other server is not trusted. Whatever it sends, a wait ends at its deadline and obeys cancels and shutdowns, the
//! memory of the process stays bounded, and an answer is either as expected or an error ([`ExpectedRows`]). Connections are
//! made in threads of their own ([`attempt`]), because libpq does not return while it looks up host names and computes
//! as many iterations of SCRAM as the other server asks for.

mod attempt;
mod bindings;
mod connection;
mod expected;
mod link;
mod memory;
mod mismatch;
mod opening;
mod options;
mod result;

pub use expected::ExpectedRows;
pub use link::{Command, Link, Reply, Trouble};
pub use mismatch::Mismatch;
pub use options::known_options;
pub use result::{AnswerRow, RemoteError};
