//! Recovery of leases that nobody finished: what becomes of each (`judge_leases`), and one pass over all (`reconcile`).

pub mod ground;
pub mod judge;
pub mod left;
pub mod reconcile;
