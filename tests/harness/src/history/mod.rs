//! The history of every bucket as its clients know it, and the judge of that history.
//!
//! Clients record events (`event`): a lease was begun, settled, seen, or its answer was lost, each with the window of
//! time in which it took effect. `tenure` merges all events of a lease into one statement about its buckets. `chain`
//! checks for each bucket whether these statements fit together: one lease at a time, a create only if the bucket is
//! free, a destroy only of the cell's own claim. `judge` combines the three, and compares the end with the state of the
//! server. `feed` judges the history in the server's own change feed.

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
