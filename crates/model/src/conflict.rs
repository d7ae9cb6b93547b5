//! Conflicts: the reasons why a batch cannot have its claims, and their precedence.

use serde::Serialize;
use strum::IntoStaticStr;

use crate::claim::{Bucket, NOBODY, Op};
use crate::payload::BucketForm;
use crate::quarantine::KeptName;
use crate::types::Types;
use crate::utc;

/// A reason of a conflict, in order of precedence. The first one decides the SQLSTATE of several conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Reason {
    NotOwner,
    Missing,
    OtherSource,
    Taken,
    Reserved,
    /// The name was given up, and is kept back from others for a while.
    Quarantined,
    Confusable,
    Leased,
    InFlight,
    /// The bucket is free, and other calls wait for it.
    Queued,
}

impl Reason {
    /// All reasons, in order of precedence.
    pub const ALL: [Reason; 10] = [
        Reason::NotOwner,
        Reason::Missing,
        Reason::OtherSource,
        Reason::Taken,
        Reason::Reserved,
        Reason::Quarantined,
        Reason::Confusable,
        Reason::Leased,
        Reason::InFlight,
        Reason::Queued,
    ];

    /// Returns the name in conflicts and metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns whether the claim that a destroy names is not there for it, so that a batch with `skip_missing` begins without it.
    pub fn can_be_skipped(self) -> bool {
        SKIPPABLE.contains(&self)
    }

    /// Returns whether the conflict is temporary: a repeated batch may succeed although nobody changes it.
    pub fn retryable(self) -> bool {
        matches!(self, Reason::Leased | Reason::InFlight | Reason::Queued)
    }
}

/// The reasons for which a destroy can be skipped.
pub const SKIPPABLE: [Reason; 3] = [Reason::NotOwner, Reason::Missing, Reason::OtherSource];

/// A bucket that a batch could not get.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict<'a> {
    pub op: Op,
    pub bucket: Bucket<'a>,
    pub reason: Reason,
    /// The cell that holds the claim, if the claim is visible.
    pub holder_cell_id: Option<i64>,
    /// The age of the lease that holds the claim, in seconds.
    pub lease_age_seconds: Option<f64>,
    /// The other name that looks like this one, for the reason `confusable`.
    pub similar_to: Option<String>,
    /// When everybody can have the name, in microseconds since 2000, for the reason `quarantined`.
    pub available_at_us: Option<i64>,
    /// How many calls wait for the bucket, for the reason `queued`.
    pub waiting: Option<usize>,
    /// How long the call has waited before it gave this answer.
    pub waited_seconds: Option<f64>,
}

impl<'a> Conflict<'a> {
    /// Returns a conflict of which only the reason is known.
    pub fn new(op: Op, bucket: Bucket<'a>, reason: Reason) -> Self {
        Conflict {
            op,
            bucket,
            reason,
            holder_cell_id: None,
            lease_age_seconds: None,
            similar_to: None,
            available_at_us: None,
            waiting: None,
            waited_seconds: None,
        }
    }
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
    #[serde(skip_serializing_if = "Option::is_none")]
    available_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_seconds: Option<f64>,
}

/// Returns the reason that decides the SQLSTATE, or `None` if there are no conflicts.
pub fn decisive_reason(conflicts: &[Conflict]) -> Option<Reason> {
    conflicts.iter().map(|conflict| conflict.reason).min()
}

/// Returns whether there are conflicts, and all of them are temporary: a repeated batch may succeed although nobody changes it.
pub fn are_temporary(conflicts: &[Conflict]) -> bool {
    !conflicts.is_empty() && conflicts.iter().all(|conflict| conflict.reason.retryable())
}

/// The most bytes of the JSON of conflicts in an error. A cell reads such an answer into a bounded memory, several times its size.
const DETAIL_BYTES: usize = 8 * 1024 * 1024;

/// Formats the conflicts as the JSON of DETAIL. Leaves out the last ones if the text would be too long to be read by a cell.
pub fn to_detail(conflicts: &[Conflict], types: &Types) -> Result<String, serde_json::Error> {
    let json = to_json(conflicts, types)?;
    if json.len() <= DETAIL_BYTES {
        return Ok(json);
    }
    // About as many as fit, by their average length.
    let mut count = conflicts.len() * (DETAIL_BYTES / 1024) / (json.len() / 1024 + 1);
    loop {
        let json = to_json(&conflicts[..count], types)?;
        if json.len() <= DETAIL_BYTES || count == 0 {
            return Ok(json);
        }
        count /= 2;
    }
}

