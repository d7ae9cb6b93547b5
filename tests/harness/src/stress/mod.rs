//! The stress run: many clients, few buckets, and a saboteur who cancels statements and kills backends.
//!
//! `worker` chooses actions: single calls (`leases`, `pranks`), explicit transactions (`script`), and after a lost
//! connection the rest of the interrupted one (`recover`). `law` has the allowed answers, and every action is recorded
//! in `notes`. `saboteur` disturbs the workers, and `follower` reads the change feed. `finish` settles the remaining
//! leases and reads the end state. Then `history` judges by the notes and by the feed whether every bucket had one
//! owner at a time.
//!
//! `service` has the claims. On a Citus cluster the clients are distributed over the nodes like the tables, and
//! `wrecker` crashes nodes.

mod board;
mod draw;
mod finish;
mod follower;
mod hand;
mod law;
mod leases;
mod notes;
mod options;
mod pranks;
mod queue;
mod recover;
mod report;
mod saboteur;
mod script;
mod service;
mod worker;
mod wrecker;

use crate::history::{judge, judge_feed};
use anyhow::{Result, anyhow};
use board::Board;
use follower::Follower;
use notes::Notes;
use options::Options;
use queue::Sightings;
use report::Report;
use service::Service;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

/// The role of the reader of the change feed.
const ROUTER: &str = "stress_router";
const CELLS: usize = 8;
const CONNECTIONS: usize = 16;
const BUCKETS: usize = 300;
/// The first of these buckets are wanted by many at once, and seldom for long.
const HOT: usize = 2;
/// The highest priority of a cell's sessions.
const MAX_PRIORITY: i32 = 3;

pub fn main() -> ExitCode {
    match Options::from_args().and_then(run) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("stress: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the role of a cell.
fn role(cell: i64) -> String {
    format!("stress_cell_{cell}")
}

fn run(options: Options) -> Result<bool> {
    let service = Service::find(&options)?;
    let admin = service.prepare()?;
    println!(
        "stress: {CONNECTIONS} connections, {} nodes, {CELLS} cells, {BUCKETS} buckets, {} s, seed {}",
        service.nodes().len(),
        options.seconds,
        options.seed
    );
    let board = Board::new(service, options.seed);
    let mut run = disturb(&board, &options)?;
    wrecker::recover(&board)?;
    let end = finish::settle_everything(&board, &mut run.notes)?;
    if let Some(follower) = &mut run.follower {
        follower.finish(&board.service)?;
        let stored = follower::stored(&board.service)?;
        judge_feed(&follower.changes, &stored, &end).into_iter().for_each(|problem| run.notes.problem(problem));
    }
    let verdict = judge(&run.notes.events, &end);
    let order = run.sightings.as_ref().map(|sightings| queue::judge_order(&mut run.notes, sightings));
    drop(admin);
    let ok = Report { run: &run, verdict: &verdict, order: order.as_ref(), bound: board.service.bound() }.print();
    if ok {
        board.service.remove()?;
    } else {
        println!("the database {} is left for inspection", board.service.database);
    }
    Ok(ok)
}

/// The results of all threads.
struct Run {
    notes: Notes,
    sabotage: saboteur::Sabotage,
    /// If there is more than one node.
    wreckage: Option<wrecker::Wreckage>,
    /// If the change feed is on.
    follower: Option<Follower>,
    /// Who was seen waiting, if waiters have an order.
    sightings: Option<Sightings>,
}

/// Lets the workers and the saboteurs run for the configured time, and gathers their results.
fn disturb(board: &Board, options: &Options) -> Result<Run> {
    let time = Duration::from_secs(options.seconds);
    let is_distributed = board.service.is_distributed();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..CONNECTIONS).map(|number| scope.spawn(move || worker::work(board, number))).collect();
        let saboteur = scope.spawn(|| saboteur::disturb(board));
        let wrecker = is_distributed.then(|| scope.spawn(|| wrecker::wreck(board)));
        let follower = (!is_distributed).then(|| scope.spawn(|| Follower::follow(board)));
        let has_order = !is_distributed && board.service.is_preloaded();
        let observer = has_order.then(|| scope.spawn(|| Sightings::observe(board)));
        thread::sleep(time / 2);
        let stolen = options.theft.then(|| wrecker::steal(board)).transpose();
        thread::sleep(time / 2);
        // Set also after a failure, because the other threads wait for it.
        board.over.store(true, Relaxed);
        if let Some(bucket) = stolen? {
            println!("stolen: {bucket}");
        }
        let sabotage = saboteur.join().map_err(|_| anyhow!("the saboteur panicked"))??;
        let mut notes = Notes::default();
        for worker in workers {
            notes.merge(worker.join().map_err(|_| anyhow!("a worker panicked"))??);
        }
        let wreckage = wrecker.map(|w| w.join().map_err(|_| anyhow!("the wrecker panicked"))?).transpose()?;
        let follower = follower.map(|f| f.join().map_err(|_| anyhow!("the follower panicked"))?).transpose()?;
        let sightings = observer.map(|o| o.join().map_err(|_| anyhow!("the observer panicked"))?).transpose()?;
        Ok(Run { notes, sabotage, wreckage, follower, sightings })
    })
}
