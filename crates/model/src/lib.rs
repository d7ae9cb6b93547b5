//! The rules of `claims` that need no Postgres: what a batch may look like, how it is normalized, which conflict
//! weighs most, what a cursor holds. Data in, data out; the extension brings the tokens and the tables.
#![forbid(unsafe_code)]

pub mod batch;
pub mod breaker;
pub mod capture;
pub mod claim;
pub mod conflict;
pub mod cursor;
pub mod digest;
pub mod epoch;
pub mod feed;
pub mod floor;
pub mod id;
pub mod json;
pub mod judge;
pub mod limits;
pub mod lookalike;
pub mod mode;
pub mod outgoing;
pub mod payload;
pub mod problem;
pub mod rate;
pub mod reader;
pub mod renaming;
pub mod source_key;
pub mod source_range;
pub mod token;
pub mod transfer;
pub mod types;
pub mod verify;

/// What cells and service say to each other: a number that grows when one of them would not understand the other.
pub const PROTOCOL: i32 = 1;

pub use batch::{Batch, StoredBatch};
pub use claim::{Bucket, Claim, Destroy, NOBODY, Op, Reference};
pub use claims_names::{Confusables, NameProblem, Profile, UNICODE_VERSION};
pub use conflict::{Conflict, Reason};
pub use problem::{BadInput, Problem};
pub use types::{Kind, Naming, TypeTable, Types};
