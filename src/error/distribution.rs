//! Tables that are spread over several nodes.

use pgrx::PgSqlErrorCode as Code;

use super::{ClaimsError, Text};

/// Why the tables of this database are not to be read.
#[derive(Debug)]
pub enum DistributionError {
    /// Citus manages tables of the extension.
    ByOtherMeans { tables: Vec<String> },
    /// This is a worker of a Citus cluster, and the tables are on its coordinator.
    NotTheCoordinator,
}

impl From<DistributionError> for ClaimsError {
    fn from(error: DistributionError) -> Self {
        ClaimsError::Distribution(error)
    }
}

impl DistributionError {
    pub(super) fn text(self) -> Text {
        match self {
            DistributionError::ByOtherMeans { tables } => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the tables of claims cannot be distributed".into(),
                Some(format!(
                    "Citus manages {}: the rows are in shards, where looks into an index do not find them.",
                    tables.iter().map(|table| format!("claims.{table}")).collect::<Vec<_>>().join(", ")
                )),
                Some("Dump the database, and restore it where Citus does not manage tables of schema claims. No row is lost."),
            ),
            DistributionError::NotTheCoordinator => Text(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the tables of claims are on another node".into(),
                Some("This server is a worker of a Citus cluster; Citus has installed the extension here, and its tables are not in use.".into()),
                Some("Connect to the coordinator."),
            ),
        }
    }
}
