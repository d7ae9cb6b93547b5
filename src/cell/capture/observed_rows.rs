//! Captures rows under declarations that are observed. Nothing here fails a save: not a condition that cannot be evaluated, nor a value
//! that cannot be claimed.

use std::num::NonZeroUsize;

use claims_model::capture::{Ends, NamedBucket};
use claims_model::enforcement::EnforcementMode;
use claims_model::origin::Declared;

use super::wanted_claims::{self, WantedClaim};
use super::{automatic, log, observations};
use crate::cell::claimed::attributes::{Captured, CapturedColumns};
use pg::subtransaction::{Caught, attempt_handling};
use pg::trigger::{RowChange, RowVersion};

/// Captures a change of a row. `held` has the columns that the new row claims by an enforced declaration.
pub fn capture(
    change: &RowChange,
    captured: &Captured,
    old: Option<RowVersion>,
    new: Option<RowVersion>,
    held: &[NonZeroUsize],
) {
    let changes = log::changes();
    for declared in &captured.unusable {
        observations::note(declared, "unusable", 1);
    }
    // The columns that the new row claims, with each call.
    let mut held = held.to_vec();
    for columns in &captured.observed {
        let Some(attribute) = columns.attributes.first() else { continue };
        if let (Some(old), Some(new)) = (old, new)
            && !columns.has_conditions
            && attribute.columns.iter().all(|(_, at)| old.has_same(new, *at))
        {
            continue;
        }
        let call = |version: Option<RowVersion>| version.map_or(Ok(None), |version| call_of(change, columns, version));
        let (Ok(before), Ok(after)) = (call(old), call(new)) else {
            observations::note(&attribute.declared, "error", 1);
            continue;
        };
        let after = match after {
            Some(Err(unfit)) => {
                let number = attribute.columns[unfit.column].1;
                let had = matches!(&before, Some(Err(_)));
                let is_same = had && matches!((old, new), (Some(old), Some(new)) if old.holds_same(new, number));
                if !is_same {
                    observations::note(&attribute.declared, "too_long", 1);
                }
                None
            }
            after => claim(after),
        };
        let before = claim(before);
        if before == after {
            continue;
        }
        if let Some((bucket, ends)) = before {
            record(change, &attribute.declared, bucket, ends, -1);
        }
        if let Some((bucket, ends)) = after {
            let column = attribute.columns[0].1;
            if held.contains(&column) {
                observations::note(&attribute.declared, "ambiguous", 1);
            } else {
                held.push(column);
                record(change, &attribute.declared, bucket, ends, 1);
            }
        }
    }
    if log::changes() != changes || !observations::is_empty() {
        automatic::see_to_sending(change);
    }
}

fn claim(call: Option<WantedClaim>) -> Option<(NamedBucket, Ends)> {
    call.and_then(|call| call.ok().flatten())
}

/// Returns the claim of a version of a row. The error says that it cannot be evaluated.
fn call_of(change: &RowChange, columns: &CapturedColumns, version: RowVersion) -> Result<Option<WantedClaim>, ()> {
    if let Some(values) = wanted_claims::held(columns, version) {
        return Ok(wanted_claims::wanted_claims_from(change, columns, Some(values)).pop());
    }
    let calls = attempt_handling(Caught::may_be_ignored, || wanted_claims::wanted_claims(change, columns, version));
    calls.map(|mut calls| calls.pop()).map_err(drop)
}

fn record(change: &RowChange, declared: &Declared, bucket: NamedBucket, ends: Ends, by: i64) {
    let routes = || automatic::routes_of(change);
    match declared.enforcement.of(&bucket.value) {
        EnforcementMode::Off => {}
        EnforcementMode::Observe => log::record_observed(bucket, ends, by, routes),
        EnforcementMode::Enforce => log::record(bucket, ends, by, routes),
    }
}
