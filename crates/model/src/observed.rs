//! The observed changes of a transaction, beside the enforced ones. A bucket belongs to one of the two batches, so that no observed
//! name can make the enforced batch fail.

use std::mem::take;

use crate::capture::{Create, Ends, NamedBucket, Pending, PendingDestroy};
use crate::outgoing::{Changes, Outgoing, Refusal};

/// A claim that could not be made, and the reason in `claims.observations`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missed {
    pub create: Create,
    pub outcome: String,
    pub holder_cell_id: Option<i64>,
}

impl Missed {
    pub fn new(create: Create, outcome: &str) -> Self {
        Missed { create, outcome: outcome.to_owned(), holder_cell_id: None }
    }
}

/// Separates the buckets that both batches have, and returns the observed claims that cannot be made.
///
/// A bucket that an enforced row gets is enforced: an observed row cannot have it, too, and if an observed row gives it up, the
/// enforced one adopts its claim. A bucket that only an observed row gets is observed, also if an enforced row gives it up: then the
/// claim passes to the observed row, or remains.
pub fn separate(enforced: &mut Pending, observed: &mut Pending) -> Vec<Missed> {
    let mut missed = Vec::new();
    let doubled = take(&mut observed.doubled);
    missed.extend(doubled.into_iter().map(|create| Missed::new(create, "doubled")));
    for create in take(&mut observed.creates) {
        let is_enforced = enforced.creates.binary_search_by(|other| other.bucket.cmp(&create.bucket)).is_ok()
            || enforced.doubled.binary_search_by(|other| other.bucket.cmp(&create.bucket)).is_ok();
        if is_enforced || create.rows > 1 {
            missed.push(Missed::new(create, "doubled"));
        } else if create.bucket.is_forbidden {
            missed.push(Missed::new(create, "forbidden"));
        } else if !create.ends.fit(&create.bucket) {
            missed.push(Missed::new(create, "no_key"));
        } else {
            observed.creates.push(create);
        }
    }
    for destroy in take(&mut observed.destroys) {
        if enforced.creates.binary_search_by(|create| create.bucket.cmp(&destroy.bucket)).is_ok() {
            continue;
        }
        match enforced.destroys.binary_search_by(|other| other.bucket.cmp(&destroy.bucket)) {
            Ok(at) => enforced.destroys[at].ends.extend(destroy.ends),
            Err(_) => observed.destroys.push(destroy),
        }
    }
    // Both lists are in the order of buckets, so one pass finds the common ones.
    let mut given_up = Vec::new();
    enforced.destroys.retain_mut(|destroy| {
        let is_observed = observed.creates.binary_search_by(|create| create.bucket.cmp(&destroy.bucket)).is_ok();
        if is_observed {
            given_up.push(PendingDestroy { bucket: destroy.bucket.clone(), ends: take(&mut destroy.ends) });
        }
        !is_observed
    });
    if !given_up.is_empty() {
        observed.destroys.append(&mut given_up);
        observed.destroys.sort_by(|one, two| one.bucket.cmp(&two.bucket));
    }
    missed
}

impl Outgoing {
    /// Removes what the conflicts name, and returns the claims that cannot be made. Returns `None` if nothing has changed; then the
    /// refusal is final.
    pub fn remove_refused(&mut self, refusals: &[Refusal]) -> Option<Vec<Missed>> {
        let (mut missed, mut has_changed) = (Vec::new(), false);
        let mut changes = Changes::of(self, refusals);
        for (at, refusal) in refusals.iter().enumerate() {
            let is_about_destroy = matches!(refusal.reason.as_str(), "missing" | "not_owner" | "other_source");
            if is_about_destroy {
                has_changed |= self.skip_destroy(&mut changes, at, refusal);
                continue;
            }
            let (create, is_destroyed) = self.remove_bucket(&mut changes, at);
            has_changed |= create.is_some() || is_destroyed;
            missed.extend(create.map(|create| Missed {
                holder_cell_id: refusal.holder_cell_id,
                ..Missed::new(create, &refusal.reason)
            }));
        }
        self.apply(changes);
        has_changed.then_some(missed)
    }

    /// Removes everything, and returns one row for each bucket: the one that creates its claim, or that destroys it.
    pub fn take_rows(&mut self) -> Vec<Ends> {
        let creates = take(&mut self.creates);
        let is_created =
            |bucket: &NamedBucket| creates.binary_search_by(|other| other.create.bucket.cmp(bucket)).is_ok();
        let destroys = take(&mut self.destroys).into_iter().filter(|destroy| !is_created(&destroy.bucket));
        let mut rows: Vec<Ends> = destroys.filter_map(|mut destroy| destroy.ends.pop()).collect();
        rows.extend(creates.into_iter().map(|creating| creating.create.ends));
        rows
    }
}
