//! Statements on the extension's tables in a cell's database, and on the cell's own tables.

pub mod attributes;
pub mod authority;
pub mod availability;
pub mod claimed_row;
mod declarations;
pub mod declared;
pub mod epochs;
pub mod estimate;
pub mod expected;
pub mod keys;
pub mod observations;
pub mod passes;
pub mod positions;
pub mod routes;
pub mod search_index;
pub mod servers;
pub mod skipped_destroys;
pub mod tracked;
pub mod unfit_tables;
pub mod writers;
