//! Recovery of leases that were left outstanding: the verdict on each (`judge_leases`), and one pass over all (`reconcile`).

pub mod ground;
pub mod judge;
pub mod left;
pub mod reconcile;
