//! `digest_records`: returns the digest of a range of claims. It equals `digest_expected` in the cell if the range is in order.
//!
//! Claims that a lease holds count like all others. If a range has outstanding leases, the two sides may differ. Then they are
//! compared record by record, and leased and recent claims are skipped.

use claims_model::digest::{Digest, Entry};

use crate::access;
use crate::arguments::{self, source_range};
use crate::error::ClaimsError;
use crate::store::catalog::{self, Catalog};
use crate::tables::rows::verify::Part;
use crate::tables::{self, Tables};
use pg::prelude::*;
use pg::spi::Connection;

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn digest_records(
    cell_id: Option<i64>,
    source_type: Option<String>,
    source_id_gt: default!(Option<String>, "NULL"),
    source_id_lte: default!(Option<String>, "NULL"),
) -> Result<TableIterator<'static, (name!(records, i64), name!(digest, Vec<u8>))>, ErrorReport> {
    let digest = tables::connect(|tables, connection| {
        arguments::require!(cell_id, source_type);
        let catalog = catalog::current(connection);
        access::act_for(&catalog, cell_id)?;
        let (source_type, _) = arguments::source_type(&source_type, &catalog.types)?;
        let range = source_range(source_id_gt, source_id_lte)?;
        Ok::<_, ClaimsError>(of_records(tables, connection, &catalog, &Part { cell_id, source_type, range: &range }))
    })?;
    Ok(TableIterator::once((digest.records, digest.to_bytes().to_vec())))
}

/// Returns the digest of the existing claims.
fn of_records(tables: &dyn Tables, connection: &Connection, catalog: &Catalog, part: &Part) -> Digest {
    let mut digest = Digest::default();
    let types = catalog.lasting_types();
    tables.each_in(connection, part, &mut |entry| {
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
