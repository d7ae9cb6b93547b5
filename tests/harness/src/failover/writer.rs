//! A cell: it begins and settles leases, repeats unanswered calls until they are answered, and records the answers.

use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::atomic::Ordering::Relaxed;
use uuid::Uuid;

use super::board::{Board, Notes};
use super::session::Session;
use crate::batch::Batch;
use crate::failure::{Failure, Refusal};
use crate::history::{Deed, Event, Outcome, State, Window};

/// The number of names in each round that all cells want.
const SHARED: u32 = 24;
/// The number of its own names that a cell remembers, to destroy them later.
const REMEMBERED: usize = 60;
const PAUSE: Duration = Duration::from_millis(100);

pub struct Writer<'a> {
    board: &'a Board,
    cell: i64,
    rng: StdRng,
    pub notes: Notes,
    session: Option<Session>,
    /// The node of the last primary.
    host: usize,
    owned: Vec<String>,
    made: i64,
}

/// The result of a settling call.
enum Ended {
    As(Outcome),
    Unknown,
}

impl<'a> Writer<'a> {
    pub fn new(board: &'a Board, cell: i64) -> Self {
        let rng = StdRng::seed_from_u64(board.seed.wrapping_mul(1009).wrapping_add(u64::try_from(cell).unwrap_or(0)));
        Self { board, cell, rng, notes: Notes::default(), session: None, host: 0, owned: Vec::new(), made: 0 }
    }

    /// Saves until the campaign ends.
    pub fn work(mut self) -> Notes {
        let mut round = 0;
        while !self.board.is_over() {
            if self.board.round.load(Relaxed) != round {
                round = self.board.round.load(Relaxed);
                self.reconcile();
            }
            self.save();
            let pause = self.rng.random_range(50..250);
            thread::sleep(Duration::from_millis(if self.board.is_slow() { 4 * pause } else { pause }));
        }
        self.notes
    }

    /// Saves once: begins, runs the local transaction, settles. Some cells die before they settle, and leave the lease
    /// to recovery.
    fn save(&mut self) {
        let batch = self.draw();
        let lease = Uuid::new_v4();
        if !self.begin(lease, &batch) {
            return;
        }
        let outcome = if self.rng.random_bool(0.85) { Outcome::Committed } else { Outcome::RolledBack };
        if self.rng.random_bool(0.004) {
            self.notes.decided.insert(lease, outcome);
        } else if matches!(self.settle(lease, outcome), Some(Ended::As(Outcome::Committed))) {
            self.owned.extend(batch.creates.iter().map(|(name, _)| name.clone()));
            let excess = self.owned.len().saturating_sub(REMEMBERED);
            self.owned.drain(..excess);
        } else if outcome == Outcome::RolledBack {
            self.owned.extend(batch.destroys);
        }
        if self.rng.random_bool(0.05) {
            self.read_name();
        }
    }

    /// Settles, a round later, the leases that were left to recovery.
    fn reconcile(&mut self) {
        for (lease, outcome) in std::mem::take(&mut self.notes.decided) {
            self.settle(lease, outcome);
        }
    }

    /// Draws names of its own, names that others want too, and names to give up.
    fn draw(&mut self) -> Batch {
        let round = self.board.round.load(Relaxed);
        let mut batch = Batch::default();
        if self.rng.random_bool(0.6) {
            let name = format!("r{round}-{}", self.rng.random_range(0..SHARED));
            if !self.owned.contains(&name) {
                self.made += 1;
                batch.creates.push((name, self.made));
            }
        }
        if batch.creates.is_empty() || self.rng.random_bool(0.3) {
            self.made += 1;
            batch.creates.push((format!("cell{}-{}", self.cell, self.made), self.made));
        }
        if !self.owned.is_empty() && self.rng.random_bool(0.7) {
            let place = self.rng.random_range(0..self.owned.len());
            batch.destroys.push(self.owned.swap_remove(place));
        }
        if !batch.destroys.is_empty() && self.rng.random_bool(0.3) {
            batch.creates.clear();
        }
        batch
    }

    // --- calls --------------------------------------------------------------------------------------------------------

