//! Notices and warnings.

use claims_model::lookalike::BesideReserved;
use claims_model::problem::shortened;
use pgrx::PgLogLevel;
use uuid::Uuid;

use super::bad_input::sentence;
use super::declare::text;

/// The largest number of leases, or names, in one warning.
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

/// Tells the client that rows which were saved before a column is enforced may have no claims.
pub fn notice_of_enforcing(source_type: &str) {
    text!(ERRCODE_SUCCESSFUL_COMPLETION: "rows of source type \"{source_type}\" that were saved before may have no claims",
        detail "Another cell can save a name of this one that has no claim.",
        hint "After COMMIT correct them with claims.verify(), until claims.unclaimed_rows() counts none.")
    .send(PgLogLevel::NOTICE);
}

/// Warns the client and the log that a cell may still begin leases while its claims are released.
pub fn warn_of_open_cell(cell_id: i64) {
    text!(ERRCODE_WARNING: "cell {cell_id} may still begin leases while its claims are released",
        detail "Names that it continues to use can get another owner.",
        hint "Shut it out first: SELECT claims.set_mode('read_only', 'why', its number).")
    .send(PgLogLevel::WARNING);
}

pub fn notice_of_fence(lease: Uuid) {
    text!(ERRCODE_SUCCESSFUL_COMPLETION: "nothing was outstanding under lease {lease}",
        detail "It is fenced: no begin_update can use it any more.",
        hint "If there is a lease to be rolled back, look for its uuid with claims.list_leases().")
    .send(PgLogLevel::NOTICE);
}

/// Notifies the client that a server is already a service without being added.
pub fn notice_of_own_wrapper(server: &str) {
    text!(ERRCODE_SUCCESSFUL_COMPLETION: "foreign server \"{server}\" is a service of claims already",
        detail "Its foreign-data wrapper is claims_service.")
    .send(PgLogLevel::NOTICE);
}

/// Notifies the client that calls use statements for a table because it was altered.
pub fn notice_of_altered_table(table: &str, difference: &str) {
    text!(ERRCODE_SUCCESSFUL_COMPLETION: "table claims.{table} is not as the extension has created it",
        detail ("{} Calls read and write it with statements, which take longer.", sentence(&difference)),
        hint "claims.check() lists such tables.")
    .send(PgLogLevel::NOTICE);
}

/// Notifies the client of reserved names that look like existing claims.
pub fn notice_of_look_alikes(beside: &[BesideReserved]) {
    let (names, first) = match beside.len() {
        0 => return,
        1 => ("name looks like a name that is", String::new()),
        count if count <= NAMED => ("names look like names that are", String::new()),
        count => ("names look like names that are", format!("The first {NAMED} of {count}: ")),
    };
    let line = |BesideReserved { reserved, claim, cell_id }: &BesideReserved| {
        format!("\"{}\" looks like \"{}\" of cell {cell_id}.", shortened(reserved), shortened(claim))
    };
    text!(ERRCODE_SUCCESSFUL_COMPLETION: ("{} reserved {names} claimed", beside.len()),
        detail ("{first}{}", beside.iter().take(NAMED).map(line).collect::<Vec<_>>().join(" ")),
        hint "The cells keep what they have claimed. Nobody can claim another name that looks like these.")
    .send(PgLogLevel::NOTICE);
}

/// Notifies the client of the progress of `distribute`, before each table.
pub fn notice_of_distributing(table: &str, number: usize, of: usize, size: &str) {
    text!(ERRCODE_SUCCESSFUL_COMPLETION: "spreading table claims.{table} ({number} of {of}, {size})")
        .send(PgLogLevel::NOTICE);
}

/// Notifies the client that more calls are needed before all claims of a cell are marked.
pub fn notice_of_unfinished_cell(transfer: Uuid, cell_id: i64, reason: String) {
    text!(ERRCODE_SUCCESSFUL_COMPLETION: "transfer {transfer} may not have all claims of cell {cell_id} yet",
        detail { reason },
        hint "Repeat claims.prepare_transfer() until it returns finished, at last while the cell is in mode settle_only.")
    .send(PgLogLevel::NOTICE);
}

fn counted(leases: usize) -> String {
    if leases == 1 { "1 lease".to_owned() } else { format!("{leases} leases") }
}

fn named(leases: &[Uuid]) -> String {
    let list: Vec<_> = leases.iter().take(NAMED).map(Uuid::to_string).collect();
    let more = if leases.len() > NAMED { ", ..." } else { "" };
    format!("{}{more}", list.join(", "))
}
