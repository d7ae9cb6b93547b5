//! Safe wrappers around everything unsafe. Only this crate calls PostgreSQL's C functions.
//!
//! All other crates deny `unsafe`, and this crate is sound: whatever safe code calls here, in whatever order, may
//! result in an error, never in undefined behavior. Preconditions are checked here or encoded in types:
//! - Memory of PostgreSQL does not leave this crate. Values own their bytes ([`value`]), or are borrowed for as long as
//!   the memory exists ([`spi`], [`trigger`]).
//! - A datum is read only as the type that its descriptor has. An argument has the type that the plan takes.
//! - After an error of PostgreSQL, code continues only after the end of a subtransaction ([`subtransaction`]).
//! - Temporary settings are restored by `Drop`, or at the end of the (sub)transaction.
//! - No destructor calls PostgreSQL while the process exits: session caches are never dropped ([`cache`]).

pub mod activity;
pub mod advisory;
pub mod altered;
pub mod background;
pub mod cache;
pub mod catalog;
pub mod clock;
pub mod compatibility;
mod connections;
pub mod constraints;
pub mod cursor;
pub mod direct;
pub mod error_context;
pub mod event_trigger;
pub mod expression;
pub mod extension;
pub mod foreign;
pub mod hash;
pub mod idle_sockets;
mod image;
pub mod in_flight;
pub mod index;
pub mod interrupts;
pub mod jsonb;
mod jsonb_reader;
pub mod jsonb_writer;
pub mod libpq;
pub mod lock;
pub mod memory;
pub mod name;
mod nesting;
mod numeric;
pub mod owner;
pub mod place;
pub mod prelude;
pub mod prepared;
pub mod prepared_transaction;
pub mod process;
pub mod query;
pub mod replication;
pub mod retired;
pub mod roles;
pub mod row_set;
mod rows;
pub mod session;
pub mod settings;
mod settings_dependence;
pub mod shared;
pub mod snapshot;
pub mod spi;
mod sql_type;
pub mod sqlstate;
pub mod statement;
pub mod stored;
pub mod subtransaction;
pub mod table;
mod text;
pub mod transaction_end;
pub mod trigger;
pub mod trigger_function;
mod tuple;
pub mod uuid;
mod value;
pub mod wait;
pub mod xact;
pub mod xid8;
