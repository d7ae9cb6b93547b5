//! The errors of how names are compared.

use claims_model::problem::shortened;
use claims_model::{Profile, UNICODE_VERSION};
use pgrx::PgSqlErrorCode as Code;

use super::{ClaimsError, Text};

/// What goes wrong with profiles.
#[derive(Debug)]
pub enum NamesError {
    /// Cell and service compare names of a type by different profiles.
    OtherProfile { bucket_type: String, here: Profile, there: String },
    /// Cell and service have tables of different versions of Unicode.
    OtherUnicode { there: String },
}

impl From<NamesError> for ClaimsError {
    fn from(error: NamesError) -> Self {
        ClaimsError::Names(error)
    }
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
                Some("Give the type one profile in both databases."),
            ),
            NamesError::OtherUnicode { there } => Text(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "cell and service have tables of different versions of Unicode".into(),
                Some(format!("The service's are of {UNICODE_VERSION}, the cell's of {}.", shortened(&there))),
                Some("Upgrade the extension on the side with the older one; claims.version() tells both."),
            ),
        }
    }
}
