//! Names that are free and cannot be had, because a claim of a name that looks like them stands.

use std::collections::HashMap;

use claims_model::lookalike::looks;
use claims_model::verify::Outcome;
use claims_model::{Bucket, Types};
use pgrx::datum::Interval;

use crate::pg::spi::Connection;
use crate::service::engine;
use crate::store::service::verify::{self, Actual};

/// For each of these names: the claim that is in its way, and whether that is for good, or as long as a lease holds it.
pub fn rivals<'b>(
    connection: &Connection,
    buckets: impl Iterator<Item = &'b Bucket<'b>>,
    recent: Interval,
    types: &Types,
) -> HashMap<&'b Bucket<'b>, (Outcome, Actual)> {
    let looks = looks(buckets, types);
    if looks.is_empty() {
        return HashMap::new();
    }
    let bearers = engine::current().bearers(connection, &looks.iter().map(|(look, _)| *look).collect::<Vec<_>>());
    let names: Vec<_> =
        bearers.values().flat_map(|all| [Some(&all.bearer), all.successor.as_ref()]).flatten().collect();
    let standing = verify::on_buckets(connection, &names, recent);
    let rival = |(look, bucket): (_, &'b Bucket<'b>)| {
        let all = bearers.get(&look)?;
        let others = [Some(&all.bearer), all.successor.as_ref()].into_iter().flatten().filter(|name| *name != bucket);
        // A look that nobody has claimed is in nobody's way.
        let rival = others.filter_map(|name| standing.get(name)).next()?;
        Some((bucket, (if rival.leased { Outcome::Leased } else { Outcome::Confusable }, rival.clone())))
    };
    looks.into_iter().filter_map(rival).collect()
}
