//! Many sessions of a cell's application that save at the same time: `fleet SESSIONS SECONDS [PAUSE_MS]`.
//!
//! `PGHOST`, `PGPORT`, `PGUSER` and `PGDATABASE` lead to the cell. Each session inserts a row into `routes`, or the table that `FLEET_TABLE`
//! names, waits for the pause, and repeats that. A save that fails counts by its SQLSTATE, and the session continues. Before the time begins, all sessions have
//! connected to the cell, and none to the service.
//!
//! Prints one line: the saves per second in the second half of the time, before which sessions should have saved once; the median, the 99th
//! percentile and the longest time of a save in milliseconds; the number of sessions without any save, the longest time until an error, and
//! the errors as SQLSTATE=COUNT.

use std::collections::BTreeMap;
use std::env;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_postgres::{Client, Config, NoTls, Statement};

/// The saves of one session.
#[derive(Default)]
struct Tally {
    /// When each has ended, and how long it has taken.
    saved: Vec<(Instant, Duration)>,
    failed: Vec<(String, Duration)>,
}

pub fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fleet: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (sessions, seconds, pause) = match arguments.as_slice() {
        [sessions, seconds] => (sessions, seconds, 0),
        [sessions, seconds, pause] => (sessions, seconds, pause.parse()?),
        _ => bail!("usage: fleet SESSIONS SECONDS [PAUSE_MS]"),
    };
    let time = Duration::from_secs_f64(seconds.parse()?);
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (tallies, begun) = runtime.block_on(fleet(sessions.parse()?, time, Duration::from_millis(pause)))?;
    report(&tallies, begun + time / 2, time / 2);
    Ok(())
}

async fn fleet(sessions: usize, time: Duration, pause: Duration) -> Result<(Vec<Tally>, Instant)> {
    let mut ready = Vec::new();
    for number in 0..sessions {
        let session = connect().await;
        ready.push(session.with_context(|| format!("session {number} of {sessions} cannot connect"))?);
    }
    let begun = Instant::now();
    let mut running = JoinSet::new();
    for (client, row) in ready {
        running.spawn(session(client, row, begun + time, pause));
    }
    let mut tallies = Vec::new();
    while let Some(tally) = running.join_next().await {
        tallies.push(tally?);
    }
    Ok((tallies, begun))
}

async fn connect() -> Result<(Client, Statement)> {
    let get = |key: &str, default: &str| env::var(key).unwrap_or_else(|_| default.to_string());
    let mut config = Config::new();
    config.host(get("PGHOST", "/var/run/postgresql")).port(get("PGPORT", "5432").parse()?);
    config.user(get("PGUSER", "postgres")).dbname(get("PGDATABASE", "postgres"));
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    let row = client.prepare(&format!("INSERT INTO {} (name) VALUES ($1)", get("FLEET_TABLE", "routes"))).await?;
    Ok((client, row))
}

async fn session(client: Client, row: Statement, until: Instant, pause: Duration) -> Tally {
    let mut tally = Tally::default();
    while Instant::now() < until {
        let name = format!("fleet-{:016x}", rand::random::<u64>());
        let begun = Instant::now();
        match client.execute(&row, &[&name]).await {
            Ok(_) => tally.saved.push((Instant::now(), begun.elapsed())),
            Err(error) => {
                let state = error.code().map_or("lost", |state| state.code()).to_owned();
                tally.failed.push((state, begun.elapsed()));
                // A session without a connection cannot save any more.
                if client.is_closed() {
                    break;
                }
            }
        }
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }
    tally
}

/// Saves count for the rate if they end within `time` from `since` on.
fn report(tallies: &[Tally], since: Instant, time: Duration) {
    let milliseconds = |time: Duration| 1000.0 * time.as_secs_f64();
    let is_within = |ended: &Instant| (since..since + time).contains(ended);
    let ends = tallies.iter().flat_map(|tally| tally.saved.iter().map(|(ended, _)| ended));
    let counted = ends.filter(|ended| is_within(ended)).count();
    let mut saved: Vec<Duration> = tallies.iter().flat_map(|tally| tally.saved.iter().map(|(_, took)| *took)).collect();
    saved.sort_unstable();
    let share = |share: f64| {
        let place = (share * saved.len() as f64) as usize;
        saved.get(place.min(saved.len().saturating_sub(1))).copied().map_or(f64::NAN, milliseconds)
    };
    let starved = tallies.iter().filter(|tally| tally.saved.is_empty()).count();
    let failed: Vec<&(String, Duration)> = tallies.iter().flat_map(|tally| &tally.failed).collect();
    let longest = failed.iter().map(|(_, time)| *time).max().unwrap_or_default();
    let mut by_state: BTreeMap<&str, usize> = BTreeMap::new();
    for (state, _) in &failed {
        *by_state.entry(state).or_default() += 1;
    }
    let errors: Vec<String> = by_state.iter().map(|(state, count)| format!("{state}={count}")).collect();
    println!(
        "{:.1} {:.1} {:.1} {:.1} {starved} {:.1} {}",
        counted as f64 / time.as_secs_f64(),
        share(0.5),
        share(0.99),
        share(1.0),
        milliseconds(longest),
        if errors.is_empty() { "none".to_string() } else { errors.join(",") }
    );
}