/// Formats the conflicts as JSON.
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
            available_at: conflict.available_at_us.map(utc::text),
            waiting: conflict.waiting,
            waited_seconds: conflict.waited_seconds,
        })
        .collect();
    serde_json::to_string(&forms)
}

/// The existing claim on a bucket of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExistingClaim {
    pub holder_cell_id: i64,
    pub active: bool,
    /// Whether it has the subject and the source that the batch names, if it names any.
    pub is_meant: bool,
    /// Whether a transfer from or to the calling cell holds it. Its owner is not decided yet.
    pub in_transfer: bool,
    /// The name is kept back, so that it is no claim.
    pub kept: Option<KeptName>,
}

/// Returns why `op` by `cell_id` conflicts with the existing claim, or `None`. No other open transaction may be at the
/// bucket. A claim that a lease holds may have another source when the lease has ended, so the reason is `leased`
/// whatever its source is now.
pub fn reason_for(op: Op, cell_id: i64, existing: Option<ExistingClaim>) -> Option<Reason> {
    match (op, existing) {
        (Op::Create, None) => None,
        (Op::Destroy, None) => Some(Reason::Missing),
        (op, Some(ExistingClaim { kept: Some(name), .. })) => reason_for_kept(op, name),
        // A reserved name has no owner, so no cell can destroy it.
        (Op::Create, Some(claim)) if claim.holder_cell_id == NOBODY => Some(Reason::Reserved),
        (Op::Destroy, Some(claim)) if claim.holder_cell_id == NOBODY => Some(Reason::Missing),
        (Op::Destroy, Some(claim)) if claim.holder_cell_id != cell_id && !claim.in_transfer => Some(Reason::NotOwner),
        (_, Some(ExistingClaim { active: false, .. })) => Some(Reason::Leased),
        (Op::Create, Some(_)) => Some(Reason::Taken),
        (Op::Destroy, Some(ExistingClaim { is_meant: false, .. })) => Some(Reason::OtherSource),
        (Op::Destroy, Some(_)) => None,
    }
}

