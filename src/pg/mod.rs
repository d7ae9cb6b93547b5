//! Everything unsafe, one small safe wrapper each. Nothing outside of this module talks to Postgres' C side.
#![allow(unsafe_code)]

pub mod activity;
pub mod advisory;
pub mod cache;
pub mod clock;
pub mod cursor;
pub mod event_trigger;
pub mod expression;
pub mod extension;
pub mod gate;
pub mod in_flight;
pub mod index;
mod interrupts;
pub mod jsonb;
pub mod lock;
pub mod name;
pub mod owner;
pub mod prepared;
mod retired;
pub mod roles;
pub mod settings;
pub mod spi;
pub mod statement;
pub mod subtransaction;
pub mod transaction_end;
pub mod trigger;
mod tuple;
pub mod uuid;
pub mod wait;
pub mod xact;
pub mod xid8;
