//! Statements on the extension's tables in a cell's database, and on the cell's own tables.

pub mod epochs;
pub mod observations;
pub mod passes;
pub mod positions;
pub mod servers;
pub mod skipped_destroys;
pub mod tracked;
pub mod unfit_tables;
pub mod writers;
