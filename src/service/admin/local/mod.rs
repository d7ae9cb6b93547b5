//! Cells, grants and claims of cells that are gone, where the tables are in this database.

mod release;
mod roles;
