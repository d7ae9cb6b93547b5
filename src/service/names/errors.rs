//! Errors and notices of calls on profiles, reserved names, and names that are kept back or handed over.

use claims_model::lookalike::BesideReserved;
use claims_model::problem::shortened;
use claims_model::renaming::Collision;
use claims_model::{Profile, Reason, UNICODE_VERSION};
use pgrx::{PgLogLevel, PgSqlErrorCode as Code};

use crate::kernel::error::{errors, text};

errors! {
    /// The reason why a call on profiles or reserved names fails.
    pub enum NamesError {
        OtherProfile { bucket_type: String, here: Profile, there: String } => ERRCODE_FEATURE_NOT_SUPPORTED:
            "cell and service compare names by different profiles",
            detail (
                "Bucket type \"{}\" has profile {here} at the service and {} in the cell.",
                shortened(&bucket_type),
                shortened(&there)
            ),
            hint "Give the type one profile in both databases, with claims.set_profile().";
        /// Several names would become one, or the profile would refuse a name.
        Collisions { collisions: Vec<Collision> } => ERRCODE_UNIQUE_VIOLATION: "names of the bucket type would collide under the profile",
            detail { summary(&collisions) },
            hint "Nothing has been changed. With dry_run all of them are listed: \
                have cells give up or rename those that cannot stay.";
        HeldByLeases { held: usize } => ERRCODE_LOCK_NOT_AVAILABLE: "outstanding leases hold names that would change",
            detail "They hold {held} of them.",
            hint "Nothing has been changed. Repeat the call when they are settled; \
                claims.wait_timeout says how long to wait for them.";
        OldSnapshot => ERRCODE_FEATURE_NOT_SUPPORTED: "a change of profile needs a READ COMMITTED transaction",
            detail "Another isolation level would show it names as they were when the transaction began.",
            hint "Begin the transaction with ISOLATION LEVEL READ COMMITTED.";
        /// Names to be reserved are claimed. `detail` is the JSON of the conflicts.
        CannotReserve { decisive: Reason, count: usize, detail: String } =>
            { if decisive.retryable() { Code::ERRCODE_LOCK_NOT_AVAILABLE } else { Code::ERRCODE_UNIQUE_VIOLATION } }:
            ("could not reserve {}", if count == 1 { "one name".to_owned() } else { format!("{count} names") }),
            detail { detail },
            hint "Leave out what is claimed, or have its cell give it up first; nothing was reserved.";
        /// A name that is to be handed over is not still.
        Held => ERRCODE_LOCK_NOT_AVAILABLE: "could not hand the name over",
            detail "A lease, a transfer or an open transaction holds it. Nothing was changed.",
            hint "Repeat the call when that has ended: claims.lease_details() shows a lease, claims.transfers a transfer.";
        Alike => ERRCODE_UNIQUE_VIOLATION: "could not hand the name over",
            detail "It looks like another name, and its type refuses that. Nothing was changed.",
            hint "Hand the other name over, or have its cell give it up first.";
        ValuesOfUnique { name: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: "names of the type cannot be kept back",
            detail ("They are the values of unique \"{}\": a table that is dropped, detached or truncated frees its values at once.", shortened(&name)),
            hint "Keep names of another type back, whose columns claims.claim_attribute() declares.";
        OtherUnicode { there: String } => ERRCODE_FEATURE_NOT_SUPPORTED: "cell and service have tables of different versions of Unicode",
            detail ("The service's are of {UNICODE_VERSION}, the cell's of {}.", shortened(&there)),
            hint ("Upgrade the extension in the {}'s database.", if is_older(&there) { "cell" } else { "service" });
    }
}

/// Formats the number of collisions, and the first one.
fn summary(collisions: &[Collision]) -> String {
    let quoted = |name: &str| format!("\"{}\"", shortened(name));
    let first = collisions.first().map_or(String::new(), |first| {
        let names: Vec<_> =
            first.names.iter().take(3).map(|(name, cell)| format!("{} of cell {cell}", quoted(name))).collect();
        match &first.canonical {
            Some(canonical) => format!(" {} would become {}.", names.join(", "), quoted(canonical)),
            None if names.len() > 1 => format!(" {} look alike.", names.join(", ")),
            None => format!(" {} can be no such name.", names.join(", ")),
        }
    });
    format!("There are {} collisions.{first}", collisions.len())
}

/// Returns whether a version of Unicode is older than the one here. A text that is not a version number comes from a
/// newer release.
fn is_older(there: &str) -> bool {
    let numbers = |version: &str| version.split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u32>>>();
    numbers(there) < numbers(UNICODE_VERSION) && numbers(there).is_some()
}

/// Warns the client and the log that a cell may still begin leases while its claims are released.
pub fn warn_of_open_cell(cell_id: i64) {
    text!(ERRCODE_WARNING: "cell {cell_id} may still begin leases while its claims are released",
        detail "Names that it continues to use can get another owner.",
        hint "Shut it out first: SELECT claims.set_mode('read_only', 'why', its number).")
    .send(PgLogLevel::WARNING);
}

/// The largest number of names in one notice.
const NAMED: usize = 100;

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
