//! Explicit transactions: several calls, savepoints, and an end by COMMIT, ROLLBACK or neither.

use super::board::Lease;
use super::draw;
use super::law::Allows;
use super::worker::Worker;
use crate::failure::Failure;
use crate::history::{Deed, Outcome, Window};
use rand::RngExt;
use std::thread;
use std::time::Duration;
use uuid::Uuid;

/// A fact that is true only if the transaction commits.
#[derive(Clone)]
struct Pending {
    lease: Lease,
    deed: Deed,
    at: Window,
}

/// The transaction so far.
struct Script {
    strict: bool,
    started: u64,
    pending: Vec<Pending>,
}

impl Script {
    /// Returns whether this transaction itself has settled the lease.
    fn settled(&self, uuid: Uuid) -> bool {
        let mut settlings = self.pending.iter().filter(|p| matches!(p.deed, Deed::Settled { first: true, .. }));
        settlings.any(|p| p.lease.uuid == uuid)
    }
}

/// The reason why a script ended early.
#[derive(Debug)]
pub enum Stop {
    /// A statement was refused, so the transaction must be rolled back.
    Refused,
    /// The connection is lost.
    Lost,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        if matches!(failure, Failure::Lost(_)) { Self::Lost } else { Self::Refused }
    }
}

/// Runs one random transaction.
pub fn run(worker: &mut Worker) {
    worker.notes.scripts += 1;
    worker.canceled = Some(false);
    run_steps(worker);
    worker.canceled = None;
}

fn run_steps(worker: &mut Worker) {
    let levels = if worker.board.service.is_distributed() { 1 } else { 3 };
    let level = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"][worker.rng.random_range(0..levels)];
    let mut script = Script { strict: level != "READ COMMITTED", started: worker.board.now(), pending: Vec::new() };
    let begun = worker.sql(&format!("BEGIN ISOLATION LEVEL {level}"));
    let played = begun.and_then(|()| play(worker, &mut script));
    let commits = played.is_ok() && worker.rng.random_bool(0.8);
    if commits {
        finish(worker, script);
    } else if !matches!(played, Err(Stop::Lost)) {
        give_up(worker);
    }
}

/// Runs the steps between BEGIN and the end.
fn play(worker: &mut Worker, script: &mut Script) -> Result<(), Stop> {
    for _ in 0..worker.rng.random_range(1..=4) {
        if worker.rng.random_bool(0.5) {
            guarded(worker, script)?;
        } else {
            step(worker, script)?;
        }
        let pause = match worker.rng.random_range(0..1000) {
            0..4 => worker.board.service.slow_transaction(),
            4..200 => Duration::from_millis(worker.rng.random_range(1..20)),
            _ => continue,
        };
        thread::sleep(pause);
    }
    Ok(())
}

/// Runs a step inside a savepoint. After a refusal, or at random, only the step is rolled back.
fn guarded(worker: &mut Worker, script: &mut Script) -> Result<(), Stop> {
    let before = script.pending.len();
    worker.sql("SAVEPOINT s")?;
    let stepped = step(worker, script);
    if matches!(stepped, Err(Stop::Lost)) {
        return stepped;
    }
    if stepped.is_err() || worker.rng.random_bool(0.3) {
        script.pending.truncate(before);
        return worker.sql("ROLLBACK TO SAVEPOINT s; RELEASE SAVEPOINT s");
    }
    worker.sql("RELEASE SAVEPOINT s")
}

/// Makes one call about leases.
fn step(worker: &mut Worker, script: &mut Script) -> Result<(), Stop> {
    match worker.rng.random_range(0..10) {
        0..5 => begin(worker, script),
        5..9 => settle(worker, script),
        _ => settle_many(worker, script),
    }
}

fn begin(worker: &mut Worker, script: &mut Script) -> Result<(), Stop> {
    let uuid = worker.rng.random_bool(0.5).then(Uuid::new_v4);
    let batch = draw::batch(&mut worker.rng, worker.board, worker.cell, false);
    let allows = Allows { serialization: script.strict, ..Allows::default() };
    let cell = worker.cell;
    // Conflicts of try_begin_update may come from this transaction itself, so they are no sighting. Those of
    // begin_update are an error, after which the transaction or its savepoint is rolled back.
    let (answer, at, raised) = worker.begin_raising(&batch, uuid, allows);
    if let Ok(Ok(uuid)) = &answer {
        worker.has_taken(&batch, at);
        let lease = Lease { uuid: *uuid, batch: batch.clone() };
        script.pending.push(Pending { lease, deed: Deed::Begun { cell, batch, shown: at.hi }, at });
    }
    let _conflicts = answer?;
    if raised { Err(Stop::Refused) } else { Ok(()) }
}

/// Chooses a lease of this transaction, or an outstanding one of the cell.
fn choose(worker: &mut Worker, script: &Script) -> Option<Lease> {
    let own: Vec<&Pending> = script.pending.iter().filter(|p| matches!(p.deed, Deed::Begun { .. })).collect();
    if !own.is_empty() && worker.rng.random_bool(0.6) {
        return Some(own[worker.rng.random_range(0..own.len())].lease.clone());
    }
    draw::outstanding(&mut worker.rng, &worker.board.book(worker.cell))
}

