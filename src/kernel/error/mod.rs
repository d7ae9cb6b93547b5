//! Errors: what a call raises, and the macros by which each slice declares its own, in its file `errors`. Only these files contain
//! SQLSTATEs, messages, DETAIL and HINT.

mod access;
mod admin_action;
mod bad_input;
mod claims_error;
pub mod declare;
mod direct_call;
mod tables;
pub mod text;
mod version;
pub use access::AccessError;
pub use admin_action::log_admin_action;
pub use bad_input::sentence;
pub use claims_error::{ClaimsError, or_raise, raise};
pub(crate) use declare::{errors, text};
pub use direct_call::{refuse_direct_call_of_event_trigger, refuse_direct_call_of_trigger};
pub use tables::{TablesError, known_or_raised, notice_of_altered_table, raise_altered};
pub use text::Text;
pub use version::{VersionError, raise_updated};
