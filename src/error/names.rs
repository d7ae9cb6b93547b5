//! Errors of profiles and names.

use claims_model::problem::shortened;
use claims_model::renaming::Collision;
use claims_model::{Profile, Reason, UNICODE_VERSION};
use pgrx::PgSqlErrorCode as Code;

use super::text::Text;

/// The reason why a call on profiles or reserved names fails.
#[derive(Debug)]
pub enum NamesError {
    /// Cell and service have different profiles for a type.
    OtherProfile { bucket_type: String, here: Profile, there: String },
    /// Another transaction is changing the profile of a type.
    ProfileChanging,
    /// The type is built in, and its profile cannot be changed.
    ProfileFixed { bucket_type: String },
    /// Several names would become one, or the profile would refuse a name.
    Collisions { collisions: Vec<Collision> },
    /// Outstanding leases hold names that would change.
    HeldByLeases { held: usize },
    /// The isolation level hides concurrent changes of other transactions.
    OldSnapshot,
    /// Names to be reserved are claimed. `detail` is the JSON of the conflicts.
    CannotReserve { weightiest: Reason, count: usize, detail: String },
    /// Cell and service have different versions of Unicode.
    OtherUnicode { there: String },
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

impl NamesError {
    pub(super) fn text(self) -> Text {
        match self {
            NamesError::OtherProfile { bucket_type, here, there } => Text(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "cell and service compare names by different profiles".into(),
                Some(format!(
                    "Bucket type \"{}\" has profile {here} at the service and {} in the cell.",
                    shortened(&bucket_type),
                    shortened(&there)
                )),
                Some("Give the type one profile in both databases, with claims.set_profile()."),
            ),
            NamesError::ProfileFixed { bucket_type } => Text(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("profile of bucket type \"{}\" cannot be changed", shortened(&bucket_type)),
                Some("It came with the extension: its names are compared byte by byte, as its protocol has it.".into()),
                Some("Add a type of your own with claims.add_bucket_type()."),
            ),
            NamesError::Collisions { collisions } => Text(
                Code::ERRCODE_UNIQUE_VIOLATION,
                "names of the bucket type would collide under the profile".into(),
                Some(summary(&collisions)),
                Some(
                    "Nothing has been changed. With dry_run all of them are listed: have cells give up or rename those that cannot stay.",
                ),
            ),
            NamesError::HeldByLeases { held } => Text(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                "outstanding leases hold names that would change".into(),
                Some(format!("They hold {held} of them.")),
                Some(
                    "Nothing has been changed. Repeat the call when they are settled; claims.wait_timeout says how long to wait for them.",
                ),
            ),
            NamesError::OldSnapshot => Text(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "a change of profile needs a READ COMMITTED transaction".into(),
                Some("Another isolation level would show it names as they were when the transaction began.".into()),
                Some("Begin the transaction with ISOLATION LEVEL READ COMMITTED."),
            ),
            NamesError::ProfileChanging => Text(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                "the profile of a bucket type is being changed".into(),
                None,
                Some(
                    "Repeat the call when claims.set_profile() has ended; claims.wait_timeout says how long to wait for it.",
                ),
            ),
            NamesError::CannotReserve { weightiest, count, detail } => {
                let names = if count == 1 { "one name".to_owned() } else { format!("{count} names") };
                let code = if weightiest.retryable() {
                    Code::ERRCODE_LOCK_NOT_AVAILABLE
                } else {
                    Code::ERRCODE_UNIQUE_VIOLATION
                };
                Text(
                    code,
                    format!("could not reserve {names}"),
                    Some(detail),
                    Some("Leave out what is claimed, or have its cell give it up first; nothing was reserved."),
                )
            }
            NamesError::OtherUnicode { there } => Text(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "cell and service have tables of different versions of Unicode".into(),
                Some(format!("The service's are of {UNICODE_VERSION}, the cell's of {}.", shortened(&there))),
                Some(match is_older(&there) {
                    true => "Upgrade the extension in the cell's database.",
                    false => "Upgrade the extension in the service's database.",
                }),
            ),
        }
    }
}
