//! The allowed answers of each call.

use crate::batch::Batch;
use crate::failure::{Conflict, Refusal, sqlstate_of};
use crate::history::State;

/// The failures that the circumstances of a call allow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allows {
    /// REPEATABLE READ or SERIALIZABLE: 40001.
    pub serialization: bool,
    /// Another session may be settling or beginning the lease: 55P03 without DETAIL.
    pub busy: bool,
    /// Other SQLSTATEs that this call may raise.
    pub codes: &'static [&'static str],
}

impl Allows {
    /// Returns whether the refusal is lawful for a call about leases. A canceled statement always is.
    pub fn permits(&self, refusal: &Refusal) -> bool {
        match refusal.code.as_str() {
            "57014" => true,
            "40001" => self.serialization,
            "55P03" => self.busy && refusal.detail.is_none(),
            code => self.codes.contains(&code),
        }
    }
}

/// Returns the conflicts of a refused batch. `Err` says why the list is unlawful.
pub fn conflicts_of(refusal: &Refusal, batch: &Batch) -> Option<Result<Vec<Conflict>, String>> {
    let conflicts = refusal.conflicts()?;
    let wrong = match sqlstate_of(&conflicts) {
        Some(code) if code == refusal.code => lawful(&conflicts, batch).err(),
        expected => Some(format!("SQLSTATE {} where the conflicts call for {expected:?}", refusal.code)),
    };
    let wrong = wrong.or_else(|| refusal.hint.is_none().then(|| "a conflict without a HINT".to_string()));
    Some(match wrong {
        None => Ok(conflicts),
        Some(why) => Err(format!("{why}: {:?}", refusal.detail)),
    })
}

/// Checks that the conflicts belong to the batch, have its order, and make sense.
pub fn lawful(conflicts: &[Conflict], batch: &Batch) -> Result<(), String> {
    if sqlstate_of(conflicts).is_none() {
        return Err(format!("no conflicts, or odd ones: {conflicts:?}"));
    }
    let mut last = None;
    for conflict in conflicts {
        let place = batch.buckets().position(|name| name == conflict.bucket);
        let Some(place) = place else { return Err(format!("a conflict about a bucket not asked for: {conflict:?}")) };
        if last.is_some_and(|l| l >= place) {
            return Err(format!("conflicts out of the batch's order: {conflicts:?}"));
        }
        last = Some(place);
        let op = if place < batch.creates.len() { "create" } else { "destroy" };
        let reasons: &[&str] = match op {
            "create" => &["taken", "leased", "in_flight", "queued"],
            _ => &["not_owner", "missing", "leased", "in_flight", "queued"],
        };
        if conflict.op != op || !reasons.contains(&conflict.reason.as_str()) {
            return Err(format!("a conflict that cannot be: {conflict:?}"));
        }
    }
    Ok(())
}

/// Returns the states of a bucket that a conflict shows. Returns `None` if it shows only an open transaction.
pub fn sighting(conflict: &Conflict) -> Option<Vec<State>> {
    let held = |cell: i64| vec![State::Creating(cell), State::Destroying(cell)];
    match (conflict.reason.as_str(), conflict.holder) {
        ("taken", Some(cell)) => Some(vec![State::Active(cell)]),
        ("leased", Some(cell)) => Some(held(cell)),
        ("not_owner", Some(cell)) => Some([held(cell), vec![State::Active(cell)]].concat()),
        ("missing", _) => Some(vec![State::Free]),
        _ => None,
    }
}

/// Converts a status of `get_record`.
pub fn state(status: &str, cell: i64) -> Option<State> {
    match status {
        "ACTIVE" => Some(State::Active(cell)),
        "LEASE_CREATING" => Some(State::Creating(cell)),
        "LEASE_DESTROYING" => Some(State::Destroying(cell)),
        _ => None,
    }
}
