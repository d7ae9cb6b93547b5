//! Names of bucket types: the rules by which they are compared, and names that are reserved, kept back, handed over, or left by a cell
//! that is gone.

mod canonical;
mod errors;
mod hand_over;
mod local;
mod profile;
pub mod quarantine;
mod release;
mod reserve;
pub mod statements;
mod tables;

pub use self::tables::*;

::pgrx::extension_sql_file!("../../../sql/install/service/names.sql", name = "names", requires = ["tables"]);
::pgrx::extension_sql_file!(
    "../../../sql/install/service/quarantine.sql",
    name = "quarantine",
    requires = [
        "tables",
        service::names::quarantine::set_quarantine,
        service::names::quarantine::release_quarantine,
        service::names::quarantine::purge_quarantine,
        service::names::hand_over::hand_over
    ]
);
