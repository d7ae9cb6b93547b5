//! Compares the answers to the cells with each other, and with the end state of the service.
//!
//! The judge is that of the stress run (`history`). It knows leases, so it decides for each name whether the answers
//! fit any course of events. A general checker, for example of linearizable registers or of transactions, would need
//! all these rules first.

use std::collections::{BTreeSet, HashMap, HashSet};

use anyhow::{Context, Result};
use postgres::Client;
use uuid::Uuid;

use super::board::Notes;
use crate::damage;
use crate::history::judge::Verdict as Judged;
use crate::history::{Deed, Event, Final, Outcome, State, judge};

#[derive(Debug, Default)]
pub struct Verdict {
    /// The numbers of acknowledged begins and settlements.
    pub begins: usize,
    pub settlements: usize,
    /// Leases with an acknowledged call that was lost.
    pub lost: BTreeSet<Uuid>,
    /// Names that two cells had at once, by their answers.
    pub doubled: Vec<String>,
    /// All problems, as text.
    pub problems: Vec<String>,
    pub leases: usize,
    pub names: usize,
    pub changes_of_owner: usize,
    pub lookups: usize,
    /// The number of look-ups that showed an older state.
    pub outdated: usize,
}

impl Verdict {
    pub fn is_good(&self) -> bool {
        self.lost.is_empty() && self.doubled.is_empty() && self.problems.is_empty()
    }
}

pub fn reach(admin: &mut Client, mut notes: Notes) -> Result<Verdict> {
    let outcomes = outcomes(admin)?;
    let end = end_state(admin)?;
    let mut verdict = Verdict { problems: std::mem::take(&mut notes.problems), ..Verdict::default() };
    for row in admin.query("SELECT c::text FROM claims.check() AS c", &[])? {
        verdict.problems.push(format!("claims.check(): {}", row.get::<_, String>(0)));
    }
    verdict.problems.extend(damage::find(admin)?);
    let outstanding: i64 = admin.query_one("SELECT count(*) FROM claims.claim_leases", &[])?.get(0);
    if outstanding != 0 {
        verdict.problems.push(format!("{outstanding} leases are outstanding after recovery"));
    }
    find_lost(&notes.events, &outcomes, &mut verdict);

    let judged = judge(&notes.events, &end);
    let Judged { problems, broken, doubled, leases, buckets, changes_of_owner, .. } = judged;
    let answered = problems.len();
    verdict.problems.extend(problems);
    verdict.lost.extend(broken);
    (verdict.doubled, verdict.leases, verdict.names, verdict.changes_of_owner) =
        (doubled, leases, buckets, changes_of_owner);

    verdict.lookups = notes.sightings.len();
    notes.events.append(&mut notes.sightings);
    verdict.outdated = judge(&notes.events, &end).problems.len().saturating_sub(answered);
    Ok(verdict)
}

/// Compares the acknowledged calls with the outcomes that the service has.
fn find_lost(events: &[Event], outcomes: &HashMap<Uuid, Outcome>, verdict: &mut Verdict) {
    let mut begun = HashSet::new();
    for event in events {
        let Event::Lease { lease, deed, .. } = event else { continue };
        let answered = match deed {
            Deed::Begun { .. } => {
                begun.insert(*lease);
                None
            }
            Deed::Settled { outcome, .. } | Deed::Told(outcome) => Some(*outcome),
            _ => continue,
        };
        match answered {
            Some(_) => verdict.settlements += 1,
            None => verdict.begins += 1,
        }
        let known = outcomes.get(lease).copied();
        if known.is_none() || (answered.is_some() && answered != known) {
            verdict.lost.insert(*lease);
        }
    }
}

fn outcomes(admin: &mut Client) -> Result<HashMap<Uuid, Outcome>> {
    let rows = admin.query("SELECT lease_uuid, outcome FROM claims.lease_outcomes", &[])?;
    let outcome = |word: &str| match word {
        "committed" => Ok(Outcome::Committed),
        "rolled_back" => Ok(Outcome::RolledBack),
        other => anyhow::bail!("outcome {other}"),
    };
    rows.iter().map(|row| Ok((row.get(0), outcome(row.get(1))?))).collect()
}

/// Reads the table of claims at the end.
fn end_state(admin: &mut Client) -> Result<Final> {
    let mut end = Final::default();
    for row in admin.query("SELECT bucket_value, creator_id, status FROM claims.claims", &[])? {
        let (bucket, cell, status): (String, i64, i16) = (row.get(0), row.get(1), row.get(2));
        let state = match status {
            1 => Some(State::Active(cell)),
            2 => Some(State::Creating(cell)),
            3 => Some(State::Destroying(cell)),
            _ => None,
        };
        end.claims.insert(bucket, state.with_context(|| format!("a claim has status {status}"))?);
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::history::Window;

    /// Returns the number of lost facts of one lease, if the service has this outcome at the end.
    fn lost(answered: &[Deed], known: Option<Outcome>) -> usize {
        let lease = Uuid::from_u128(1);
        let event = |deed: &Deed| Event::Lease { lease, deed: deed.clone(), at: Window::new(1, 2) };
        let events: Vec<Event> = answered.iter().map(event).collect();
        let mut verdict = Verdict::default();
        find_lost(&events, &known.into_iter().map(|outcome| (lease, outcome)).collect(), &mut verdict);
        verdict.lost.len()
    }

    #[test]
    fn acknowledged_calls_must_have_an_outcome() {
        let begun = Deed::Begun { cell: 1, batch: Batch::default(), shown: 2 };
        let committed = Deed::Settled { outcome: Outcome::Committed, first: true };
        assert_eq!(lost(&[begun.clone(), committed.clone()], Some(Outcome::Committed)), 0);
        assert_eq!(lost(std::slice::from_ref(&begun), Some(Outcome::RolledBack)), 0);
        assert_eq!(lost(std::slice::from_ref(&begun), None), 1, "its begin is gone");
        assert_eq!(lost(&[begun.clone(), committed.clone()], None), 1);
        assert_eq!(lost(&[begun, committed], Some(Outcome::RolledBack)), 1, "its commit is gone");
        assert_eq!(lost(&[Deed::Told(Outcome::RolledBack)], Some(Outcome::Committed)), 1);
    }

    #[test]
    fn unanswered_calls_may_have_any_outcome() {
        let sent = Deed::BeginLost { cell: 1, batch: Batch::default() };
        assert_eq!(lost(&[sent, Deed::SettleLost(Outcome::Committed)], None), 0);
    }
}
