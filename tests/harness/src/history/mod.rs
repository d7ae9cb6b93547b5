//! The history of every bucket as its clients know it, and the judge of that history.
//!
//! Clients write down events (`event`): a lease begun, settled, seen, or lost sight of, each with the
//! window of time in which it took effect. `tenure` merges all events of a lease into one statement about
//! the buckets it held. `chain` asks, for each bucket, whether those statements fit together: one lease at
//! a time, a create only where the bucket was free, a destroy only of the cell's own claim. `judge` puts
//! the three together and compares the end of the story with what the server shows. `feed` judges the history that the server's own
//! change feed tells.

pub mod chain;
pub mod event;
pub mod feed;
pub mod judge;
pub mod tenure;

#[cfg(test)]
mod tests;

pub use event::{Deed, Event, Outcome, State, Window};
pub use feed::{FeedChange, judge_feed};
pub use judge::{Final, judge};
