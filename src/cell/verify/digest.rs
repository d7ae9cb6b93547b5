//! `digest_expected`: returns the digest of the claims that a range of the cell's own tables needs.

use super::expected::Expected;
use crate::cell::reading;
use crate::kernel::arguments::{self, source_range};
use crate::kernel::error::ClaimsError;
use pg::prelude::*;
use pg::spi;

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn digest_expected(
    source_type: Option<String>,
    source_id_gt: default!(Option<String>, "NULL"),
    source_id_lte: default!(Option<String>, "NULL"),
) -> Result<TableIterator<'static, (name!(records, i64), name!(digest, Vec<u8>))>, ErrorReport> {
    let digest = spi::connect(|connection| {
        let source_type = arguments::required(source_type, "source_type")?;
        let source_type = reading::readable_source_type(connection, &source_type)?;
        let range = source_range(source_id_gt, source_id_lte)?;
        Ok::<_, ClaimsError>(Expected::of(connection, &source_type, true).digest(&range))
    })?;
    Ok(TableIterator::once((digest.claims.records, digest.claims.to_bytes().to_vec())))
}