    /// Connects to a node that says that it is the primary. Returns false if the campaign was abandoned meanwhile.
    fn connected(&mut self) -> bool {
        while self.session.is_none() {
            if self.board.is_abandoned() {
                return false;
            }
            // Some cells wait very long for an answer, so that they are still connected when a frozen node wakes up.
            let call_timeout = Duration::from_secs(if self.cell % 4 == 0 { 90 } else { 3 });
            let port = self.board.ports[self.host % self.board.ports.len()];
            match Session::connect(port, self.cell, &self.board.password, call_timeout) {
                Ok(session) => self.session = Some(session),
                Err(_) => {
                    self.host = self.rng.random_range(0..self.board.ports.len());
                    thread::sleep(PAUSE);
                }
            }
        }
        true
    }

    /// Makes one call, and measures its time. Returns `None` if the campaign was abandoned.
    fn call<T>(&mut self, call: impl FnOnce(&Session) -> Result<T, Failure>) -> Option<(Result<T, Failure>, Window)> {
        if !self.connected() {
            return None;
        }
        let session = self.session.as_ref()?;
        let lo = self.board.now();
        let answer = call(session);
        let at = Window::new(lo, self.board.now());
        if let Err(failure) = &answer {
            *self.notes.refusals.entry(failure.code().to_string()).or_default() += 1;
            // 25006: the node is no primary any more.
            if matches!(failure.code(), "lost" | "25006") {
                self.session = None;
            }
        }
        Some((answer, at))
    }

    /// Returns whether to repeat a refused call. The node may be no primary, or have no standby or no space, or an
    /// earlier call for the lease may still run there.
    fn repeats(&mut self, refusal: &Refusal) -> bool {
        let temporary = match refusal.code.as_str() {
            "25006" | "40001" => true,
            "55P03" => refusal.conflicts().is_none(),
            "55000" => refusal.message.contains("without a synchronous standby"),
            code => code.starts_with("53") || code.starts_with("58"),
        };
        if temporary {
            thread::sleep(PAUSE);
        }
        temporary
    }

    /// Begins a lease. Repeats unanswered calls, or gives the lease up by a fence. Returns whether the cell has the
    /// lease.
    fn begin(&mut self, lease: Uuid, batch: &Batch) -> bool {
        let cell = self.cell;
        let mut unanswered = false;
        loop {
            let Some((answer, at)) = self.call(|s| s.begin(batch, lease)) else { return false };
            match answer {
                Ok(_) => {
                    self.notes.deed(lease, Deed::Begun { cell, batch: batch.clone(), shown: at.hi }, at);
                    self.board.acknowledge(at);
                    if !self.rng.random_bool(0.03) {
                        return true;
                    }
                }
                Err(Failure::Lost(_)) => {
                    self.notes.deed(lease, Deed::BeginLost { cell, batch: batch.clone() }, at);
                    unanswered = true;
                    if self.rng.random_bool(0.3) {
                        self.settle(lease, Outcome::RolledBack);
                        return false;
                    }
                }
                Err(Failure::Refused(refusal)) if self.repeats(&refusal) => {}
                Err(Failure::Refused(refusal)) => {
                    match refusal.conflicts() {
                        Some(_) => self.notes.conflicts += 1,
                        None => self.problem("begin_update", &refusal),
                    }
                    // An earlier call may have begun it, on another node.
                    if unanswered {
                        self.settle(lease, Outcome::RolledBack);
                    }
                    return false;
                }
            }
        }
    }

    /// Settles, and repeats unanswered calls. Returns `None` if the campaign was abandoned.
    fn settle(&mut self, lease: Uuid, outcome: Outcome) -> Option<Ended> {
        // Commits like a cell's session. The answer of commit_unflushed guarantees nothing; the following call does.
        if outcome == Outcome::Committed && self.rng.random_bool(0.2) {
            let (_, at) = self.call(|s| s.commit_unflushed(lease))?;
            self.notes.deed(lease, Deed::SettleLost(outcome), at);
            thread::sleep(Duration::from_millis(self.rng.random_range(0..100)));
        }
        loop {
            let many = self.rng.random_bool(0.15);
            let ended = if many { self.settle_many(lease, outcome)? } else { self.settle_one(lease, outcome)? };
            match ended {
                None => {}
                // A repeat must answer that it was done before.
                Some(Ended::As(_)) if self.rng.random_bool(0.05) => {}
                Some(ended) => return Some(ended),
            }
        }
    }

