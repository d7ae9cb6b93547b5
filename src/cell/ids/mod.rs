//! Ids for a cell's sequences: ranges that the service leases, of which no other cell gets an id.

pub mod declare;
mod errors;
pub mod refill;

::pgrx::extension_sql_file!(
    "../../../sql/install/cell/ids.sql",
    name = "cell_ids",
    requires = ["admin", cell::ids::declare::use_id_space, cell::ids::refill::refill_ids]
);
