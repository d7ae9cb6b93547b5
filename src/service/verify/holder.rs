//! `name_holder`: returns what prevents a cell from claiming a name.

use claims_model::types::Kind;
use claims_model::verify::Outcome;
use claims_model::{BadInput, Bucket, NOBODY, Problem, id};

use super::rivals::rivals;
use crate::kernel::arguments;
use crate::kernel::call::Call;
use crate::kernel::error::ClaimsError;
use crate::service::claims::CLAIM_TABLES;
use pg::prelude::*;

/// The holder of a name: the reason, the cell, and the source of the claim.
type HolderRow = (&'static str, Option<i64>, Option<String>, Option<String>);

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn name_holder(
    bucket_type: Option<String>,
    bucket_value: Option<String>,
) -> Result<
    TableIterator<
        'static,
        (
            name!(reason, &'static str),
            name!(holder_cell_id, Option<i64>),
            name!(source_type, Option<String>),
            name!(source_id, Option<String>),
        ),
    >,
    ErrorReport,
> {
    Ok(TableIterator::new(find(bucket_type, bucket_value)?))
}

fn find(bucket_type: Option<String>, bucket_value: Option<String>) -> Result<Option<HolderRow>, ClaimsError> {
    Call::run(|call| {
        arguments::require!(bucket_type, bucket_value);
        let catalog = call.current_catalog();
        let types = &catalog.types;
        let type_id = id::type_from_text(&bucket_type, Kind::Bucket, types)
            .map_err(|problem| BadInput::new("bucket_type", problem))?;
        let value = types.canonical_for_lookup(type_id, &bucket_value);
        let value = value.map_err(|problem| BadInput::new("bucket_value", Problem::name(problem)))?;
        let bucket = Bucket { bucket_type: type_id, value };
        if let Some(found) = CLAIM_TABLES.of(call).standing(call.connection, &[&bucket]).into_values().next() {
            let source = types.source.name(found.source.type_id).map(str::to_owned);
            return Ok(Some(match (found.holder_cell_id, found.active) {
                (NOBODY, _) => ("reserved", None, None, None),
                (cell, true) => ("taken", Some(cell), source, Some(found.source.id.into_owned())),
                (cell, false) => ("leased", Some(cell), source, Some(found.source.id.into_owned())),
            }));
        }
        let none = Interval::from_seconds(0.0);
        let rival = rivals(call, std::iter::once(&bucket), none, types).into_values().next();
        Ok(rival.map(|(outcome, rival)| {
            let reason = if outcome == Outcome::Leased { "leased" } else { "confusable" };
            (reason, Some(rival.cell_id).filter(|cell| *cell != NOBODY), None, None)
        }))
    })
}
