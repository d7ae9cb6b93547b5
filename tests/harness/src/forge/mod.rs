//! A forged service: every way to answer a cell wrongly, at every call that it makes.
//!
//! `service` stands between cells and a real service, and forwards calls. At one call it tells one of the `lies`, made
//! from the real answer. `ways` has the calls, `case` tries one lie at one of them, and `laws` has what must hold
//! whatever was answered.

mod aftermath;
mod call;
mod case;
mod home;
mod lag;
mod laws;
mod lie;
mod lies;
mod plan;
mod process;
mod report;
mod service;
mod session;
mod teller;
mod ways;
mod wire;
mod worker;

use std::env;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use case::{Case, Outcome};
use home::{Field, Home};
use lag::Lag;
use plan::Pair;
use report::Report;
use ways::{Kind, WAYS};

/// How long a cell waits for an answer, for a long answer, and for a connection.
const TIMEOUT: Duration = Duration::from_millis(400);
const LONG_TIMEOUT: Duration = Duration::from_secs(4);
const CONNECT: Duration = Duration::from_secs(1);

/// The number of cells that are lied to concurrently; most of them wait. The last ones have the workers.
const SESSIONS: usize = 6;
const WORKERS: usize = 4;

/// The number of consecutive attempts in which a law about time must be broken to count as broken.
const ATTEMPTS: usize = 3;
/// How often a case is repeated because the server was restarted.
const DISTURBANCES: usize = 100;

pub fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("forge: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool> {
    let seed = match env::var("FORGE_SEED") {
        Ok(seed) => seed.parse().context("FORGE_SEED is no number")?,
        Err(_) => rand::random_range(0..1_000_000),
    };
    let pairs = match env::var("FORGE_LIES").as_deref() {
        Ok("all") => plan::all(),
        Ok("two") => plan::some(seed, 2),
        _ => plan::some(seed, 1),
    };
    let until = match env::var("FORGE_SECONDS") {
        Ok(seconds) => {
            Some(Instant::now() + Duration::from_secs(seconds.parse().context("FORGE_SECONDS is no number")?))
        }
        Err(_) => None,
    };
    let only = env::var("FORGE_ONLY").unwrap_or_default();
    let pairs: Vec<_> = pairs.into_iter().filter(|(lie, way)| format!("{}: {way}", lie.name).contains(&only)).collect();
    println!("forge: {} lies at calls, seed {seed}", pairs.len());
    let field = Field::from_env()?;
    field.prepare()?;
    let homes = (1..=SESSIONS + WORKERS).map(|cell| Home::make(&field, cell)).collect::<Result<Vec<_>>>()?;
    let pairs = plan::shuffled(pairs, seed);
    let (of_workers, of_sessions): (Vec<_>, Vec<_>) =
        pairs.into_iter().partition(|(_, way)| matches!(way.session, Kind::Worker(_)));
    let (of_sessions, of_workers) = (Queue::new(of_sessions, until), Queue::new(of_workers, until));
    let report = Mutex::new(Report::default());
    let lag = Lag::start();
    thread::scope(|scope| {
        let tries: Vec<_> = homes
            .iter()
            .map(|home| {
                let queue = if home.cell <= SESSIONS { &of_sessions } else { &of_workers };
                let (report, lag) = (&report, &lag);
                scope.spawn(move || try_all(home, queue, lag, report))
            })
            .collect();
        tries.into_iter().try_for_each(|tried| tried.join().unwrap_or_else(|_| bail!("a thread panicked")))
    })?;
    let report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(report.print())
}

/// Pairs that several threads take from.
struct Queue {
    pairs: Vec<Pair>,
    next: AtomicUsize,
    /// No pair is taken from then on.
    until: Option<Instant>,
}

impl Queue {
    fn new(pairs: Vec<Pair>, until: Option<Instant>) -> Queue {
        Queue { pairs, next: AtomicUsize::new(0), until }
    }

    fn next(&self) -> Option<(usize, Pair)> {
        if self.until.is_some_and(|until| Instant::now() > until) {
            return None;
        }
        let number = self.next.fetch_add(1, Relaxed);
        Some((number, *self.pairs.get(number)?))
    }
}

fn try_all(home: &Home, queue: &Queue, lag: &Lag, report: &Mutex<Report>) -> Result<()> {
    while let Some((number, (lie, way))) = queue.next() {
        let case = |attempt| Case { home, way, lie, name: format!("c{}n{number}a{attempt}x", home.cell), lag };
        let mut repeats = 0;
        let outcome = try_one(case, &mut repeats).with_context(|| format!("{}: {way}", lie.name))?;
        let place = WAYS.iter().position(|other| std::ptr::eq(other, way)).unwrap_or(0);
        let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
        (0..repeats).for_each(|_| report.repeated());
        report.add(lie, place, way, &outcome);
    }
    Ok(())
}

/// Repeats a case until its result counts.
fn try_one<'c>(case: impl Fn(usize) -> Case<'c>, repeats: &mut usize) -> Result<Outcome> {
    let (mut late, mut disturbed) = (0, 0);
    loop {
        match case(*repeats).run()? {
            Ok(outcome) => {
                late += 1;
                let is_by_chance = |outcome: &Outcome| {
                    !outcome.breaches.is_empty() && outcome.breaches.iter().all(|breach| breach.law.is_of_time())
                };
                if !is_by_chance(&outcome) || late == ATTEMPTS {
                    return Ok(outcome);
                }
            }
            Err(case::Disturbed) => {
                disturbed += 1;
                if disturbed == DISTURBANCES {
                    bail!("the server is restarted again and again");
                }
            }
        }
        *repeats += 1;
    }
}
