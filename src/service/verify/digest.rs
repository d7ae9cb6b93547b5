//! `digest_records`: equal to `digest_expected` in the cell if a range is in order.
//!
//! A claim that a lease holds counts like any other. If leases in a range are outstanding, the two sides may
//! differ, and are then compared record by record, where leased and recent claims are skipped.

use claims_model::digest::{Digest, Entry};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::access;
use crate::arguments::{self, source_range};
use crate::error::ClaimsError;
use crate::pg::spi::{self, Connection};
use crate::store::catalog::{self, Catalog};
use crate::store::service::verify::{self, Part};

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
#[allow(clippy::type_complexity)]
fn digest_records(
    cell_id: Option<i64>,
    source_type: Option<String>,
    source_id_gt: default!(Option<String>, "NULL"),
    source_id_lte: default!(Option<String>, "NULL"),
) -> Result<TableIterator<'static, (name!(records, i64), name!(digest, Vec<u8>))>, ErrorReport> {
    let digest = spi::connect(|connection| {
        let cell_id = access::given(cell_id, "cell_id")?;
        let source_type = access::given(source_type, "source_type")?;
        let catalog = catalog::current(connection);
        access::act_for(&catalog, cell_id)?;
        let (source_type, _) = arguments::source_type(&source_type, &catalog.types)?;
        let range = source_range(source_id_gt, source_id_lte)?;
        Ok::<_, ClaimsError>(of_records(connection, &catalog, &Part { cell_id, source_type, range: &range }))
    })?;
    Ok(TableIterator::once((digest.records, digest.to_bytes().to_vec())))
}

/// The digest of the existing claims.
fn of_records(connection: &Connection, catalog: &Catalog, part: &Part) -> Digest {
    let mut digest = Digest::default();
    let types = catalog.lasting_types();
    verify::each_in_range(connection, part, |entry| {
        digest.add(&Entry {
            bucket_type: types.bucket.name(entry.bucket_type).unwrap_or_default(),
            bucket_value: &entry.bucket_value,
            subject_type: types.subject.name(entry.subject_type).unwrap_or_default(),
            subject_id: &entry.subject_id,
            source_id: &entry.source_id,
        });
    });
    digest
}
