//! The actions of a client after it has lost its connection: it finds out which calls took effect.

use super::board::{Lease, LostBegin};
use super::law::Allows;
use super::worker::Worker;
use crate::cell::Listed;
use crate::history::{Deed, Outcome, Window};
use rand::RngExt;
use serde_json::Value;

/// Returns the source id of the first create in a payload. Only one batch has it.
pub fn source_of(payload: &Value) -> Option<i64> {
    let id = &payload["create_records"][0]["source"]["rails_primary_key_id"];
    id.as_i64().or_else(|| id.as_str()?.parse().ok())
}

/// Returns whether an outstanding lease has the batch of the lost begin.
pub fn matches(lost: &LostBegin, listed: &Listed) -> bool {
    lost.batch.creates.first().is_some_and(|(_, source)| source_of(&listed.payload) == Some(*source))
}

impl Worker<'_> {
    /// Reads the outcomes of leases with a known uuid whose begin or transaction was lost.
    pub fn resolve(&mut self) {
        let unresolved = std::mem::take(&mut self.board.book(self.cell).unresolved);
        for lease in unresolved {
            let (answer, at) = self.call("lease_outcome", |c| c.outcome(lease.uuid));
            match answer {
                Ok(Some(told)) => self.resolved(lease, &told, at),
                Ok(None) if self.rng.random_bool(0.5) => {
                    self.settle_noted(&lease, Outcome::RolledBack);
                }
                Ok(None) => {
                    let allows = Allows { serialization: self.strict, busy: true, codes: &["55000"] };
                    self.begin_noted(lease.batch, Some(lease.uuid), allows);
                }
                Err(failure) => {
                    let allows = Allows { serialization: self.strict, ..Allows::default() };
                    self.check("lease_outcome", &failure, allows);
                    self.board.book(self.cell).unresolved.push(lease);
                }
            }
        }
    }

    fn resolved(&mut self, lease: Lease, told: &str, at: Window) {
        match told {
            "outstanding" => {
                self.notes.deed(lease.uuid, Deed::Outstanding, at);
                self.board.book(self.cell).begun(lease);
            }
            "committed" => self.notes.deed(lease.uuid, Deed::Told(Outcome::Committed), at),
            "rolled_back" => self.notes.deed(lease.uuid, Deed::Told(Outcome::RolledBack), at),
            odd => self.notes.problem(format!("lease_outcome: {odd}")),
        }
    }

    /// Searches the outstanding leases for lost begins whose uuid the server has chosen.
    pub fn adopt(&mut self) {
        let lost = std::mem::take(&mut self.board.book(self.cell).lost);
        if lost.is_empty() {
            return;
        }
        let (answer, at) = self.call("list_leases", |c| c.list_all());
        match answer {
            Ok(listed) => {
                for lost in lost {
                    let found = listed.iter().find(|l| matches(&lost, l));
                    found.into_iter().for_each(|l| self.adopted(&lost, l, at));
                }
            }
            Err(failure) => {
                self.check("list_leases", &failure, Allows { serialization: self.strict, ..Allows::default() });
                self.board.book(self.cell).lost.extend(lost);
            }
        }
    }

    fn adopted(&mut self, lost: &LostBegin, listed: &Listed, at: Window) {
        let (cell, batch) = (self.cell, lost.batch.clone());
        self.notes.deed(listed.lease, Deed::BeginLost { cell, batch: batch.clone() }, lost.at);
        self.notes.deed(listed.lease, Deed::Outstanding, at);
        self.board.book(cell).begun(Lease { uuid: listed.lease, batch });
    }
}
