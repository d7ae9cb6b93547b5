//! Notices and warnings.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode as Code, function_name};
use uuid::Uuid;

/// Leases that one warning names.
const NAMED: usize = 100;

/// Warns the client, and the log, of orphans.
pub fn warn_of_orphans(cell_id: i64, orphans: &[Uuid]) {
    let leases = if orphans.len() == 1 { "1 lease".to_owned() } else { format!("{} leases", orphans.len()) };
    let message = format!("{leases} of cell {cell_id} committed here without claims at the service");
    let detail =
        format!("{} The service has rolled back, or does not know: {}.", "Data was saved under them.", named(orphans));
    ErrorReport::new(Code::ERRCODE_WARNING, message, function_name!())
        .set_detail(detail)
        .set_hint("Claim what was saved again by verifying this cell's records, then drop these leases with claims.forget_leases().")
        .report(PgLogLevel::WARNING);
}

/// Warns the client, and the log, of leases that the service could not settle.
pub fn warn_of_failures(cell_id: i64, failures: &[(Uuid, String)]) {
    let Some((_, first)) = failures.first() else { return };
    let leases = if failures.len() == 1 { "1 lease".to_owned() } else { format!("{} leases", failures.len()) };
    let uuids: Vec<_> = failures.iter().map(|(lease, _)| *lease).collect();
    ErrorReport::new(
        Code::ERRCODE_WARNING,
        format!("{leases} of cell {cell_id} could not be settled at the service"),
        function_name!(),
    )
    .set_detail(format!("{}. The first error: {first}.", named(&uuids)))
    .set_hint("They stay as they are; the next pass tries again.")
    .report(PgLogLevel::WARNING);
}

/// Tells the client, and the log, that the names of a cell are set free which may still work with them.
pub fn warn_of_open_cell(cell_id: i64) {
    ErrorReport::new(
        Code::ERRCODE_WARNING,
        format!("cell {cell_id} may still begin leases while its claims are released"),
        function_name!(),
    )
    .set_detail("Names that it goes on using can get another owner.")
    .set_hint("Shut it out first: SELECT claims.set_mode('read_only', 'why', its number).")
    .report(PgLogLevel::WARNING);
}

/// Notifies the client that an unknown lease was fenced.
pub fn notice_of_fence(lease: Uuid) {
    ErrorReport::new(
        Code::ERRCODE_SUCCESSFUL_COMPLETION,
        format!("nothing was outstanding under lease {lease}"),
        function_name!(),
    )
    .set_detail("It is fenced: no begin_update can use it any more.")
    .set_hint("If there is a lease to be rolled back, look for its uuid with claims.list_leases().")
    .report(PgLogLevel::NOTICE);
}

/// Tells the client how far `distribute` is, before each table.
pub fn notice_of_spreading(table: &str, number: usize, of: usize, size: &str) {
    ErrorReport::new(
        Code::ERRCODE_SUCCESSFUL_COMPLETION,
        format!("spreading table claims.{table} ({number} of {of}, {size})"),
        function_name!(),
    )
    .report(PgLogLevel::NOTICE);
}

fn named(leases: &[Uuid]) -> String {
    let list: Vec<_> = leases.iter().take(NAMED).map(Uuid::to_string).collect();
    let more = if leases.len() > NAMED { ", ..." } else { "" };
    format!("{}{more}", list.join(", "))
}
