//! `list_records`: returns a cell's claims in pages, in the order in which the cell verifies them.

use claims_model::cursor::{ClaimCursor, Cursor};
use claims_model::source_range::SourceRange;
use claims_model::types::Kind;
use claims_model::{BadInput, Problem, Types, id};

use super::record::{ClaimColumns, claim_columns};
use super::tables::RECORD_TABLES;
use super::{MAX_RESULTS, page_size};
use crate::kernel::arguments;
use crate::kernel::call::CellCall;
use crate::kernel::error::ClaimsError;
use crate::service::claims::{ClaimPart, StoredClaim};
use pg::prelude::*;
use pg::row_set::{Joined, RowSet};

/// A row of the answer: a claim, its cursor, and how the name was written.
type RecordRow = Joined<ClaimColumns, (String, Option<String>)>;

#[pg_extern(
    name = "list_records",
    schema = "claims",
    security_definer,
    stable,
    parallel_safe,
    sql = r#"CREATE FUNCTION claims."list_records"(
    "cell_id" bigint, "source_type" text DEFAULT NULL, "after" text DEFAULT NULL, "max_results" int DEFAULT 1000, "source_id_gt" text DEFAULT NULL,
    "source_id_lte" text DEFAULT NULL, "bucket_types" text[] DEFAULT NULL, "whole_sources" bool DEFAULT false
) RETURNS TABLE (
    "uuid" uuid, "bucket_type" text, "bucket_value" text, "subject_type" text, "subject_id" text, "source_type" text, "source_id" text,
    "cell_id" bigint, "status" text, "lease_uuid" uuid, "created_at" timestamp with time zone, "updated_at" timestamp with time zone,
    "cursor" text, "display_value" text
)
STABLE SECURITY DEFINER PARALLEL SAFE SET search_path TO pg_catalog, pg_temp
LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';"#
)]
#[search_path(pg_catalog, pg_temp)]
fn list_records_2(
    cell_id: Option<i64>,
    source_type: default!(Option<String>, "NULL"),
    after: default!(Option<String>, "NULL"),
    max_results: default!(Option<i32>, 1000),
    source_id_gt: default!(Option<String>, "NULL"),
    source_id_lte: default!(Option<String>, "NULL"),
    bucket_types: default!(Option<Vec<Option<String>>>, "NULL"),
    whole_sources: default!(Option<bool>, false),
) -> Result<RowSet<RecordRow>, ErrorReport> {
    arguments::require!(cell_id, max_results, whole_sources);
    let rows = CellCall::run(Some(cell_id), |call| {
        let types = &call.catalog.types;
        let bad = |argument: &'static str| move |problem| BadInput::new(argument, problem);
        let only = source_type
            .map(|name| id::type_from_text(&name, Kind::Source, types).map_err(bad("source_type")))
            .transpose()?;
        let after = after.map(|text| ClaimCursor::decode(&text).map_err(bad("after"))).transpose()?;
        let SourceRange { above, up_to } = arguments::source_range(source_id_gt, source_id_lte)?;
        let bucket_types = bucket_types.map(|names| numbers(names, types)).transpose()?;
        let range = Range { only, after, above: above.unwrap_or_default(), up_to, bucket_types };
        let limit = page_size(max_results)?;
        let mut records = pages(call, &range, limit);
        if whole_sources && records.len() as i64 == limit {
            complete(call, &range, &mut records)?;
        }
        let ends = if whole_sources { ends_of_sources(&records) } else { vec![false; records.len()] };
        let row = |(mut record, ends_source): (StoredClaim, bool)| -> RecordRow {
            let cursor = if ends_source { cursor_behind_source(&record) } else { cursor_of(&record) }.encode();
            let display_value = record.display_value.take();
            Joined(claim_columns(record, types), (cursor, display_value))
        };
        Ok(records.into_iter().zip(ends).map(row).collect::<Vec<_>>())
    })?;
    Ok(RowSet::new(rows))
}

/// Returns the bucket types of an array.
fn numbers(names: Vec<Option<String>>, types: &Types) -> Result<Vec<i32>, BadInput> {
    let number = |(index, name): (usize, Option<String>)| {
        let name = name.as_deref().ok_or(Problem::Null);
        let number = name.and_then(|name| id::type_from_text(name, Kind::Bucket, types));
        number.map_err(|problem| BadInput::new(format!("bucket_types[{index}]"), problem))
    };
    names.into_iter().enumerate().map(number).collect()
}

