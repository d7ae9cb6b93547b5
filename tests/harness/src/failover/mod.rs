//! The failover campaign: three nodes of the service under Patroni, sixteen writing cells, and a primary that is
//! killed, frozen, cut off, out of space or switched over, in every round.
//!
//! `cluster` starts the nodes (`node`, each behind `relay`s) and etcd as ordinary processes (`process`), and asks
//! Patroni for their state (`rest`). `round` lets a `fault` strike, and waits until the cluster is complete again. The
//! cells are `writer`s. Each has a `session` with the current primary, and records the answers on the `board`.
//! `verdict` compares the notes with the end state of the service. No acknowledged call may be lost, and no name may
//! have had two owners.
//!
//! The program exits with 0 if there are no problems, with 1 if something was lost, and with 2 if it could not find
//! out.

mod board;
mod cluster;
mod fault;
mod node;
mod options;
mod process;
mod relay;
mod report;
mod rest;
mod round;
mod session;
mod verdict;
mod writer;

use std::process::ExitCode;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rand::SeedableRng;
use rand::rngs::StdRng;

use board::{Board, CELLS, Notes};
use cluster::Cluster;
use options::Options;
use round::Round;
use verdict::Verdict;
use writer::Writer;

/// Returns a cell's role at the service.
fn role(cell: i64) -> String {
    format!("cell_{cell}")
}

pub fn main() -> ExitCode {
    match Options::from_env().and_then(run) {
        Ok(verdict) if verdict.is_good() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            eprintln!("failover: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(options: Options) -> Result<Verdict> {
    process::adopt_orphans()?;
    report::opening(&options);
    let cluster = Cluster::start(options.clone())?;
    cluster.install()?;
    let ports = cluster.nodes.iter().map(|node| node.clients.port).collect();
    let board = Board::new(ports, options.password.clone(), options.seed);
    let (rounds, notes, trouble) = campaign(&cluster, &board)?;
    let notes = recover(&board, notes)?;
    report::refusals(&notes);
    let verdict = verdict::reach(&mut cluster.admin(cluster.leader(None).context("nobody leads")?)?, notes)?;
    report::silences(&rounds);
    report::verdict(&options, rounds.len(), &verdict);
    match trouble {
        Some(trouble) if verdict.is_good() => Err(trouble),
        _ => Ok(verdict),
    }
}

/// Runs all rounds while the cells write. A round that fails is the last one. If the service runs nevertheless, the
/// campaign so far can be judged.
fn campaign(cluster: &Cluster, board: &Board) -> Result<(Vec<Round>, Notes, Option<anyhow::Error>)> {
    thread::scope(|scope| {
        let cells: Vec<_> = (1..=CELLS).map(|cell| scope.spawn(move || Writer::new(board, cell).work())).collect();
        let mut rounds = Vec::new();
        let trouble = play_all(cluster, board, &mut rounds).err();
        thread::sleep(Duration::from_secs(1));
        let serves = trouble.is_none() || board.serves_since(board.now().saturating_sub(10_000_000_000));
        if serves {
            board.end()
        } else {
            board.abandon()
        }
        let notes = gather(cells)?;
        match trouble {
            Some(trouble) if !serves => Err(trouble),
            trouble => Ok((rounds, notes, trouble)),
        }
    })
}

fn play_all(cluster: &Cluster, board: &Board, rounds: &mut Vec<Round>) -> Result<()> {
    let mut rng = StdRng::seed_from_u64(board.seed);
    let options = &cluster.options;
    for (n, kind) in fault::schedule(options, &mut rng).into_iter().enumerate() {
        if board.now() / 1_000_000_000 >= options.minutes * 60 {
            break;
        }
        let round = round::play(cluster, board, kind, &mut rng)?;
        report::round(n + 1, options.rounds, &round);
        rounds.push(round);
    }
    Ok(())
}

/// Runs the recovery of every cell.
fn recover(board: &Board, mut notes: Notes) -> Result<Notes> {
    let decided = &std::mem::take(&mut notes.decided);
    let recovered = thread::scope(|scope| {
        gather((1..=CELLS).map(|cell| scope.spawn(move || Writer::new(board, cell).recover(decided))).collect())
    })?;
    notes.merge(recovered);
    Ok(notes)
}

fn gather(cells: Vec<ScopedJoinHandle<Notes>>) -> Result<Notes> {
    let mut all = Notes::default();
    for cell in cells {
        all.merge(cell.join().map_err(|_| anyhow!("a cell panicked"))?);
    }
    Ok(all)
}
