//! Errors of profiles and names.

use claims_model::problem::shortened;
use claims_model::renaming::Collision;
use claims_model::{Profile, Reason, UNICODE_VERSION};
use pgrx::PgSqlErrorCode as Code;

use super::declare::{errors, text};

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
        ProfileChanging => ERRCODE_LOCK_NOT_AVAILABLE: "the profile of a bucket type is being changed",
            hint "Repeat the call when claims.set_profile() has ended; claims.wait_timeout says how long to wait for it.";
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
