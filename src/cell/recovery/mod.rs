//! Recovery of outstanding leases: the verdict on each (`judge_leases`), and one pass over all (`reconcile`).

mod errors;
mod explain;
pub mod judge;
mod orphans;
pub mod reconcile;
pub mod remaining;
mod remaining_leases;
mod traces;

::pgrx::extension_sql_file!("../../../sql/install/cell/orphans.sql", name = "orphans", requires = ["admin", "cell"]);
