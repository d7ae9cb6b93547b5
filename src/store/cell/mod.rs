//! Statements on what a cell's own database keeps, and on the cell's own tables.

pub mod attributes;
pub mod concessions;
pub mod declared;
pub mod epochs;
mod event_triggers;
pub mod expected;
pub mod explain;
pub mod keys;
pub mod orphans;
pub mod passes;
pub mod positions;
pub mod servers;
pub mod tracked;
pub mod triggers;
