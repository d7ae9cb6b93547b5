//! Keeps names back at the ends of their claims. docs/names.md says who may have them meanwhile.

use claims_model::lookalike::skeletons;
use claims_model::quarantine::Asking;
use claims_model::{Bucket, Claim, Types};

use crate::kernel::call::{Call, CellCall};
use crate::kernel::catalog::Catalog;
use crate::service::claims::{Bearing, CLAIM_TABLES, EndedLeases, HeldFor, SKELETON_TABLES, SkeletonChange, ToKeep};
use pg::clock::Moment;

/// Returns the cell and the subject for which a call creates a claim.
pub fn asking<'c>(call: &CellCall, claim: &'c Claim, now: Moment) -> Asking<'c> {
    let reclaim = call.catalog.reclaim(claim.bucket.bucket_type);
    Asking { cell_id: call.cell_id, subject: &claim.subject, reclaim, now_us: now.0 }
}

/// Buckets whose claims end, by what becomes of their names.
pub struct Given<'b> {
    /// Their types have no quarantine: the names are free.
    pub freed: Vec<&'b Bucket<'b>>,
    /// The names are kept back. Those of one type stand together.
    pub kept: Vec<&'b Bucket<'b>>,
}

impl<'b> Given<'b> {
    /// Divides the buckets of claims that end, and keeps their order within each type.
    pub fn up(catalog: &Catalog, buckets: Vec<&'b Bucket<'b>>) -> Self {
        if catalog.quarantines.is_empty() {
            return Given { freed: buckets, kept: Vec::new() };
        }
        let is_kept = |bucket: &&Bucket| catalog.quarantines.contains_key(&bucket.bucket_type);
        let (mut kept, freed): (Vec<_>, Vec<_>) = buckets.into_iter().partition(is_kept);
        kept.sort_by_key(|bucket| bucket.bucket_type);
        Given { freed, kept }
    }
}

/// Keeps back the names of claims that ended leases hold with a status. Returns their number.
pub fn keep_back(call: &Call, catalog: &Catalog, all: &EndedLeases, held: HeldFor, kept: &[&Bucket]) -> usize {
    let of_type = |part: &[&Bucket]| {
        let available_at = catalog.available_at(part[0].bucket_type, all.at).unwrap_or(all.at);
        CLAIM_TABLES.of(call).keep_back(call.connection, all, &ToKeep { held, buckets: part, available_at })
    };
    kept.chunk_by(|one, other| one.bucket_type == other.bucket_type).map(of_type).sum()
}

/// Has names that are kept back from now on refuse those that look like them. The skeletons of their claims are free by then.
pub fn keep_skeletons<'b>(call: &Call, types: &Types, kept: impl Iterator<Item = &'b Bucket<'b>>) {
    let skeletons = skeletons(kept, types);
    // A name that a lease was to reclaim has its row.
    SKELETON_TABLES.of(call).change_skeletons(call.connection, SkeletonChange::Unreserve, &skeletons);
    SKELETON_TABLES.of(call).put_skeletons(call.connection, &skeletons, Bearing::Reserved);
}

/// Has names that are kept back no longer refuse those that look like them. Does nothing for other names.
pub fn drop_skeletons<'b>(call: &Call, types: &Types, names: impl Iterator<Item = &'b Bucket<'b>>) {
    let skeletons = skeletons(names, types);
    SKELETON_TABLES.of(call).change_skeletons(call.connection, SkeletonChange::Unreserve, &skeletons);
}

/// Returns until when names of the types with a quarantine are kept back that are given up at a time.
pub fn ends(catalog: &Catalog, given_up_at: Moment) -> Vec<(i32, Moment)> {
    let end = |bucket_type: &i32| Some((*bucket_type, catalog.available_at(*bucket_type, given_up_at)?));
    let mut ends: Vec<_> = catalog.quarantines.keys().filter_map(end).collect();
    ends.sort_unstable();
    ends
}
