//! Which rows of this database call for which claims: the declarations of claimed columns, and the rows that they cover.

pub mod attributes;
pub mod authority;
mod claimed_row;
mod declarations;
pub mod declared;
mod estimate;
pub mod expected;
pub mod keys;
pub mod search_index;
pub mod unique_members;
pub mod unique_tables;
