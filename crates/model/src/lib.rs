//! The rules of `claims` that do not use PostgreSQL: the form of a batch, its normalized form, the precedence of
//! conflicts, cursors. The extension supplies the tokens and reads the tables.
#![forbid(unsafe_code)]

pub mod attribution;
pub mod backoff;
pub mod batch;
pub mod breaker;
pub mod capture;
mod captured;
pub mod claim;
pub mod conflict;
pub mod cursor;
pub mod digest;
pub mod due;
pub mod enforcement;
pub mod epoch;
pub mod erasure;
pub mod feed;
pub mod hash;
pub mod history;
mod holders;
pub mod id;
pub mod ids;
pub mod json;
pub mod judge;
pub mod lease_group;
pub mod limits;
pub mod lookalike;
pub mod low_water;
pub mod mode;
pub mod near;
pub mod nesting;
mod net;
pub mod observed;
pub mod origin;
pub mod outgoing;
pub mod outgoing_batch;
mod outgoing_uniques;
pub mod overtaking;
pub mod payload;
pub mod place;
pub mod places;
pub mod problem;
pub mod quarantine;
pub mod queue;
pub mod rate;
pub mod reader;
mod record_json;
mod refusal;
pub mod refused;
pub mod renaming;
pub mod routes;
pub mod source_key;
pub mod source_range;
pub mod transfer;
pub mod turns;
pub mod types;
pub mod utc;
pub mod verify;
pub mod waiting;

/// The version of the protocol between cells and service. It grows when one of them would not understand the other.
pub const PROTOCOL: i32 = 1;

pub use batch::{Batch, StoredBatch};
pub use claim::{Bucket, Claim, Destroy, NOBODY, Op, Reference};
pub use claims_names::{Confusables, NameProblem, Profile, UNICODE_VERSION};
pub use conflict::{Conflict, Reason};
pub use problem::{BadInput, Problem};
pub use types::{Kind, Naming, TypeTable, Types};
