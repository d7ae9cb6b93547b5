//! Conflicts: why a batch cannot have its claims, and which reason weighs most.

use serde::Serialize;

use crate::claim::{Bucket, NOBODY, Op};
use crate::payload::BucketForm;
use crate::types::Types;

/// Why it could not, the weightiest first: that one decides the SQLSTATE of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    NotOwner,
    Missing,
    OtherSource,
    Taken,
    Reserved,
    Confusable,
    Leased,
    InFlight,
}

impl Reason {
    /// All of them, in their order.
    pub const ALL: [Reason; 8] = [
        Reason::NotOwner,
        Reason::Missing,
        Reason::OtherSource,
        Reason::Taken,
        Reason::Reserved,
        Reason::Confusable,
        Reason::Leased,
        Reason::InFlight,
    ];

    /// As conflicts and metrics tell it.
    pub fn name(self) -> &'static str {
        match self {
            Reason::NotOwner => "not_owner",
            Reason::Missing => "missing",
            Reason::OtherSource => "other_source",
            Reason::Taken => "taken",
            Reason::Reserved => "reserved",
            Reason::Confusable => "confusable",
            Reason::Leased => "leased",
            Reason::InFlight => "in_flight",
        }
    }

    /// Whether the same batch may succeed later without anybody changing it.
    pub fn retryable(self) -> bool {
        matches!(self, Reason::Leased | Reason::InFlight)
    }
}

/// One bucket of a batch that could not be had.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict<'a> {
    pub op: Op,
    pub bucket: Bucket<'a>,
    pub reason: Reason,
    /// The cell that holds the claim, where it can be seen.
    pub holder_cell_id: Option<i64>,
    /// How old the lease is that holds the claim, in seconds.
    pub lease_age_seconds: Option<f64>,
    /// The other name that looks like this one, where that is what is in the way.
    pub similar_to: Option<String>,
}

#[derive(Serialize)]
struct ConflictForm<'a> {
    op: Op,
    bucket: BucketForm<'a>,
    reason: &'static str,
    retryable: bool,
    holder_cell_id: Option<i64>,
    lease_age_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    similar_to: Option<&'a str>,
}

/// The reason that decides the SQLSTATE, or `None` of no conflicts.
pub fn weightiest(conflicts: &[Conflict]) -> Option<Reason> {
    conflicts.iter().map(|conflict| conflict.reason).min()
}

/// The conflicts as the JSON of DETAIL.
pub fn to_json(conflicts: &[Conflict], types: &Types) -> Result<String, serde_json::Error> {
    let forms: Vec<_> = conflicts
        .iter()
        .map(|conflict| ConflictForm {
            op: conflict.op,
            bucket: BucketForm::new(&conflict.bucket, types),
            reason: conflict.reason.name(),
            retryable: conflict.reason.retryable(),
            holder_cell_id: conflict.holder_cell_id,
            lease_age_seconds: conflict.lease_age_seconds,
            similar_to: conflict.similar_to.as_deref(),
        })
        .collect();
    serde_json::to_string(&forms)
}

/// What is known of the claim that stands on a bucket a batch wants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StandingClaim {
    pub holder_cell_id: i64,
    pub active: bool,
    /// It has the subject and the source that the batch names, as far as it names them.
    pub is_meant: bool,
    /// A transfer from or to the calling cell holds it: whose it will be is not known yet.
    pub in_transfer: bool,
}

/// Why `op` by `cell_id` cannot have a bucket on which `standing` is all there is, and nobody is at it; `None`: it can.
/// What a lease holds may have another source when the lease has ended: so it is `leased`, whatever it has now.
pub fn reason_for(op: Op, cell_id: i64, standing: Option<StandingClaim>) -> Option<Reason> {
    match (op, standing) {
        (Op::Create, None) => None,
        (Op::Destroy, None) => Some(Reason::Missing),
        // Reserved: nobody has it, so nobody can give it up.
        (Op::Create, Some(claim)) if claim.holder_cell_id == NOBODY => Some(Reason::Reserved),
        (Op::Destroy, Some(claim)) if claim.holder_cell_id == NOBODY => Some(Reason::Missing),
        (Op::Destroy, Some(claim)) if claim.holder_cell_id != cell_id && !claim.in_transfer => Some(Reason::NotOwner),
        (_, Some(StandingClaim { active: false, .. })) => Some(Reason::Leased),
        (Op::Create, Some(_)) => Some(Reason::Taken),
        (Op::Destroy, Some(StandingClaim { is_meant: false, .. })) => Some(Reason::OtherSource),
        (Op::Destroy, Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(holder_cell_id: i64, active: bool) -> Option<StandingClaim> {
        Some(StandingClaim { holder_cell_id, active, is_meant: true, in_transfer: false })
    }

    fn other(holder_cell_id: i64, active: bool) -> Option<StandingClaim> {
        Some(StandingClaim { holder_cell_id, active, is_meant: false, in_transfer: false })
    }

    fn in_transfer(holder_cell_id: i64) -> Option<StandingClaim> {
        Some(StandingClaim { holder_cell_id, active: false, is_meant: true, in_transfer: true })
    }

    #[test]
    fn every_case_has_its_reason() {
        let cases = [
            (Op::Create, None, None),
            (Op::Create, standing(1, true), Some(Reason::Taken)),
            (Op::Create, standing(2, true), Some(Reason::Taken)),
            (Op::Create, standing(2, false), Some(Reason::Leased)),
            (Op::Destroy, None, Some(Reason::Missing)),
            (Op::Destroy, standing(1, true), None),
            (Op::Destroy, standing(1, false), Some(Reason::Leased)),
            (Op::Destroy, standing(2, true), Some(Reason::NotOwner)),
            (Op::Destroy, standing(2, false), Some(Reason::NotOwner)),
            (Op::Destroy, other(1, true), Some(Reason::OtherSource)),
            (Op::Destroy, other(1, false), Some(Reason::Leased)),
            (Op::Destroy, other(2, true), Some(Reason::NotOwner)),
            (Op::Create, standing(NOBODY, true), Some(Reason::Reserved)),
            (Op::Destroy, standing(NOBODY, true), Some(Reason::Missing)),
            (Op::Create, in_transfer(2), Some(Reason::Leased)),
            (Op::Destroy, in_transfer(1), Some(Reason::Leased)),
            (Op::Destroy, in_transfer(2), Some(Reason::Leased)),
        ];
        for (op, claim, wanted) in cases {
            assert_eq!(reason_for(op, 1, claim), wanted, "{op:?} {claim:?}");
        }
    }

    #[test]
    fn permanent_reasons_outweigh_temporary_ones() {
        let conflict = |reason| Conflict {
            op: Op::Create,
            bucket: Bucket { bucket_type: 1, value: "x".into() },
            reason,
            holder_cell_id: None,
            lease_age_seconds: None,
            similar_to: None,
        };
        use Reason::*;
        let all = [InFlight, Leased, Confusable, Reserved, Taken, OtherSource, Missing, NotOwner].map(conflict);
        for lighter in 1..all.len() {
            assert_eq!(weightiest(&all[..=lighter]), Some(all[lighter].reason));
        }
        assert_eq!(weightiest(&all), Some(Reason::NotOwner));
        assert_eq!(weightiest(&all[..2]), Some(Reason::Leased));
        assert_eq!(weightiest(&[]), None);
    }
}
