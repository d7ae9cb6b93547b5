//! Names of bucket types: the rules by which they are compared, and reserved names.

pub mod hand_over;
mod local;
pub mod statements;
mod tables;

pub use self::tables::*;
