//! The order of calls that wait for names: an observer sees who waits, and `claims_model::overtaking` judges whether
//! somebody was overtaken.

use super::board::Board;
use super::notes::Notes;
use crate::history::{Deed, Event, Outcome, Window};
use anyhow::Result;
use claims_model::overtaking::{Freed, Overtakings, Sighted, Taking, overtakings};
use std::collections::HashMap;
use std::thread;
use std::time::Duration;
use uuid::Uuid;

/// A begin that has taken names.
#[derive(Clone, Debug)]
pub struct Taken {
    pub pid: i32,
    pub buckets: Vec<String>,
    pub at: Window,
    /// The priority of its session, if that waits.
    pub priority: Option<i32>,
}

/// A call in claims.lease_waiters, as one look has shown it.
struct Look {
    at: Window,
    since_us: i64,
    priority: i32,
}

/// All looks, by process.
#[derive(Default)]
pub struct Sightings {
    by_pid: HashMap<i32, Vec<Look>>,
    pub looks: usize,
    /// The largest number of calls that waited at once.
    pub most: usize,
}

/// Those that are registered for a name. A waiter that has lost its turn is not, until it looks again.
const LOOK: &str = "SELECT pid, (extract(epoch FROM since) * 1000000)::bigint, priority \
                    FROM claims.lease_waiters WHERE names > 0";

impl Sightings {
    /// Looks until the run ends.
    pub fn observe(board: &Board) -> Result<Self> {
        let mut client = board.service.admin()?;
        let look = client.prepare(LOOK)?;
        let mut all = Self::default();
        while !board.is_over() {
            let lo = board.now();
            let rows = client.query(&look, &[])?;
            let at = Window::new(lo, board.now());
            all.looks += 1;
            all.most = all.most.max(rows.len());
            for row in rows {
                let look = Look { at, since_us: row.get(1), priority: row.get(2) };
                all.by_pid.entry(row.get(0)).or_default().push(look);
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(all)
    }

    /// Returns what the observer has seen of a call. A call waits once.
    fn of(&self, taken: &Taken) -> Option<(Sighted, i32)> {
        let looks = self.by_pid.get(&taken.pid)?;
        let mut during = looks.iter().filter(|look| taken.at.lo <= look.at.lo && look.at.hi <= taken.at.hi);
        let first = during.next()?;
        let last = during.next_back().unwrap_or(first);
        let sighted = Sighted { from: micros(first.at.hi), until: micros(last.at.lo), since: first.since_us };
        Some((sighted, first.priority))
    }
}

fn micros(nanos: u64) -> i64 {
    i64::try_from(nanos / 1000).unwrap_or(i64::MAX)
}

/// Judges the order, and records what is wrong.
pub fn judge_order(notes: &mut Notes, sightings: &Sightings) -> Overtakings {
    let mut takings = Vec::new();
    let mut problems = Vec::new();
    for taken in &notes.taken {
        let seen = sightings.of(taken);
        if let (Some((_, seen)), Some(priority)) = (&seen, taken.priority)
            && *seen != priority
        {
            problems.push(format!("lease_waiters shows priority {seen} of a session that has {priority}"));
        }
        if seen.is_some() && taken.priority.is_none() {
            problems.push(format!("process {} waited, although it has no claims.lease_wait", taken.pid));
        }
        // Who waits for several names may have waited for another one.
        let sighted = seen.map(|(sighted, _)| sighted).filter(|_| taken.buckets.len() == 1);
        takings.extend(taken.buckets.iter().map(|bucket| Taking {
            name: bucket.as_str(),
            asked: micros(taken.at.lo),
            got: micros(taken.at.hi),
            priority: taken.priority,
            sighted,
        }));
    }
    let judged = overtakings(&takings, &freed(&notes.events));
    for (first, second) in &judged.found {
        problems.push(format!("{:?} was overtaken by {:?}", takings[*first], takings[*second]));
    }
    problems.into_iter().for_each(|problem| notes.problem(problem));
    judged
}

/// Returns the ends of leases that their clients know, for each bucket.
fn freed(events: &[Event]) -> Vec<Freed<&str>> {
    let mut buckets: HashMap<Uuid, Vec<&str>> = HashMap::new();
    for event in events {
        if let Event::Lease { lease, deed: Deed::Begun { batch, .. } | Deed::BeginLost { batch, .. }, .. } = event {
            buckets.entry(*lease).or_insert_with(|| batch.buckets().collect());
        }
    }
    let ends = events.iter().filter_map(|event| match event {
        Event::Lease {
            lease,
            deed: Deed::Settled { outcome: Outcome::Committed | Outcome::RolledBack, first: true },
            at,
        } => Some((buckets.get(lease)?, micros(at.lo))),
        _ => None,
    });
    ends.flat_map(|(names, from)| names.iter().map(move |name| Freed { name: *name, from })).collect()
}