fn settle(worker: &mut Worker, script: &mut Script) -> Result<(), Stop> {
    let Some(lease) = choose(worker, script) else { return Ok(()) };
    let outcome = if worker.rng.random_bool(0.65) { Outcome::Committed } else { Outcome::RolledBack };
    let allows =
        Allows { serialization: script.strict, busy: true, codes: if script.strict { &["P0002"] } else { &[] } };
    // P0002: the lease is younger than the snapshot.
    let (answer, at) = worker.settle(lease.uuid, outcome, allows);
    let deed = answer?;
    // 55000 is an error that ends the transaction, so the outcome that it shows is not recorded.
    if matches!(deed, Deed::Told(_)) {
        return Err(Stop::Refused);
    }
    note(worker, script, lease, deed, at);
    Ok(())
}

fn settle_many(worker: &mut Worker, script: &mut Script) -> Result<(), Stop> {
    let chosen: Vec<Lease> = (0..3).filter_map(|_| choose(worker, script)).collect();
    let (mut commits, mut rollbacks): (Vec<Uuid>, Vec<Uuid>) = (Vec::new(), Vec::new());
    for lease in &chosen {
        if !commits.contains(&lease.uuid) && !rollbacks.contains(&lease.uuid) {
            if worker.rng.random_bool(0.6) { commits.push(lease.uuid) } else { rollbacks.push(lease.uuid) }
        }
    }
    let (answer, at) = worker.call("settle_leases", |c| c.settle(&commits, &rollbacks));
    if let Err(failure) = &answer {
        worker.check("settle_leases", failure, Allows { serialization: script.strict, ..Allows::default() });
    }
    let rows = answer?;
    for (uuid, deed) in worker.settled_rows(&rows, &commits, &rollbacks) {
        if let Some(lease) = chosen.iter().find(|l| l.uuid == uuid).cloned() {
            note(worker, script, lease, deed, at);
        }
    }
    Ok(())
}

/// Records the answer of a settling call. If others settled the lease before, the answer is as old as the snapshot. If
/// this transaction settled it before, the answer is not new.
fn note(worker: &mut Worker, script: &mut Script, lease: Lease, deed: Deed, at: Window) {
    if matches!(deed, Deed::Settled { first: true, .. }) {
        if script.settled(lease.uuid) {
            worker.notes.problem(format!("lease {} was settled twice in one transaction", lease.uuid));
        }
        script.pending.push(Pending { lease, deed, at });
    } else if !script.settled(lease.uuid) {
        let lo = if script.strict { script.started } else { at.lo };
        script.pending.push(Pending { lease, deed, at: Window::new(lo, at.hi) });
    }
}

/// Commits, and records the consequences.
fn finish(worker: &mut Worker, script: Script) {
    let (answer, at) = worker.call("COMMIT", |c| c.run("COMMIT"));
    match answer {
        Ok(()) => {
            worker.notes.scripts_committed += 1;
            committed(worker, &script.pending, at);
        }
        Err(Failure::Lost(_)) => unknown(worker, &script.pending),
        Err(failure) => {
            worker.check("COMMIT", &failure, Allows { serialization: script.strict, ..Allows::default() });
            give_up(worker);
        }
    }
}

/// Records all pending facts as true. The buckets were held from the begin call on. A settled lease released them at
/// COMMIT, unless the same transaction changed them afterwards.
fn committed(worker: &mut Worker, pending: &[Pending], commit: Window) {
    for (place, p) in pending.iter().enumerate() {
        match &p.deed {
            Deed::Begun { cell, batch, .. } => {
                let deed = Deed::Begun { cell: *cell, batch: batch.clone(), shown: commit.hi };
                worker.notes.deed(p.lease.uuid, deed, p.at);
                worker.board.book(worker.cell).begun(p.lease.clone());
            }
            Deed::Settled { first: true, .. } => {
                let used_again = pending[place..].iter().any(|q| matches!(q.deed, Deed::Begun { .. }));
                let lo = if used_again { p.at.lo } else { commit.lo };
                worker.ended(&p.lease, p.deed.clone(), Window::new(lo, commit.hi));
            }
            deed => worker.ended(&p.lease, deed.clone(), p.at),
        }
    }
}

/// Records pending facts after the connection was lost at COMMIT: each may be true or not.
fn unknown(worker: &mut Worker, pending: &[Pending]) {
    for p in pending {
        match &p.deed {
            Deed::Begun { cell, batch, .. } => {
                let lost = Deed::BeginLost { cell: *cell, batch: batch.clone() };
                worker.notes.deed(p.lease.uuid, lost, p.at);
                worker.board.book(worker.cell).unresolved.push(p.lease.clone());
            }
            Deed::Settled { outcome, first: true } => {
                worker.notes.deed(p.lease.uuid, Deed::SettleLost(*outcome), p.at);
            }
            _ => {}
        }
    }
}

/// Rolls back, repeatedly, because the saboteur may cancel it.
fn give_up(worker: &mut Worker) {
    while !worker.lost && worker.sql("ROLLBACK").is_err() {}
}
