//! Merges the facts that clients know of one lease.

use super::event::{Deed, Outcome, Window};
use crate::batch::Batch;
use uuid::Uuid;

/// A lease that held its buckets, from `begin` to `end`.
#[derive(Clone, Debug)]
pub struct Tenure {
    pub lease: Uuid,
    pub cell: i64,
    pub batch: Batch,
    pub begin: Window,
    /// The time by which others saw that it had begun.
    pub shown: u64,
    pub end: Window,
    pub outcome: Outcome,
}

/// The merged facts of a lease.
#[derive(Clone, Debug)]
pub enum Merged {
    /// It held its buckets.
    Held(Tenure),
    /// It was rolled back, and it is unknown whether its begin took effect.
    Maybe(Tenure),
    /// It never held a bucket: a lost begin that never arrived, or a fence.
    Nothing,
}

/// Merges the facts of one lease. An `Err` is a promise broken by the server, or an error in the notes.
pub fn merge(lease: Uuid, deeds: &[(Deed, Window)]) -> Result<Merged, String> {
    let outcome = outcome_of(lease, deeds)?;
    let Some((cell, batch)) = subject_of(lease, deeds)? else {
        return match outcome {
            Some(Outcome::Committed) => Err(format!("lease {lease} was committed, but nobody began it")),
            _ => Ok(Merged::Nothing),
        };
    };
    let (begin, shown, certain) = begin_of(deeds, outcome);
    let Some(outcome) = outcome else {
        return if certain { Err(format!("lease {lease} was begun and never ended")) } else { Ok(Merged::Nothing) };
    };
    let end = end_of(lease, deeds, outcome)?;
    let begin = Window::new(begin.lo, begin.hi.min(end.hi));
    let tenure = Tenure { lease, cell, batch, begin, shown: shown.min(end.hi), end, outcome };
    Ok(if certain { Merged::Held(tenure) } else { Merged::Maybe(tenure) })
}

/// Returns the outcome, on which all facts must agree.
fn outcome_of(lease: Uuid, deeds: &[(Deed, Window)]) -> Result<Option<Outcome>, String> {
    let mut known = None;
    for (deed, _) in deeds {
        let (Deed::Settled { outcome, .. } | Deed::Told(outcome)) = deed else { continue };
        if known.is_some_and(|k| k != *outcome) {
            return Err(format!("lease {lease} was committed and rolled back"));
        }
        known = Some(*outcome);
    }
    Ok(known)
}

/// Returns the cell and the batch, which must be equal in every begin.
fn subject_of(lease: Uuid, deeds: &[(Deed, Window)]) -> Result<Option<(i64, Batch)>, String> {
    let mut known: Option<(i64, &Batch)> = None;
    for (deed, _) in deeds {
        let (Deed::Begun { cell, batch, .. } | Deed::BeginLost { cell, batch }) = deed else { continue };
        if known.is_some_and(|k| k != (*cell, batch)) {
            return Err(format!("lease {lease} was begun with two different requests"));
        }
        known = Some((*cell, batch));
    }
    Ok(known.map(|(cell, batch)| (cell, batch.clone())))
}

/// Returns when the buckets were taken, by when others saw it, and whether they certainly were taken.
fn begin_of(deeds: &[(Deed, Window)], outcome: Option<Outcome>) -> (Window, u64, bool) {
    let mut seen = u64::MAX;
    let mut window = Window::new(u64::MAX, u64::MAX);
    let mut certain = outcome == Some(Outcome::Committed);
    for (deed, at) in deeds {
        match deed {
            Deed::Begun { shown, .. } => {
                seen = seen.min(*shown);
                window = Window::new(window.lo.min(at.lo), window.hi.min(at.hi));
                certain = true;
            }
            Deed::BeginLost { .. } => window.lo = window.lo.min(at.lo),
            Deed::Outstanding => {
                window.hi = window.hi.min(at.hi);
                seen = seen.min(at.hi);
                certain = true;
            }
            Deed::Settled { outcome: Outcome::Committed, .. } | Deed::Told(Outcome::Committed) => {
                window.hi = window.hi.min(at.hi);
            }
            _ => {}
        }
    }
    (window, seen, certain)
}

/// Returns when the lease ended: the window of the call that settled it, if that call is known.
fn end_of(lease: Uuid, deeds: &[(Deed, Window)], outcome: Outcome) -> Result<Window, String> {
    let mut first: Option<Window> = None;
    let mut lost_since: Option<u64> = None;
    let mut known_by = u64::MAX;
    let mut seen_until = 0;
    let mut begun_at = 0;
    for (deed, at) in deeds {
        match deed {
            Deed::Settled { outcome: o, first: true } if *o == outcome => {
                if first.is_some() {
                    return Err(format!("two calls say that they ended lease {lease}"));
                }
                first = Some(*at);
            }
            Deed::Settled { .. } | Deed::Told(_) => known_by = known_by.min(at.hi),
            Deed::SettleLost(o) if *o == outcome => {
                lost_since = Some(lost_since.map_or(at.lo, |t| t.min(at.lo)));
            }
            Deed::Outstanding => seen_until = seen_until.max(at.lo),
            Deed::Begun { .. } => begun_at = begun_at.max(at.lo),
            _ => {}
        }
    }
    let end = match (first, lost_since) {
        (Some(at), _) => Window::new(at.lo.max(seen_until), at.hi.min(known_by)),
        (None, Some(sent)) => Window::new(sent.max(seen_until), known_by),
        (None, None) => return Err(format!("lease {lease} is said to have ended, but nobody ended it")),
    };
    if end.lo > end.hi {
        return Err(format!("lease {lease} was seen outstanding after it had ended, or ended before anybody asked"));
    }
    if outcome == Outcome::RolledBack && begun_at > end.hi {
        return Err(format!("lease {lease} was begun again after it had been rolled back"));
    }
    Ok(end)
}
