//! `digest_records`: returns the digest of a range of claims. It equals `digest_expected` in the cell if the range is in order.
//!
//! Claims that a lease holds count like all others. If a range has outstanding leases, the two sides may differ. Then they are
//! compared record by record, and leased and recent claims are skipped.

use claims_model::digest::{Digest, Entry};

use super::tables::{Part, VERIFICATION_TABLES};
use crate::kernel::arguments::{self, source_range};
use crate::kernel::call::CellCall;
use pg::prelude::*;

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn digest_records(
    cell_id: Option<i64>,
    source_type: Option<String>,
    source_id_gt: default!(Option<String>, "NULL"),
    source_id_lte: default!(Option<String>, "NULL"),
) -> Result<TableIterator<'static, (name!(records, i64), name!(digest, Vec<u8>))>, ErrorReport> {
    arguments::require!(cell_id, source_type);
    let digest = CellCall::run(Some(cell_id), |call| {
        let (source_type, _) = arguments::source_type(&source_type, &call.catalog.types)?;
        let range = source_range(source_id_gt, source_id_lte)?;
        Ok(of_records(call, &Part { cell_id, source_type, range: &range }))
    })?;
    Ok(TableIterator::once((digest.records, digest.to_bytes().to_vec())))
}

/// Returns the digest of the existing claims.
fn of_records(call: &CellCall, part: &Part) -> Digest {
    let mut digest = Digest::default();
    let types = call.catalog.lasting_types();
    VERIFICATION_TABLES.of(call).each_in(call.connection, part, &mut |entry| {
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
