//! What administrators call: types, cells, and who may do what.

mod cells;
mod grants;
mod types;
mod version;
