//! Notices and warnings.

use claims_model::lookalike::BesideReserved;
use claims_model::problem::shortened;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode as Code, function_name};
use uuid::Uuid;

/// The largest number of leases, or names, in one warning.
const NAMED: usize = 100;

/// Warns the client and the log about orphans.
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

/// Warns the client and the log about leases that the service could not settle.
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

/// Warns the client and the log that a cell may still begin leases while its claims are released.
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

/// Notifies the client that a server is already a service without being added.
pub fn notice_of_own_wrapper(server: &str) {
    ErrorReport::new(
        Code::ERRCODE_SUCCESSFUL_COMPLETION,
        format!("foreign server \"{server}\" is a service of claims already"),
        function_name!(),
    )
    .set_detail("Its foreign-data wrapper is claims_service.")
    .report(PgLogLevel::NOTICE);
}

/// Notifies the client of reserved names that look like existing claims.
pub fn notice_of_look_alikes(beside: &[BesideReserved]) {
    let Some(first) = beside.first() else { return };
    let message = match beside.len() {
        1 => "1 reserved name looks like a name that is claimed".to_owned(),
        count => format!("{count} reserved names look like names that are claimed"),
    };
    let line = |BesideReserved { reserved, claim, cell_id }: &BesideReserved| {
        format!("\"{}\" looks like \"{}\" of cell {cell_id}.", shortened(reserved), shortened(claim))
    };
    let detail = match beside.len() {
        1 => line(first),
        count if count <= NAMED => beside.iter().map(line).collect::<Vec<_>>().join(" "),
        count => format!(
            "The first {NAMED} of {count}: {}",
            beside.iter().take(NAMED).map(line).collect::<Vec<_>>().join(" ")
        ),
    };
    ErrorReport::new(Code::ERRCODE_SUCCESSFUL_COMPLETION, message, function_name!())
        .set_detail(detail)
        .set_hint("The cells keep what they have claimed. Nobody can claim another name that looks like these.")
        .report(PgLogLevel::NOTICE);
}

/// Notifies the client of the progress of `distribute`, before each table.
pub fn notice_of_distributing(table: &str, number: usize, of: usize, size: &str) {
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