    /// Calls `commit_update` or `rollback_update`. The outer `None` means abandoned, and the inner one means that the
    /// call must be repeated.
    fn settle_one(&mut self, lease: Uuid, outcome: Outcome) -> Option<Option<Ended>> {
        let (answer, at) = match outcome {
            Outcome::Committed => self.call(|s| s.commit(lease))?,
            Outcome::RolledBack => self.call(|s| s.rollback(lease))?,
        };
        Some(match answer {
            Ok(first) => {
                self.notes.deed(lease, Deed::Settled { outcome, first }, at);
                self.board.acknowledge(at);
                Some(Ended::As(outcome))
            }
            Err(Failure::Lost(_)) => {
                self.notes.deed(lease, Deed::SettleLost(outcome), at);
                None
            }
            Err(Failure::Refused(refusal)) if self.repeats(&refusal) => None,
            Err(Failure::Refused(refusal)) => Some(self.refused(lease, outcome, &refusal, at)),
        })
    }

    /// Records a settlement that cannot succeed any more: an earlier answer was wrong.
    fn refused(&mut self, lease: Uuid, outcome: Outcome, refusal: &Refusal, at: Window) -> Ended {
        self.problem(if outcome == Outcome::Committed { "commit_update" } else { "rollback_update" }, refusal);
        let other = match outcome {
            Outcome::Committed => Outcome::RolledBack,
            Outcome::RolledBack => Outcome::Committed,
        };
        if refusal.code == "55000" {
            self.notes.deed(lease, Deed::Told(other), at);
            return Ended::As(other);
        }
        Ended::Unknown
    }

    /// Like [`Self::settle_one`], by `settle_leases`, which does not say whether this call settled the lease.
    fn settle_many(&mut self, lease: Uuid, outcome: Outcome) -> Option<Option<Ended>> {
        let (commits, rollbacks) =
            if outcome == Outcome::Committed { (vec![lease], vec![]) } else { (vec![], vec![lease]) };
        let (answer, at) = self.call(|s| s.settle(&commits, &rollbacks))?;
        Some(match answer {
            Ok(rows) => match rows.first() {
                Some((_, _, true)) => {
                    self.notes.deed(lease, Deed::SettleLost(outcome), at);
                    self.notes.deed(lease, Deed::Told(outcome), at);
                    self.board.acknowledge(at);
                    Some(Ended::As(outcome))
                }
                Some((_, Some(answered), false)) if answered == "busy" => {
                    thread::sleep(PAUSE);
                    None
                }
                // settle_one describes the problem.
                _ => return self.settle_one(lease, outcome),
            },
            Err(Failure::Lost(_)) => {
                self.notes.deed(lease, Deed::SettleLost(outcome), at);
                None
            }
            Err(Failure::Refused(refusal)) if self.repeats(&refusal) => None,
            Err(Failure::Refused(refusal)) => Some(self.refused(lease, outcome, &refusal, at)),
        })
    }

    fn read_name(&mut self) {
        let bucket = format!("r{}-{}", self.board.round.load(Relaxed), self.rng.random_range(0..SHARED));
        let Some((Ok(shown), at)) = self.call(|s| s.read_name(&bucket)) else { return };
        let state = match shown {
            None => State::Free,
            Some((cell, status)) => match status.as_str() {
                "ACTIVE" => State::Active(cell),
                "LEASE_CREATING" => State::Creating(cell),
                "LEASE_DESTROYING" => State::Destroying(cell),
                _ => return self.notes.problems.push(format!("{bucket} has the status {status}")),
            },
        };
        self.notes.sightings.push(Event::Seen { bucket, any_of: vec![state], at });
    }

    fn problem(&mut self, what: &str, refusal: &Refusal) {
        let Refusal { code, message, .. } = refusal;
        self.notes.problems.push(format!("cell {}: {what}: {code} {message}", self.cell));
    }

    // --- the end ------------------------------------------------------------------------------------------------------

    /// Runs recovery: each outstanding lease ends like its local transaction, and without one it is rolled back.
    pub fn recover(mut self, decided: &std::collections::HashMap<Uuid, Outcome>) -> Notes {
        while let Some((listed, at)) = self.call(|s| s.list(1000)) {
            let Ok(leases) = listed else { continue };
            if leases.is_empty() {
                break;
            }
            for (lease, _) in leases {
                self.notes.deed(lease, Deed::Outstanding, at);
                let outcome = decided.get(&lease).copied().unwrap_or(Outcome::RolledBack);
                if self.settle(lease, outcome).is_none() {
                    return self.notes;
                }
            }
        }
        self.notes
    }
}
