//! Everything unsafe, one small safe wrapper each. Nothing outside of this module talks to Postgres' C side.
//!
//! Everywhere else `unsafe` is refused, and that is to mean something: whatever safe code calls here, in whatever order, may
//! end in an error, never in undefined behaviour. So what has to be true is checked here or is in the types:
//! - Memory of Postgres does not leave this module. What goes in and out owns its bytes ([`value`]) or is borrowed for as long
//!   as they are there ([`spi`], [`trigger`]).
//! - A datum is read only as what its descriptor says that it is; an argument is of the type that the plan takes.
//! - After an error of Postgres the code that called goes on only behind the end of a subtransaction ([`subtransaction`]).
//! - What is put in force for a while is put back by `Drop`, or by the (sub)transaction's end.
//! - No destructor calls Postgres while the process ends: what is cached for the session is never dropped ([`cache`]).
#![allow(unsafe_code)]

pub mod activity;
pub mod advisory;
pub mod altered;
pub mod background;
pub mod cache;
pub mod clock;
pub mod cursor;
pub mod event_trigger;
pub mod expression;
pub mod extension;
pub mod foreign;
pub mod gate;
mod image;
pub mod in_flight;
pub mod index;
mod interrupts;
pub mod jsonb;
pub mod libpq;
pub mod lock;
pub mod name;
pub mod owner;
pub mod prepared;
mod retired;
pub mod roles;
pub mod settings;
pub mod shared;
pub mod spi;
mod sql_type;
pub mod sqlstate;
pub mod statement;
pub mod subtransaction;
mod text;
pub mod transaction_end;
pub mod trigger;
mod tuple;
pub mod uuid;
mod value;
pub mod wait;
pub mod xact;
pub mod xid8;