/// Returns why `op` conflicts with a name that is kept back. A name that the call cannot have is `quarantined` also while a lease reclaims it:
/// however that lease ends, the call does not get the name.
fn reason_for_kept(op: Op, name: KeptName) -> Option<Reason> {
    match op {
        Op::Create if !name.may_be_had => Some(Reason::Quarantined),
        Op::Create => name.is_leased.then_some(Reason::Leased),
        Op::Destroy if name.is_leased_by_caller => Some(Reason::Leased),
        Op::Destroy => Some(Reason::Missing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn existing(holder_cell_id: i64, active: bool) -> Option<ExistingClaim> {
        Some(ExistingClaim { holder_cell_id, active, is_meant: true, in_transfer: false, kept: None })
    }

    fn other(holder_cell_id: i64, active: bool) -> Option<ExistingClaim> {
        Some(ExistingClaim { holder_cell_id, active, is_meant: false, in_transfer: false, kept: None })
    }

    fn in_transfer(holder_cell_id: i64) -> Option<ExistingClaim> {
        Some(ExistingClaim { holder_cell_id, active: false, is_meant: true, in_transfer: true, kept: None })
    }

    #[test]
    fn every_case_has_its_reason() {
        let cases = [
            (Op::Create, None, None),
            (Op::Create, existing(1, true), Some(Reason::Taken)),
            (Op::Create, existing(2, true), Some(Reason::Taken)),
            (Op::Create, existing(2, false), Some(Reason::Leased)),
            (Op::Destroy, None, Some(Reason::Missing)),
            (Op::Destroy, existing(1, true), None),
            (Op::Destroy, existing(1, false), Some(Reason::Leased)),
            (Op::Destroy, existing(2, true), Some(Reason::NotOwner)),
            (Op::Destroy, existing(2, false), Some(Reason::NotOwner)),
            (Op::Destroy, other(1, true), Some(Reason::OtherSource)),
            (Op::Destroy, other(1, false), Some(Reason::Leased)),
            (Op::Destroy, other(2, true), Some(Reason::NotOwner)),
            (Op::Create, existing(NOBODY, true), Some(Reason::Reserved)),
            (Op::Destroy, existing(NOBODY, true), Some(Reason::Missing)),
            (Op::Create, in_transfer(2), Some(Reason::Leased)),
            (Op::Destroy, in_transfer(1), Some(Reason::Leased)),
            (Op::Destroy, in_transfer(2), Some(Reason::Leased)),
        ];
        for (op, claim, wanted) in cases {
            assert_eq!(reason_for(op, 1, claim), wanted, "{op:?} {claim:?}");
        }
    }

    #[test]
    fn a_name_that_is_kept_back_is_nobodys() {
        let kept = |may_be_had, is_leased, is_leased_by_caller| {
            let name = KeptName { may_be_had, is_leased, is_leased_by_caller };
            Some(ExistingClaim {
                holder_cell_id: NOBODY,
                active: false,
                is_meant: true,
                in_transfer: false,
                kept: Some(name),
            })
        };
        let cases = [
            (Op::Create, kept(true, false, false), None),
            (Op::Create, kept(false, false, false), Some(Reason::Quarantined)),
            (Op::Create, kept(true, true, false), Some(Reason::Leased)),
            (Op::Create, kept(true, true, true), Some(Reason::Leased)),
            // Who waits for it is answered at once.
            (Op::Create, kept(false, true, false), Some(Reason::Quarantined)),
            (Op::Destroy, kept(true, false, false), Some(Reason::Missing)),
            (Op::Destroy, kept(false, true, false), Some(Reason::Missing)),
            (Op::Destroy, kept(false, true, true), Some(Reason::Leased)),
        ];
        for (op, name, wanted) in cases {
            assert_eq!(reason_for(op, 1, name), wanted, "{op:?} {name:?}");
        }
    }

    #[test]
    fn a_conflict_with_a_name_that_is_kept_back_says_until_when() {
        let bucket = Bucket { bucket_type: 1, value: "x".into() };
        let kept = Conflict { available_at_us: Some(1), ..Conflict::new(Op::Create, bucket, Reason::Quarantined) };
        let json = to_json(&[kept], &Types::default()).unwrap();
        assert!(json.contains(r#""reason":"quarantined","retryable":false,"holder_cell_id":null"#), "{json}");
        assert!(json.contains(r#""available_at":"2000-01-01T00:00:00.000001+00:00""#), "{json}");
    }

    #[test]
    fn permanent_reasons_outweigh_temporary_ones() {
        let bucket = || Bucket { bucket_type: 1, value: "x".into() };
        let conflict = |reason| Conflict::new(Op::Create, bucket(), reason);
        use Reason::*;
        let all = [Queued, InFlight, Leased, Confusable, Quarantined, Reserved, Taken, OtherSource, Missing, NotOwner]
            .map(conflict);
        for lighter in 1..all.len() {
            assert_eq!(decisive_reason(&all[..=lighter]), Some(all[lighter].reason));
        }
        assert_eq!(decisive_reason(&all), Some(Reason::NotOwner));
        assert_eq!(decisive_reason(&all[..2]), Some(Reason::InFlight));
        assert_eq!(decisive_reason(&[]), None);
        assert_eq!([0, 1, 3, 4].map(|count| are_temporary(&all[..count])), [false, true, true, false]);
    }

    #[test]
    fn a_detail_is_bounded_and_stays_a_list() {
        let conflict = |value: String| Conflict {
            op: Op::Create,
            bucket: Bucket { bucket_type: 1, value: value.into() },
            reason: Reason::Taken,
            holder_cell_id: Some(1),
            lease_age_seconds: None,
            similar_to: None,
            available_at_us: None,
            waiting: None,
            waited_seconds: None,
        };
        let types = Types::default();
        let few: Vec<_> = (0..100).map(|n| conflict(format!("name {n}"))).collect();
        assert_eq!(to_detail(&few, &types).unwrap(), to_json(&few, &types).unwrap());
        // Short names first, so that the average says too many, and control characters, which JSON writes with six bytes.
        let many = (0..50_000).map(|n| conflict(format!("name {n}")));
        let many: Vec<_> = many.chain((0..5_000).map(|n| conflict(format!("{n}{}", "\u{1}".repeat(1000))))).collect();
        for conflicts in [&many[..], &many[40_000..]] {
            let detail = to_detail(conflicts, &types).unwrap();
            let list: Vec<serde_json::Value> = serde_json::from_str(&detail).unwrap();
            assert!(detail.len() <= DETAIL_BYTES && !list.is_empty() && list.len() < conflicts.len());
        }
    }
}
