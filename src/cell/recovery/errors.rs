//! Warnings of recovery.

use pgrx::PgLogLevel;
use uuid::Uuid;

use crate::kernel::error::text;

/// The largest number of leases in one warning.
const NAMED: usize = 100;

/// Warns the client and the log about orphans.
pub fn warn_of_orphans(cell_id: i64, orphans: &[Uuid]) {
    text!(ERRCODE_WARNING: ("{} of cell {cell_id} committed here without claims at the service", counted(orphans.len())),
        detail ("Data was saved under them. The service has rolled back, or does not know: {}.", named(orphans)),
        hint "Claim what was saved again by verifying this cell's records, \
            then drop these leases with claims.forget_leases().")
    .send(PgLogLevel::WARNING);
}

/// Warns the client and the log about leases that the service could not settle.
pub fn warn_of_failures(cell_id: i64, failures: &[(Uuid, String)]) {
    let Some((_, first)) = failures.first() else { return };
    let uuids: Vec<_> = failures.iter().map(|(lease, _)| *lease).collect();
    text!(ERRCODE_WARNING: ("{} of cell {cell_id} could not be settled at the service", counted(failures.len())),
        detail ("{}. The first error: {first}.", named(&uuids)),
        hint "They stay as they are; the next pass tries again.")
    .send(PgLogLevel::WARNING);
}

fn counted(leases: usize) -> String {
    if leases == 1 { "1 lease".to_owned() } else { format!("{leases} leases") }
}

fn named(leases: &[Uuid]) -> String {
    let list: Vec<_> = leases.iter().take(NAMED).map(Uuid::to_string).collect();
    let more = if leases.len() > NAMED { ", ..." } else { "" };
    format!("{}{more}", list.join(", "))
}
