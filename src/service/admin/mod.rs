//! Administration: types, cells, grants, modes and limits.

mod cells;
mod distribute;
mod errors;
mod grants;
mod limits;
mod modes;
mod names;
mod profile;
mod release;
mod reserve;
mod types;
mod version;
