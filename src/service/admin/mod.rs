//! What administrators call: types, cells, who may do what, and what cells may do at the moment.

mod cells;
mod distribute;
mod grants;
mod limits;
mod modes;
mod names;
mod profile;
mod release;
mod reserve;
mod types;
mod version;
