//! Begins and settles leases, in transactions of their own or as steps of a script.

use super::HOT;
use super::board::{Lease, LostBegin};
use super::draw;
use super::law::{self, Allows};
use super::queue::Taken;
use super::worker::Worker;
use crate::batch::Batch;
use crate::cell::Tried;
use crate::failure::{Conflict, Failure};
use crate::history::{Deed, Outcome, Window};
use rand::RngExt;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;
use uuid::Uuid;

impl Worker<'_> {
    /// Calls `begin_update`, or sometimes `try_begin_update`, and parses refusals.
    pub fn begin(&mut self, batch: &Batch, uuid: Option<Uuid>, allows: Allows) -> (Result<Tried, Failure>, Window) {
        let (answer, at, _) = self.begin_raising(batch, uuid, allows);
        (answer, at)
    }

    /// Like [`Self::begin`], and also returns whether the answer was an error, conflicts included.
    pub fn begin_raising(
        &mut self,
        batch: &Batch,
        uuid: Option<Uuid>,
        mut allows: Allows,
    ) -> (Result<Tried, Failure>, Window, bool) {
        allows.busy |= uuid.is_some();
        let trying = self.rng.random_bool(0.25);
        let (answer, at) = if trying {
            self.call("try_begin_update", |c| c.try_begin(batch, uuid))
        } else {
            self.call("begin_update", |c| c.begin(batch, uuid).map(Ok))
        };
        let raised = answer.is_err();
        let answer = match answer {
            Ok(Err(conflicts)) => {
                if let Err(why) = law::lawful(&conflicts, batch) {
                    self.notes.problem(format!("try_begin_update: {why}"));
                }
                Ok(Err(conflicts))
            }
            Err(Failure::Refused(refusal)) if !trying => match law::conflicts_of(&refusal, batch) {
                Some(Ok(conflicts)) => Ok(Err(conflicts)),
                Some(Err(why)) => {
                    self.notes.problem(format!("begin_update: {why}"));
                    Err(Failure::Refused(refusal))
                }
                None => Err(Failure::Refused(refusal)),
            },
            other => other,
        };
        match &answer {
            Ok(Ok(lease)) if uuid.is_some_and(|u| u != *lease) => {
                self.notes.problem(format!("begin_update of {uuid:?} returned {lease}"));
            }
            Ok(Err(conflicts)) => {
                conflicts.iter().for_each(|c| *self.notes.conflicts.entry(c.reason.clone()).or_default() += 1)
            }
            Err(failure) => self.check("begin_update", failure, allows),
            Ok(_) => {}
        }
        (answer, at, raised)
    }

    /// Records the states of buckets that conflicts show. They were true at some time during the call.
    fn believe(&mut self, conflicts: &[Conflict], at: Window) {
        for conflict in conflicts {
            if let Some(states) = law::sighting(conflict) {
                self.notes.seen(&conflict.bucket, states, at);
            }
            if let (Some(holder), Some(index)) =
                (conflict.holder, self.board.buckets.iter().position(|b| *b == conflict.bucket))
            {
                self.board.hints[index].store(holder, Relaxed);
            }
        }
    }

    pub fn begin_something(&mut self) {
        let uuid = self.rng.random_bool(0.5).then(Uuid::new_v4);
        let batch = draw::batch(&mut self.rng, self.board, self.cell, uuid.is_none());
        let allows = Allows { serialization: self.strict, ..Allows::default() };
        if let Some(at) = self.begin_noted(batch.clone(), uuid, allows) {
            self.has_taken(&batch, at);
        }
    }

    /// Takes one of the names that many want, and gives it back after a moment.
    pub fn take_hot(&mut self) {
        let number = self.rng.random_range(0..HOT);
        let name = self.board.buckets[number].clone();
        // A lease of this cell on the name may be one that creates it.
        let is_own = self.board.hints[number].load(Relaxed) == self.cell && self.rng.random_bool(0.5);
        let (batch, outcome) = match is_own {
            true => (Batch::destroy(vec![name]), Outcome::Committed),
            false => (Batch::create(vec![(name, self.board.fresh_source())]), Outcome::RolledBack),
        };
        let allows = Allows { serialization: self.strict, ..Allows::default() };
        if let Some((uuid, at)) = self.begin_alone(&batch, Some(Uuid::new_v4()), allows) {
            self.has_taken(&batch, at);
            thread::sleep(Duration::from_millis(self.rng.random_range(0..8)));
            let lease = Lease { uuid, batch };
            if !self.settle_noted(&lease, outcome) {
                self.board.book(self.cell).begun(lease);
            }
        }
    }

    /// Records that a new lease has taken its names.
    pub fn has_taken(&mut self, batch: &Batch, at: Window) {
        let buckets = batch.buckets().map(String::from).collect();
        self.notes.taken.push(Taken { pid: self.conn.pid, buckets, at, priority: self.priority });
    }

    /// Begins in a transaction of its own, and records the result. Returns when, if it succeeded.
    pub fn begin_noted(&mut self, batch: Batch, uuid: Option<Uuid>, allows: Allows) -> Option<Window> {
        let (uuid, at) = self.begin_alone(&batch, uuid, allows)?;
        self.board.book(self.cell).begun(Lease { uuid, batch });
        Some(at)
    }

    /// Like [`Self::begin_noted`], for a lease that no other connection of the cell settles.
    fn begin_alone(&mut self, batch: &Batch, uuid: Option<Uuid>, allows: Allows) -> Option<(Uuid, Window)> {
        let (answer, at) = self.begin(batch, uuid, allows);
        let (cell, batch) = (self.cell, batch.clone());
        match (answer, uuid) {
            (Ok(Ok(uuid)), _) => {
                self.notes.deed(uuid, Deed::Begun { cell, batch, shown: at.hi }, at);
                return Some((uuid, at));
            }
            (Ok(Err(conflicts)), _) => self.believe(&conflicts, at),
            (Err(Failure::Lost(_)), Some(uuid)) => {
                self.notes.deed(uuid, Deed::BeginLost { cell, batch: batch.clone() }, at);
                self.board.book(cell).unresolved.push(Lease { uuid, batch });
            }
            (Err(Failure::Lost(_)), None) => self.board.book(cell).lost.push(LostBegin { batch, at }),
            (Err(Failure::Refused(refusal)), Some(uuid)) if refusal.code == "55000" => {
                self.notes.deed(uuid, Deed::Told(Outcome::RolledBack), at);
            }
            (Err(_), _) => {}
        }
        None
    }

    pub fn settle_one(&mut self) {
        let lease = draw::outstanding(&mut self.rng, &self.board.book(self.cell));
        if let Some(lease) = lease {
            let outcome = if self.rng.random_bool(0.65) { Outcome::Committed } else { Outcome::RolledBack };
            self.settle_noted(&lease, outcome);
        }
    }

    /// Calls `commit_update` or `rollback_update`. The caller judges the answer. A refusal with 55000 shows the other
    /// outcome.
    pub fn settle(&mut self, uuid: Uuid, outcome: Outcome, allows: Allows) -> (Result<Deed, Failure>, Window) {
        let (kind, other) = match outcome {
            Outcome::Committed => ("commit_update", Outcome::RolledBack),
            Outcome::RolledBack => ("rollback_update", Outcome::Committed),
        };
        let (answer, at) = self.call(kind, |c| match outcome {
            Outcome::Committed => c.commit(uuid),
            Outcome::RolledBack => c.rollback(uuid),
        });
        let answer = match answer {
            Ok(first) => Ok(Deed::Settled { outcome, first }),
            Err(Failure::Refused(refusal)) if refusal.code == "55000" => Ok(Deed::Told(other)),
            Err(failure) => {
                self.check(kind, &failure, allows);
                Err(failure)
            }
        };
        (answer, at)
    }

    /// Settles in a transaction of its own, and records the result. Returns whether the lease is known to be settled.
    pub fn settle_noted(&mut self, lease: &Lease, outcome: Outcome) -> bool {
        let allows = Allows { serialization: self.strict, busy: true, codes: &[] };
        let (answer, at) = self.settle(lease.uuid, outcome, allows);
        let is_settled = answer.is_ok();
        match answer {
            Ok(deed) => self.ended(lease, deed, at),
            Err(Failure::Lost(_)) => self.notes.deed(lease.uuid, Deed::SettleLost(outcome), at),
            Err(_) => {}
        }
        is_settled
    }

    /// Records how the lease ended, by an answer of the server.
    pub fn ended(&mut self, lease: &Lease, deed: Deed, at: Window) {
        match deed {
            Deed::Settled { outcome: Outcome::Committed, first: true } => self.board.hint(&lease.batch, self.cell, 0),
            Deed::Settled { outcome: Outcome::RolledBack, first: true } => self.board.hint(&lease.batch, 0, self.cell),
            _ => {}
        }
        self.notes.deed(lease.uuid, deed, at);
        self.board.book(self.cell).settled(lease.uuid);
    }
}
