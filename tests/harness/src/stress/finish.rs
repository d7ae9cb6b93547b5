//! The end of the run: settles every lease, and reads the end state.

use super::board::{Board, Book};
use super::notes::Notes;
use super::{CELLS, law, recover, role};
use crate::cell::{Cell, Listed};
use crate::damage;
use crate::history::{Deed, Event, Final, Outcome, Window};
use anyhow::{Context, Result};
use postgres::Client;
use std::collections::{BTreeSet, HashSet};
use uuid::Uuid;

/// Settles all outstanding leases, reads all outcomes, and returns the end state.
pub fn settle_everything(board: &Board, notes: &mut Notes) -> Result<Final> {
    let begun = leases_in(notes, |deed| matches!(deed, Deed::Begun { .. } | Deed::BeginLost { .. }));
    for id in 1..=CELLS as i64 {
        let mut cell = connect(board, id)?;
        let book = std::mem::take(&mut *board.book(id));
        recognize(board, &mut cell, &book, &begun, notes)?;
        settle_cell(board, &mut cell, notes)?;
    }
    ask_outcomes(board, notes)?;
    let mut admin = board.service.admin()?;
    for row in admin.query("SELECT c::text FROM claims.check() AS c", &[])? {
        notes.problem(format!("claims.check(): {}", row.get::<_, String>(0)));
    }
    damage::find(&mut admin)?.into_iter().for_each(|damage| notes.problem(damage));
    end_state(&mut admin, notes)
}

/// Connects each cell to a node of its own.
fn connect(board: &Board, id: i64) -> Result<Cell> {
    let nodes = board.service.nodes();
    Ok(Cell::connect(&nodes[id as usize % nodes.len()], &board.service.database, id, &role(id))?)
}

/// Returns the leases for which the notes have such a deed.
fn leases_in(notes: &Notes, wanted: impl Fn(&Deed) -> bool) -> HashSet<Uuid> {
    let lease = |event: &Event| match event {
        Event::Lease { lease, deed, .. } if wanted(deed) => Some(*lease),
        _ => None,
    };
    notes.events.iter().filter_map(lease).collect()
}

/// Checks that a client began every outstanding lease, or sent a begin for it.
fn recognize(board: &Board, cell: &mut Cell, book: &Book, begun: &HashSet<Uuid>, notes: &mut Notes) -> Result<()> {
    let lo = board.now();
    let listed = cell.list_all()?;
    let at = Window::new(lo, board.now());
    for Listed { lease, payload, .. } in listed.iter().filter(|l| begun.contains(&l.lease)) {
        notes.deed(*lease, Deed::Outstanding, at);
        if payload["create_records"].as_array().is_none() {
            notes.problem(format!("the payload of lease {lease} has no create_records"));
        }
    }
    for unknown in listed.iter().filter(|l| !begun.contains(&l.lease)) {
        match book.lost.iter().find(|lost| recover::matches(lost, unknown)) {
            Some(lost) => {
                let deed = Deed::BeginLost { cell: cell.id, batch: lost.batch.clone() };
                notes.deed(unknown.lease, deed, lost.at);
                notes.deed(unknown.lease, Deed::Outstanding, at);
            }
            None => notes.problem(format!("cell {} has a lease that nobody began: {unknown:?}", cell.id)),
        }
    }
    Ok(())
}

/// Commits and rolls back alternately; the first half one by one, the second half in one call.
fn settle_cell(board: &Board, cell: &mut Cell, notes: &mut Notes) -> Result<()> {
    let leases: Vec<Uuid> = cell.list_all()?.into_iter().map(|l| l.lease).collect();
    let (single, together) = leases.split_at(leases.len() / 2);
    for (n, lease) in single.iter().enumerate() {
        let lo = board.now();
        let (outcome, first) = if n % 2 == 0 {
            (Outcome::Committed, cell.commit(*lease)?)
        } else {
            (Outcome::RolledBack, cell.rollback(*lease)?)
        };
        notes.deed(*lease, Deed::Settled { outcome, first }, Window::new(lo, board.now()));
    }
    let (commits, rollbacks) = together.split_at(together.len() / 2);
    let lo = board.now();
    let rows = cell.settle(commits, rollbacks)?;
    let at = Window::new(lo, board.now());
    for row in rows {
        let outcome = if commits.contains(&row.lease) { Outcome::Committed } else { Outcome::RolledBack };
        if !row.settled {
            notes.problem(format!("settle_leases with nobody else there: {row:?}"));
        }
        notes.deed(row.lease, Deed::Settled { outcome, first: true }, at);
    }
    if !cell.list_all()?.is_empty() {
        notes.problem(format!("cell {} still has leases after settling all of them", cell.id));
    }
    Ok(())
}

/// Reads the outcome of every lease that was ever begun or settled. The judge compares them.
fn ask_outcomes(board: &Board, notes: &mut Notes) -> Result<()> {
    let mut asked: BTreeSet<(i64, Uuid)> = BTreeSet::new();
    for event in &notes.events {
        if let Event::Lease { lease, deed: Deed::Begun { cell, .. } | Deed::BeginLost { cell, .. }, .. } = event {
            asked.insert((*cell, *lease));
        }
    }
    let ended = leases_in(notes, |deed| matches!(deed, Deed::Settled { .. } | Deed::Told(_)));
    for id in 1..=CELLS as i64 {
        let mut cell = connect(board, id)?;
        let mine: Vec<Uuid> = asked.iter().filter(|(c, _)| *c == id).map(|(_, lease)| *lease).collect();
        let lo = board.now();
        let rows =
            cell.client.query("SELECT l, claims.lease_outcome($1, l) FROM unnest($2::uuid[]) AS l", &[&id, &mine])?;
        let at = Window::new(lo, board.now());
        for row in rows {
            let (lease, told): (Uuid, Option<String>) = (row.get(0), row.get(1));
            match told.as_deref() {
                Some("committed") => notes.deed(lease, Deed::Told(Outcome::Committed), at),
                Some("rolled_back") => notes.deed(lease, Deed::Told(Outcome::RolledBack), at),
                None if !ended.contains(&lease) => {}
                odd => notes.problem(format!("lease {lease} has ended, lease_outcome says {odd:?}")),
            }
        }
    }
    Ok(())
}

/// Reads the table of claims at the end.
fn end_state(admin: &mut Client, notes: &mut Notes) -> Result<Final> {
    let mut end = Final::default();
    for row in admin.query("SELECT bucket_value, creator_id, status FROM claims.claims", &[])? {
        let (bucket, cell, status): (String, i64, i16) = (row.get(0), row.get(1), row.get(2));
        let name = ["UNSPECIFIED", "ACTIVE", "LEASE_CREATING", "LEASE_DESTROYING"][status as usize];
        let state = law::state(name, cell).with_context(|| format!("{bucket} has status {status}"))?;
        if end.claims.insert(bucket.clone(), state).is_some() {
            notes.problem(format!("bucket {bucket} stands twice in the table"));
        }
    }
    let leases: i64 = admin.query_one("SELECT count(*) FROM claims.claim_leases", &[])?.get(0);
    if leases != 0 {
        notes.problem(format!("{leases} leases are outstanding after all were settled"));
    }
    Ok(end)
}
