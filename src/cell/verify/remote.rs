//! The questions that a verifying cell asks the service.

use std::time::Duration;

use claims_model::digest::Digest;
use claims_model::source_range::SourceRange;
use claims_model::verify::{Discrepancy, Outcome};
use pgrx::Uuid as PgUuid;
use pgrx::datum::Interval;
use uuid::Uuid;

use crate::cell::client::{Service, literal, uuid_array};
use crate::cell::recovery::reconcile::interval;
use crate::error::{ClaimsError, VerificationError};
use crate::pg::roles;
use crate::pg::spi::{Connection, Row};
use crate::pg::uuid::from_pg_uuid;
use crate::store::cell::expected;

/// How long one question may take. The service gives up a little earlier than the cell does, so that nothing is
/// corrected there after the cell has let go of its rows.
const PATIENCE: Duration = Duration::from_secs(60);
const PATIENCE_FOR_CORRECTIONS: Duration = Duration::from_secs(5);
const EARLIER: Duration = Duration::from_millis(500);

/// A discrepancy, as the service tells it.
pub struct Report {
    pub discrepancy: Discrepancy,
    pub bucket_type: String,
    pub bucket_value: String,
    /// The claim that is there, and its source's type and id.
    pub uuid: Option<Uuid>,
    pub source: Option<(String, String)>,
    pub outcome: Option<Outcome>,
}

/// The claims of one cell and source type, at the service.
pub struct Remote<'s, 'c> {
    service: &'s Service<'c>,
    cell_id: i64,
    source_type: &'s str,
    recent: Interval,
}

impl<'s, 'c> Remote<'s, 'c> {
    pub fn new(
        connection: &Connection,
        service: &'s Service<'c>,
        cell_id: i64,
        source_type: &'s str,
        recent: Interval,
    ) -> Result<Self, ClaimsError> {
        // Conditions and casts of the tables are their owners' code.
        if expected::owners(connection).into_iter().any(|owner| !roles::is_admin(owner)) {
            service.hide();
        }
        let remote = Remote { service, cell_id, source_type, recent };
        remote.limit(PATIENCE)?;
        Ok(remote)
    }

    pub fn digest(&self, range: &SourceRange) -> Result<Digest, ClaimsError> {
        let statement = format!("SELECT records, digest FROM claims.digest_records({})", self.arguments(range));
        let rows = self.service.call(&statement, "records bigint, digest bytea", PATIENCE, |row| {
            Digest::from_parts(row.must(1), &row.must::<Vec<u8>>(2))
        })?;
        let digest = rows.into_iter().next().flatten();
        digest.ok_or_else(|| VerificationError::StrangeAnswer { what: "a digest of another length".into() }.into())
    }

    /// The source id up to which there are `records` claims in the range; `None`: there are not so many.
    pub fn end_of(&self, range: &SourceRange, records: i64) -> Result<Option<String>, ClaimsError> {
        let SourceRange { above, up_to } = range;
        let statement = format!(
            "SELECT source_id FROM claims.list_records({}, {}, NULL, {records}, {}, {}) OFFSET {}",
            self.cell_id,
            literal(self.source_type),
            bound(above),
            bound(up_to),
            records - 1
        );
        Ok(self.service.call(&statement, "source_id text", PATIENCE, |row| row.must(1))?.pop())
    }

    /// Compares a range with a JSON list of what is expected there.
    pub fn compare(&self, range: &SourceRange, expected: &str) -> Result<Vec<Report>, ClaimsError> {
        self.verify(range, expected, "false", "NULL", PATIENCE)
    }

    /// Puts right what is expected, and destroys the extra claims that are named. Beforehand, while nothing is held here,
    /// [`Remote::prepare_to_correct`].
    pub fn correct(&self, range: &SourceRange, expected: &str, extra: &[Uuid]) -> Result<Vec<Report>, ClaimsError> {
        self.verify(range, expected, "true", &uuid_array(extra), PATIENCE_FOR_CORRECTIONS)
    }

    pub fn prepare_to_correct(&self) -> Result<(), ClaimsError> {
        self.limit(PATIENCE_FOR_CORRECTIONS)
    }

    pub fn corrected(&self) -> Result<(), ClaimsError> {
        self.limit(PATIENCE)
    }

    /// Has the service give up by itself.
    fn limit(&self, patience: Duration) -> Result<(), ClaimsError> {
        let limit = (patience - EARLIER).as_millis();
        let statement = format!("SELECT pg_catalog.set_config('statement_timeout', '{limit}', false)");
        self.service.begin_with(statement, patience)
    }

    fn verify(
        &self,
        range: &SourceRange,
        expected: &str,
        correct: &str,
        extra: &str,
        patience: Duration,
    ) -> Result<Vec<Report>, ClaimsError> {
        let statement = format!(
            "SELECT discrepancy, bucket_type, bucket_value,
                    pg_catalog.jsonb_extract_path_text(actual, 'uuid')::pg_catalog.uuid,
                    pg_catalog.jsonb_extract_path_text(actual, 'source', 'type'),
                    pg_catalog.jsonb_extract_path_text(actual, 'source', 'rails_primary_key_id'), outcome
               FROM claims.verify_records({}, {}, {}, {correct}, {extra})",
            self.arguments(range),
            literal(expected),
            interval(self.recent)
        );
        let columns = "discrepancy text, bucket_type text, bucket_value text, uuid uuid, source_type text,
                       source_id text, outcome text";
        self.service.call(&statement, columns, patience, report)?.into_iter().collect()
    }

    fn arguments(&self, SourceRange { above, up_to }: &SourceRange) -> String {
        format!("{}, {}, {}, {}", self.cell_id, literal(self.source_type), bound(above), bound(up_to))
    }
}

fn bound(bound: &Option<String>) -> String {
    bound.as_deref().map_or("NULL".to_owned(), literal)
}

fn report(row: Row) -> Result<Report, ClaimsError> {
    let strange = |what: String| VerificationError::StrangeAnswer { what: format!("\"{what}\"") };
    let discrepancy: String = row.must(1);
    let outcome: Option<String> = row.get(7);
    Ok(Report {
        discrepancy: Discrepancy::named(&discrepancy).ok_or_else(|| strange(discrepancy))?,
        bucket_type: row.get(2).unwrap_or_default(),
        bucket_value: row.must(3),
        uuid: row.get::<PgUuid>(4).map(from_pg_uuid),
        source: row.get(5).zip(row.get(6)),
        outcome: outcome.map(|name| Outcome::named(&name).ok_or_else(|| strange(name))).transpose()?,
    })
}
