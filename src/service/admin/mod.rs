//! What administrators call: types, cells, who may do what, and what cells may do at the moment.

mod cells;
mod grants;
mod modes;
mod names;
mod release;
mod types;
mod version;
