//! Finds names that are free but confusable with a claimed or reserved name.

use std::collections::HashMap;

use claims_model::lookalike::skeletons;
use claims_model::verify::Outcome;
use claims_model::{Bucket, Types};
use pgrx::datum::Interval;

use super::tables::{Actual, VERIFICATION_TABLES};
use crate::kernel::call::Call;
use crate::service::claims::{Bearers, skeletons};
use pg::clock::Moment;

/// Returns for each of these names the confusable claim or reserved name, and whether it is held by a lease or for good.
pub fn rivals<'b>(
    call: &Call,
    buckets: impl Iterator<Item = &'b Bucket<'b>>,
    recent: Interval,
    types: &Types,
) -> HashMap<&'b Bucket<'b>, (Outcome, Actual)> {
    let skeletons = skeletons(buckets, types);
    if skeletons.is_empty() {
        return HashMap::new();
    }
    let bearers =
        skeletons::bearers(call.connection, &skeletons.iter().map(|(skeleton, _)| *skeleton).collect::<Vec<_>>());
    let names: Vec<_> = bearers.values().flat_map(Bearers::names).collect();
    let (standing, now) = (VERIFICATION_TABLES.of(call).actual_on(call.connection, &names, recent), Moment::now());
    let rival = |(skeleton, bucket): (_, &'b Bucket<'b>)| {
        let mut others = bearers.get(&skeleton)?.names().filter(|name| *name != bucket);
        // A skeleton without a claim conflicts with nothing.
        let rival = others.find_map(|name| standing.get(name).filter(|rival| !rival.is_over(now)))?;
        Some((
            bucket,
            (if rival.leased && rival.kept.is_none() { Outcome::Leased } else { Outcome::Confusable }, rival.clone()),
        ))
    };
    skeletons.into_iter().filter_map(rival).collect()
}
