//! Calls that a careful client would not make: repeats, contradictions, other cells' leases. And reads.

use super::board::Lease;
use super::law::{self, Allows};
use super::worker::Worker;
use super::{CELLS, draw};
use crate::batch::Batch;
use crate::cell::SettledRow;
use crate::failure::Failure;
use crate::history::{Deed, Outcome, State};
use rand::RngExt;
use uuid::Uuid;

impl Worker<'_> {
    /// Repeats an earlier call, which must be harmless.
    pub fn repeat_something(&mut self) {
        let Some(lease) = draw::any_lease(&mut self.rng, &self.board.book(self.cell)) else { return };
        let allows = Allows { serialization: self.strict, busy: true, codes: &["55000"] };
        match self.rng.random_range(0..5) {
            0 | 1 => {
                self.begin_noted(lease.batch, Some(lease.uuid), allows);
            }
            2 => {
                self.settle_noted(&lease, Outcome::Committed);
            }
            3 => {
                self.settle_noted(&lease, Outcome::RolledBack);
            }
            _ => {
                let other = draw::batch(&mut self.rng, self.board, self.cell, true);
                let allows = Allows { codes: &["55000", "22023"], ..allows };
                let (answer, _) = self.begin(&other, Some(lease.uuid), allows);
                if let Ok(tried) = answer {
                    self.notes.problem(format!("another request under {}: {tried:?}", lease.uuid));
                }
            }
        }
    }

    pub fn settle_many(&mut self) {
        let (mut commits, mut rollbacks) = (Vec::new(), Vec::new());
        for _ in 0..self.rng.random_range(1..=6) {
            let lease = draw::any_lease(&mut self.rng, &self.board.book(self.cell));
            let uuid = lease.map_or_else(Uuid::new_v4, |l| l.uuid);
            if commits.contains(&uuid) || rollbacks.contains(&uuid) {
                continue;
            }
            if self.rng.random_bool(0.6) { commits.push(uuid) } else { rollbacks.push(uuid) }
        }
        if self.rng.random_bool(0.1) {
            rollbacks.push(Uuid::new_v4());
        }
        let (answer, at) = self.call("settle_leases", |c| c.settle(&commits, &rollbacks));
        match answer {
            Ok(rows) => {
                for (uuid, deed) in self.settled_rows(&rows, &commits, &rollbacks) {
                    let known = self.board.book(self.cell).find(uuid);
                    let lease = known.unwrap_or_else(|| Lease { uuid, batch: Batch::default() });
                    self.ended(&lease, deed, at);
                }
            }
            Err(Failure::Lost(_)) => {
                commits.iter().for_each(|u| self.notes.deed(*u, Deed::SettleLost(Outcome::Committed), at));
                rollbacks.iter().for_each(|u| self.notes.deed(*u, Deed::SettleLost(Outcome::RolledBack), at));
            }
            Err(failure) => {
                self.check("settle_leases", &failure, Allows { serialization: self.strict, ..Allows::default() });
            }
        }
    }

    /// Returns the facts in the rows of `settle_leases`. There must be one row for each lease.
    pub fn settled_rows(&mut self, rows: &[SettledRow], commits: &[Uuid], rollbacks: &[Uuid]) -> Vec<(Uuid, Deed)> {
        let mut got: Vec<Uuid> = rows.iter().map(|r| r.lease).collect();
        let mut asked: Vec<Uuid> = commits.iter().chain(rollbacks).copied().collect();
        got.sort();
        asked.sort();
        if got != asked {
            self.notes.problem(format!("settle_leases answers for {got:?}, asked were {asked:?}"));
        }
        let mut deeds = Vec::new();
        for row in rows {
            let wanted = if commits.contains(&row.lease) { Outcome::Committed } else { Outcome::RolledBack };
            let told = match row.outcome.as_deref() {
                Some("committed") => Outcome::Committed,
                Some("rolled_back" | "fenced") => Outcome::RolledBack,
                _ if row.settled => {
                    self.notes.problem(format!("settle_leases: settled, but {row:?}"));
                    continue;
                }
                _ => continue,
            };
            if row.settled && told != wanted {
                self.notes.problem(format!("settle_leases: asked for {wanted:?}, got {row:?}"));
            }
            let done = Deed::Settled { outcome: told, first: true };
            deeds.push((row.lease, if row.settled { done } else { Deed::Told(told) }));
        }
        deeds
    }

    /// Reads leases or records.
    pub fn read_something(&mut self) {
        let allows = Allows { serialization: self.strict, ..Allows::default() };
        if self.rng.random_bool(0.3) {
            let (answer, _) = self.call("list_leases", |c| c.list(None, 10));
            if let Err(failure) = answer {
                self.check("list_leases", &failure, allows);
            }
            return;
        }
        let name = draw::any_bucket(&mut self.rng, self.board).to_string();
        match self.call("get_record", |c| c.get_record(&name)) {
            (Ok(_), at) if self.board.was_dark(at) => {}
            (Ok(None), at) => self.notes.seen(&name, vec![State::Free], at),
            (Ok(Some(record)), at) => match law::state(&record.status, record.cell) {
                Some(state) => self.notes.seen(&name, vec![state], at),
                None => self.notes.problem(format!("get_record: odd status {record:?}")),
            },
            (Err(failure), _) => self.check("get_record", &failure, allows),
        }
    }

    /// Tries a call that only another cell may make.
    pub fn trespass(&mut self) {
        let other = (self.cell + self.rng.random_range(1..CELLS as i64) - 1) % CELLS as i64 + 1;
        let Some(theirs) = draw::any_lease(&mut self.rng, &self.board.book(other)) else { return };
        let what = self.rng.random_range(0..4);
        let batch = draw::batch(&mut self.rng, self.board, self.cell, true);
        let own = self.conn.id;
        let codes: &'static [&'static str] = [&["P0002"], &["P0002"], &["23505"], &["42501"]][what];
        let (answer, _) = self.call("trespass", |c| match what {
            0 => c.commit(theirs.uuid).map(|_| ()),
            1 => c.rollback(theirs.uuid).map(|_| ()),
            2 => c.begin(&batch, Some(theirs.uuid)).map(|_| ()),
            _ => {
                c.id = other;
                let answer = c.begin(&batch, None).map(|_| ());
                c.id = own;
                answer
            }
        });
        match answer {
            Ok(()) => self.notes.problem(format!("trespass {what} against cell {other} was allowed")),
            Err(failure) => {
                self.check("trespass", &failure, Allows { serialization: self.strict, busy: what < 3, codes });
            }
        }
    }
}
