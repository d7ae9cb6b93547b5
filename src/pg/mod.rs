//! Everything unsafe, one small safe wrapper each. Nothing outside of this module talks to Postgres' C side.
#![allow(unsafe_code)]

pub mod activity;
pub mod advisory;
pub mod cache;
pub mod clock;
pub mod cursor;
pub mod event_trigger;
pub mod expression;
pub mod in_flight;
pub mod index;
pub mod jsonb;
pub mod lock;
pub mod owner;
pub mod prepared;
pub mod roles;
pub mod settings;
pub mod spi;
pub mod statement;
pub mod subtransaction;
pub mod transaction_end;
pub mod trigger;
pub mod uuid;
pub mod wait;
pub mod xact;
pub mod xid8;
