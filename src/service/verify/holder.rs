//! `name_holders`: returns what prevents a cell from claiming names.

use claims_model::quarantine::Asking;
use claims_model::types::Kind;
use claims_model::verify::Outcome;
use claims_model::{BadInput, Bucket, NOBODY, Problem, Reference, Types, id};

use super::rivals::rivals;
use crate::kernel::access;
use crate::kernel::arguments;
use crate::kernel::call::Call;
use crate::kernel::error::ClaimsError;
use crate::service::claims::CLAIM_TABLES;
use crate::service::claims::FoundClaim;
use pg::clock::Moment;
use pg::prelude::*;

/// An obstacle to claiming a name: the reason, and the cell and the source of a claim.
pub struct FoundHolder {
    pub reason: &'static str,
    pub cell_id: Option<i64>,
    pub source_type: Option<String>,
    pub source_id: Option<String>,
}

/// Returns what prevents a cell from claiming each of several names of a type. `ordinal` counts the names from 1; there is no row for a free one.
/// A name that is kept back is free for the subject of the cell that may have it.
#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn name_holders(
    bucket_type: Option<String>,
    bucket_values: Option<Vec<Option<String>>>,
    cell_id: default!(Option<i64>, "NULL"),
    subject_type: default!(Option<String>, "NULL"),
    subject_id: default!(Option<String>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(ordinal, i32),
            name!(reason, &'static str),
            name!(holder_cell_id, Option<i64>),
            name!(source_type, Option<String>),
            name!(source_id, Option<String>),
        ),
    >,
    ErrorReport,
> {
    let found = Call::run(|call| {
        arguments::require!(bucket_type, bucket_values);
        if bucket_values.len() > MAX_NAMES {
            let problem = Problem::TooMany { what: "names", got: bucket_values.len(), limit: MAX_NAMES };
            return Err(BadInput::new("bucket_values", problem).into());
        }
        let name =
            |(index, name): (usize, Option<String>)| arguments::required(name, &format!("bucket_values[{index}]"));
        let names = bucket_values.into_iter().enumerate().map(name).collect::<Result<Vec<_>, ClaimsError>>()?;
        if let Some(cell_id) = cell_id {
            access::act_for(&call.current_catalog(), cell_id)?;
        }
        let former = cell_id.zip(subject_type).zip(subject_id);
        let former =
            former.map(|((cell_id, subject_type), subject_id)| FormerOwner { cell_id, subject_type, subject_id });
        name_holders_for(call, &bucket_type, &names, former.as_ref())
    })?;
    let row = |(ordinal, holder): (i32, Option<FoundHolder>)| {
        let FoundHolder { reason, cell_id, source_type, source_id } = holder?;
        Some((ordinal, reason, cell_id, source_type, source_id))
    };
    Ok(TableIterator::new((1..).zip(found).filter_map(row)))
}

/// The most names of one call.
const MAX_NAMES: usize = 1000;

/// Returns what prevents a cell from claiming names of a type, in their order, and `None` for a free one. With `former`, a name that is kept back is
/// free if this subject may have it.
pub fn name_holders_for(
    call: &Call,
    bucket_type: &str,
    names: &[impl AsRef<str>],
    former: Option<&FormerOwner>,
) -> Result<Vec<Option<FoundHolder>>, ClaimsError> {
    let catalog = call.current_catalog();
    let type_of = |kind, argument, name: &str| {
        id::type_from_text(name, kind, &catalog.types).map_err(|problem| BadInput::new(argument, problem))
    };
    let type_id = type_of(Kind::Bucket, "bucket_type", bucket_type)?;
    let buckets = names.iter().enumerate().map(|(index, name)| {
        let value = catalog.types.canonical_for_lookup(type_id, name.as_ref());
        let bad = |problem| BadInput::new(format!("bucket_values[{index}]"), Problem::name(problem));
        Ok(Bucket { bucket_type: type_id, value: value.map_err(bad)? })
    });
    let buckets = buckets.collect::<Result<Vec<_>, BadInput>>()?;
    let subject = former.map(|former| {
        let type_id = type_of(Kind::Subject, "subject_type", &former.subject_type)?;
        Ok::<_, BadInput>((former.cell_id, Reference { type_id, id: former.subject_id.as_str().into() }))
    });
    let subject = subject.transpose()?;
    let (reclaim, now_us) = (catalog.reclaim(type_id), Moment::now().0);
    let asking = subject.as_ref().map(|(cell_id, subject)| Asking { cell_id: *cell_id, subject, reclaim, now_us });
    Ok(holders(call, &catalog.types, &buckets, asking.as_ref()))
}

/// A subject of a cell that may have given up the names it asks for.
pub struct FormerOwner {
    pub cell_id: i64,
    pub subject_type: String,
    pub subject_id: String,
}

/// Returns what prevents a cell from claiming names, in their order. `None` for a free one.
fn holders(call: &Call, types: &Types, buckets: &[Bucket], asking: Option<&Asking>) -> Vec<Option<FoundHolder>> {
    let (all, now): (Vec<&Bucket>, _) = (buckets.iter().collect(), Moment::now());
    let mut found = CLAIM_TABLES.of(call).standing(call.connection, &all);
    let is_free = |found: &FoundClaim| match found.kept.zip(asking) {
        Some((kept, by)) => kept.reclaiming_cell.is_none() && kept.may_be_had(&found.subject, by),
        None => found.is_over(now),
    };
    found.retain(|_, found| !is_free(found));
    let free = all.iter().copied().filter(|bucket| !found.contains_key(*bucket));
    let rivals = rivals(call, free, Interval::from_seconds(0.0), types);
    let holder = |bucket: &&Bucket| {
        let unnamed = |reason, cell_id| FoundHolder { reason, cell_id, source_type: None, source_id: None };
        let of_claim = found.get(*bucket).map(|found| match (found.holder_cell_id, found.active) {
            _ if found.kept.is_some() => unnamed("quarantined", None),
            (NOBODY, _) => unnamed("reserved", None),
            (cell, active) => FoundHolder {
                reason: if active { "taken" } else { "leased" },
                cell_id: Some(cell),
                source_type: types.source.name(found.source.type_id).map(str::to_owned),
                source_id: Some(found.source.id.to_string()),
            },
        });
        of_claim.or_else(|| {
            let (outcome, rival) = rivals.get(*bucket)?;
            let reason = if *outcome == Outcome::Leased { "leased" } else { "confusable" };
            Some(unnamed(reason, Some(rival.cell_id).filter(|cell| *cell != NOBODY)))
        })
    };
    all.iter().map(holder).collect()
}