/// Adds the remaining claims of the last claim's source.
fn complete(call: &CellCall, range: &Range, records: &mut Vec<StoredClaim>) -> Result<(), ClaimsError> {
    let Some(last) = records.last().map(cursor_of) else { return Ok(()) };
    let limit = i64::from(MAX_RESULTS);
    let part = ClaimPart { after: &last, last_source_id: Some(&last.source_id), bucket_types: range.bucket_types() };
    let rest = RECORD_TABLES.of(call).claim_page(call.connection, call.cell_id, &part, limit + 1);
    if rest.len() as i64 > limit {
        let problem = Problem::TooMany { what: "claims of one source", got: rest.len(), limit: limit as usize };
        return Err(BadInput::new("whole_sources", problem).into());
    }
    records.extend(rest);
    Ok(())
}

/// The range to list.
struct Range {
    /// The source type to list, or all.
    only: Option<i32>,
    after: Option<ClaimCursor>,
    /// Lower bound of source ids, exclusive. The empty text is below every id.
    above: String,
    up_to: Option<String>,
    /// The bucket types to list, or all.
    bucket_types: Option<Vec<i32>>,
}

impl Range {
    fn bucket_types(&self) -> Option<&[i32]> {
        self.bucket_types.as_deref()
    }

    /// Returns the cursor at which the list of one source type begins.
    fn start(&self, source_type: i32) -> ClaimCursor {
        // After every bucket of the excluded source id: no value is longer than 1,024 characters.
        let lower = ClaimCursor {
            source_type,
            source_id: self.above.clone(),
            bucket_type: i32::MAX,
            bucket_value: char::MAX.to_string().repeat(1025),
        };
        let key = |id: &str| (id.chars().count(), id.to_owned());
        match &self.after {
            Some(after) if after.source_type == source_type && key(&after.source_id) >= key(&lower.source_id) => {
                // The excluded id has nothing to list, whatever bucket the cursor names.
                if after.source_id == lower.source_id && !self.above.is_empty() { lower } else { after.clone() }
            }
            _ => lower,
        }
    }
}

/// Fills a page, source type by source type.
fn pages(call: &CellCall, range: &Range, limit: i64) -> Vec<StoredClaim> {
    let first = range.after.as_ref().map_or(i32::MIN, |after| after.source_type);
    let types = match range.only {
        Some(only) if only < first => Vec::new(),
        Some(only) => vec![only],
        None => RECORD_TABLES.of(call).source_types_from(call.connection, call.cell_id, first),
    };
    let mut found = Vec::new();
    for source_type in types {
        let room = limit - i64::try_from(found.len()).unwrap_or(i64::MAX);
        if room <= 0 {
            break;
        }
        let after = range.start(source_type);
        let part =
            ClaimPart { after: &after, last_source_id: range.up_to.as_deref(), bucket_types: range.bucket_types() };
        found.extend(RECORD_TABLES.of(call).claim_page(call.connection, call.cell_id, &part, room));
    }
    found
}

/// Returns for each claim of a list whether it is the last one of its source.
fn ends_of_sources(records: &[StoredClaim]) -> Vec<bool> {
    let source = |record: &StoredClaim| (record.source_type, record.source_id.clone());
    let next = records.iter().skip(1).map(|record| Some(source(record))).chain([None]);
    records.iter().zip(next).map(|(record, next)| next != Some(source(record))).collect()
}

/// Returns a cursor that continues behind all claims of a claim's source. It holds no name, because set_profile() may give the
/// claims of a source other names, in another order, before the next page is read.
fn cursor_behind_source(record: &StoredClaim) -> ClaimCursor {
    ClaimCursor { bucket_type: i32::MAX, bucket_value: String::new(), ..cursor_of(record) }
}

fn cursor_of(record: &StoredClaim) -> ClaimCursor {
    ClaimCursor {
        source_type: record.source_type,
        source_id: record.source_id.clone(),
        bucket_type: record.bucket_type,
        bucket_value: record.bucket_value.clone(),
    }
}
