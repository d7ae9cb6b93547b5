//! The discrepancies of claims that verification compared, and their outcomes.

use serde::Serialize;
use strum::{EnumString, IntoStaticStr};

use crate::claim::{Claim, Reference};
use crate::payload::{ClaimForm, claim_form};
use crate::quarantine::KeptName;
use crate::types::Types;

/// A difference between a claim and what the cell's rows call for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum Discrepancy {
    /// A row calls for the claim, and the cell does not have it.
    Missing,
    /// The cell has the claim with another subject or source.
    Different,
    /// The cell has the claim, and no row calls for it.
    Extra,
}

impl Discrepancy {
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the discrepancy with this name, which the service sends.
    pub fn named(name: &str) -> Option<Self> {
        name.parse().ok()
    }
}

/// The outcome of a discrepancy: it was corrected, or why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum Outcome {
    Corrected,
    /// An outstanding lease holds the claim.
    Leased,
    /// The claim is younger than the caller asked for.
    Recent,
    /// Another cell has the bucket.
    HeldByOther,
    /// The bucket is free, and a claim of a name that looks like it exists; the type refuses that.
    Confusable,
    /// The name is reserved, so no cell can have it.
    Reserved,
    /// The name was given up by another cell or subject, and is kept back.
    Quarantined,
    /// Another open transaction has written or locked the claim.
    Busy,
    /// The row calls for an invalid claim. Only the cell finds this outcome and the following ones.
    Impossible,
    /// Another row calls for the same bucket.
    Doubled,
    /// No row of the cell can have made the claim.
    Foreign,
    /// A row needs the claim at another service.
    OtherService,
}

impl Outcome {
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the outcome with this name, whoever finds it.
    pub fn of_cell_named(name: &str) -> Option<Self> {
        name.parse().ok().filter(|one| *one != Outcome::Quarantined)
    }

    /// Returns the outcome with this name, which the service sends.
    pub fn named(name: &str) -> Option<Self> {
        use Outcome::*;
        // The outcomes that a service finds.
        [Corrected, Leased, Recent, HeldByOther, Confusable, Reserved, Quarantined, Busy]
            .into_iter()
            .find(|one| one.name() == name)
    }
}

/// The state of an existing claim, for verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimState {
    pub own: bool,
    /// Whether it is a reserved name, which no cell can claim.
    pub reserved: bool,
    pub leased: bool,
    pub recent: bool,
    /// Whether it belongs to another cell, and a transfer from or to this one holds it.
    pub in_transfer: bool,
    /// The name is kept back, so that it is no claim.
    pub kept: Option<KeptName>,
}

/// Judges the existing claim on an expected bucket. Returns `None` if it is as expected. The outcome is `None` if the
/// discrepancy may be corrected.
pub fn judge(expected: &Claim, actual: Option<(&Claim, ClaimState)>) -> Option<(Discrepancy, Option<Outcome>)> {
    match actual {
        None => Some((Discrepancy::Missing, None)),
        Some((_, ClaimState { kept: Some(name), .. })) => Some((Discrepancy::Missing, reason_to_leave(name))),
        Some((_, state)) if state.reserved => Some((Discrepancy::Missing, Some(Outcome::Reserved))),
        // The transfer has not ended, so the owner is not decided yet.
        Some((_, state)) if !state.own && state.in_transfer => Some((Discrepancy::Missing, Some(Outcome::Leased))),
        Some((_, state)) if !state.own => Some((Discrepancy::Missing, Some(Outcome::HeldByOther))),
        Some((claim, _)) if same(&claim.subject, &expected.subject) && same(&claim.source, &expected.source) => None,
        Some((_, state)) => Some((Discrepancy::Different, reason_to_skip(state))),
    }
}

/// Returns the reason why a claim must not be corrected, or `None` if it may.
pub fn reason_to_skip(state: ClaimState) -> Option<Outcome> {
    if state.leased {
        Some(Outcome::Leased)
    } else if state.recent {
        Some(Outcome::Recent)
    } else {
        None
    }
}

/// Returns the reason why a name that is kept back must be left as it is, or `None` if the cell can have it.
fn reason_to_leave(name: KeptName) -> Option<Outcome> {
    match name {
        KeptName { may_be_had: false, .. } => Some(Outcome::Quarantined),
        KeptName { is_leased: true, .. } => Some(Outcome::Leased),
        _ => None,
    }
}

fn same(a: &Reference, b: &Reference) -> bool {
    a == b
}

