//! Everything unsafe, one small safe wrapper each. Nothing outside of this module talks to Postgres' C side.
#![allow(unsafe_code)]

pub mod activity;
pub mod cache;
pub mod clock;
pub mod cursor;
pub mod in_flight;
pub mod jsonb;
pub mod owner;
pub mod roles;
pub mod scoped;
pub mod settings;
pub mod spi;
pub mod subtransaction;
pub mod wait;
pub mod xact;
pub mod xid8;
