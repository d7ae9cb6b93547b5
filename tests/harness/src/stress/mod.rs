//! The stress run: many clients, few buckets, and somebody who cancels statements and kills backends.
//!
//! `worker` picks what to do: single calls (`leases`, `pranks`), explicit transactions (`script`), and after a
//! lost connection what is left of it (`recover`). All follow `law`, which says what the
//! server may answer, and write `notes`. `saboteur` disturbs them, and `follower` reads the change feed. `finish` settles what is left
//! and reads the end state; `history` then decides whether every bucket had one owner at a time, by the notes and by the feed.

mod board;
mod draw;
mod finish;
mod follower;
mod law;
mod leases;
mod notes;
mod options;
mod pranks;
mod recover;
mod report;
mod saboteur;
mod script;
mod worker;

use crate::history::{judge, judge_feed};
use crate::server::{Server, fresh_role, register_cell};
use anyhow::{Context, Result, anyhow};
use board::Board;
use follower::Follower;
use notes::Notes;
use options::Options;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

const DATABASE: &str = "claims_stress";
/// Who follows the change feed.
const ROUTER: &str = "stress_router";
const CELLS: usize = 8;
const CONNECTIONS: usize = 16;
const BUCKETS: usize = 300;

/// No call may take longer. Some transactions stay open for longer than that, so waiting for one shows.
const BOUND: Duration = Duration::from_millis(1000);
const SLOW_TRANSACTION: Duration = Duration::from_millis(1500);

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

/// The role of a cell.
fn role(cell: i64) -> String {
    format!("stress_cell_{cell}")
}

fn run(options: Options) -> Result<bool> {
    let server = Server::from_env()?;
    let mut admin = server.fresh_database(DATABASE)?;
    admin.batch_execute("CREATE EXTENSION claims").context("CREATE EXTENSION claims failed")?;
    // Looks for deadlocks early: with some clients waiting, one would be noticed.
    admin.batch_execute(&format!("ALTER DATABASE {DATABASE} SET deadlock_timeout = '3ms'"))?;
    admin.batch_execute(&format!("ALTER DATABASE {DATABASE} SET claims.change_feed = on"))?;
    fresh_role(&mut admin, ROUTER)?;
    admin.execute("SELECT claims.grant_read(($1::text)::name)", &[&ROUTER])?;
    for cell in 1..=CELLS as i64 {
        fresh_role(&mut admin, &role(cell))?;
        register_cell(&mut admin, cell, &role(cell), &format!("cell {cell}"))?;
    }
    println!(
        "stress: {CONNECTIONS} connections, {CELLS} cells, {BUCKETS} buckets, {} s, seed {}",
        options.seconds, options.seed
    );
    let board = Board::new(server.clone(), options.seed);
    let (mut notes, sabotage, mut follower) = disturb(&board, Duration::from_secs(options.seconds))?;
    let end = finish::settle_everything(&board, &mut notes)?;
    follower.finish(&server)?;
    let stored = follower::stored(&mut admin)?;
    judge_feed(&follower.told, &stored, &end).into_iter().for_each(|problem| notes.problem(problem));
    let verdict = judge(&notes.events, &end);
    let ok = report::print(&notes, &sabotage, &verdict, &follower);
    if ok {
        drop(admin);
        server.drop_database(DATABASE)?;
        let roles: Vec<String> = (1..=CELLS as i64).map(role).collect();
        server.drop_roles(roles.iter().map(String::as_str).chain([ROUTER]))?;
    } else {
        println!("the database {DATABASE} is left for inspection");
    }
    Ok(ok)
}

/// Lets the workers, the saboteur and the follower run for the given time and gathers what they have.
fn disturb(board: &Board, time: Duration) -> Result<(Notes, saboteur::Sabotage, Follower)> {
    thread::scope(|scope| {
        let workers: Vec<_> = (0..CONNECTIONS).map(|number| scope.spawn(move || worker::work(board, number))).collect();
        let saboteur = scope.spawn(|| saboteur::disturb(board));
        let follower = scope.spawn(|| Follower::follow(board));
        thread::sleep(time);
        board.over.store(true, Relaxed);
        let sabotage = saboteur.join().map_err(|_| anyhow!("the saboteur panicked"))??;
        let mut all = Notes::default();
        for worker in workers {
            all.merge(worker.join().map_err(|_| anyhow!("a worker panicked"))??);
        }
        let follower = follower.join().map_err(|_| anyhow!("the follower panicked"))??;
        Ok((all, sabotage, follower))
    })
}