/// An existing claim as JSON: the record and further columns.
#[derive(Serialize)]
struct ActualForm<'a> {
    #[serde(flatten)]
    record: ClaimForm<'a>,
    uuid: uuid::Uuid,
    cell_id: i64,
    status: &'static str,
}

/// Formats a record as JSON, in the form that `begin_update` takes.
pub fn record_json(claim: &Claim, types: &Types) -> Result<String, serde_json::Error> {
    serde_json::to_string(&claim_form(claim, types))
}

/// Formats a list of records as JSON.
pub fn records_json<'a>(
    claims: impl IntoIterator<Item = &'a Claim<'a>>,
    types: &'a Types,
) -> Result<String, serde_json::Error> {
    let forms: Vec<_> = claims.into_iter().map(|claim| claim_form(claim, types)).collect();
    serde_json::to_string(&forms)
}

/// Formats an existing claim as JSON: the record, with its uuid, its cell and its status.
pub fn actual_json(
    claim: &Claim,
    uuid: uuid::Uuid,
    cell_id: i64,
    status: &'static str,
    types: &Types,
) -> Result<String, serde_json::Error> {
    serde_json::to_string(&ActualForm { record: claim_form(claim, types), uuid, cell_id, status })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Bucket;

    fn claim(subject: &'static str, source: &'static str) -> Claim<'static> {
        Claim {
            bucket: Bucket { bucket_type: 1, value: "x".into() },
            subject: Reference { type_id: 2, id: subject.into() },
            source: Reference { type_id: 3, id: source.into() },
            display: None,
        }
    }

    const OLD: ClaimState =
        ClaimState { own: true, reserved: false, leased: false, recent: false, in_transfer: false, kept: None };

    #[test]
    fn only_what_differs_is_a_discrepancy() {
        let expected = claim("1", "1");
        assert_eq!(judge(&expected, Some((&claim("1", "1"), OLD))), None);
        assert_eq!(judge(&expected, None), Some((Discrepancy::Missing, None)));
        assert_eq!(judge(&expected, Some((&claim("2", "1"), OLD))), Some((Discrepancy::Different, None)));
        assert_eq!(judge(&expected, Some((&claim("1", "2"), OLD))), Some((Discrepancy::Different, None)));
    }

    /// A lease holds the claim, to destroy it or because it has just created it. Its local transaction decides.
    #[test]
    fn a_leased_claim_that_is_as_expected_is_in_order() {
        let leased = ClaimState { leased: true, recent: true, ..OLD };
        assert_eq!(judge(&claim("1", "1"), Some((&claim("1", "1"), leased))), None);
    }

    #[test]
    fn claims_that_are_not_corrected() {
        let (expected, other) = (claim("1", "1"), claim("2", "2"));
        let judged = |state| judge(&expected, Some((&other, state))).and_then(|(_, outcome)| outcome);
        assert_eq!(judged(ClaimState { leased: true, ..OLD }), Some(Outcome::Leased));
        assert_eq!(judged(ClaimState { recent: true, ..OLD }), Some(Outcome::Recent));
        assert_eq!(judged(ClaimState { leased: true, recent: true, ..OLD }), Some(Outcome::Leased));
        let foreign = ClaimState { own: false, leased: true, recent: true, ..OLD };
        assert_eq!(judged(foreign), Some(Outcome::HeldByOther));
        assert_eq!(judged(ClaimState { reserved: true, ..foreign }), Some(Outcome::Reserved));
        assert_eq!(judged(ClaimState { in_transfer: true, ..foreign }), Some(Outcome::Leased));
    }

    #[test]
    fn a_name_that_is_kept_back_is_missing() {
        let judged = |may_be_had, is_leased| {
            let kept = Some(KeptName { may_be_had, is_leased, is_leased_by_caller: false });
            judge(&claim("1", "1"), Some((&claim("1", "1"), ClaimState { own: false, reserved: true, kept, ..OLD })))
        };
        assert_eq!(judged(true, false), Some((Discrepancy::Missing, None)));
        assert_eq!(judged(true, true), Some((Discrepancy::Missing, Some(Outcome::Leased))));
        assert_eq!(judged(false, false), Some((Discrepancy::Missing, Some(Outcome::Quarantined))));
        assert_eq!(judged(false, true), Some((Discrepancy::Missing, Some(Outcome::Quarantined))));
    }

    #[test]
    fn every_outcome_of_a_service_has_its_name() {
        use Outcome::*;
        for outcome in [Corrected, Leased, Recent, HeldByOther, Confusable, Reserved, Quarantined, Busy] {
            assert_eq!(Outcome::named(outcome.name()), Some(outcome));
        }
    }
}
