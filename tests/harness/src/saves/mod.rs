//! Measures saves in a cell, as its application sees them: `saves WHAT CLIENTS SECONDS`.
//!
//! `PGHOST` and `PGPORT` lead to the service's cluster, `CLUSTER_cell` to the cell's. `SAVES_SERVICE` and `SAVES_CELL` name the
//! databases, if they are others than those that `bench/sections/cell_save.py` creates. Prints the saves per second, and the median and the 99th percentile of the measured times, in
//! milliseconds.

mod delays;
mod floors;
mod sides;

use std::process::ExitCode;
use std::sync::Barrier;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use postgres::Client;

use crate::server::Server;

/// The role of the cell's application, in both databases.
const ROLE: &str = "cell_1";
pub const SERVICE: &str = "save_service";
const CELL: &str = "save_cell";
/// A cell whose service is dead.
const ORPHANED: &str = "save_orphaned";

/// The clusters, and the databases there.
struct Clusters {
    service_cluster: Server,
    cell_cluster: Server,
    service: String,
    cell_database: String,
}

impl Clusters {
    fn service(&self) -> Result<Client> {
        Ok(self.service_cluster.connect(&self.service, ROLE)?)
    }

    fn cell(&self) -> Result<Client> {
        Ok(self.cell_cluster.connect(&self.cell_database, ROLE)?)
    }

    fn orphaned(&self) -> Result<Client> {
        Ok(self.cell_cluster.connect(ORPHANED, ROLE)?)
    }
}

/// A client. A call saves once, and returns the measured time.
type Saver = Box<dyn FnMut() -> Result<Duration>>;

/// The work of the clients, and how often per second they do it all together; `None` is as often as they can.
struct Side {
    make: fn(&Clusters) -> Result<Saver>,
    rate: Option<f64>,
}

pub fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("saves: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, clients, seconds] = arguments.as_slice() else { bail!("usage: saves WHAT CLIENTS SECONDS") };
    let side = side(what).with_context(|| format!("there is no {what}"))?;
    let database = |variable: &str, usual: &str| std::env::var(variable).unwrap_or_else(|_| usual.to_owned());
    let clusters = Clusters {
        service_cluster: Server::from_env()?,
        cell_cluster: Server::named("CLUSTER_cell")?,
        service: database("SAVES_SERVICE", SERVICE),
        cell_database: database("SAVES_CELL", CELL),
    };
    let (took, mut measured) = measure(&side, &clusters, clients.parse()?, Duration::from_secs_f64(seconds.parse()?))?;
    measured.sort_unstable();
    let share = |share: f64| {
        let place = (share * measured.len() as f64) as usize;
        measured.get(place.min(measured.len().saturating_sub(1))).map_or(f64::NAN, |time| 1000.0 * time.as_secs_f64())
    };
    println!("{:.1} {:.4} {:.4}", measured.len() as f64 / took.as_secs_f64(), share(0.5), share(0.99));
    Ok(())
}

fn side(what: &str) -> Option<Side> {
    const SAVES_A_SECOND: f64 = 200.0;
    let (make, rate): (fn(&Clusters) -> Result<Saver>, _) = match what {
        "plain" => (sides::plain, None),
        "floor" => (sides::minimum, None),
        "floor-rows" => (floors::many_rows, None),
        "floor-one" => (floors::one_service, None),
        "floor-two" => (floors::two_services, None),
        "app" => (sides::app, None),
        "auto" => (sides::auto, None),
        "refused" => (sides::refused, None),
        "refused-open" => (sides::refused_open, None),
        "committed" => (delays::committed, Some(SAVES_A_SECOND)),
        "aborted" => (delays::aborted, Some(SAVES_A_SECOND)),
        "first" => (delays::first, None),
        "first-preloaded" => (delays::first_preloaded, None),
        _ => return None,
    };
    Some(Side { make, rate })
}

/// Runs the clients. Returns the elapsed time, and the measured time of each save. All clients connect and save once
/// before the first one begins.
fn measure(side: &Side, clusters: &Clusters, clients: usize, time: Duration) -> Result<(Duration, Vec<Duration>)> {
    let start = Barrier::new(clients);
    let run = |number: usize| {
        let saver = (side.make)(clusters).and_then(|mut saver| saver().map(|_| saver));
        start.wait();
        let begun = Instant::now();
        let measured = client(saver?, begun, time, side.rate.map(|rate| (rate / clients as f64, number)))?;
        Ok::<_, anyhow::Error>((begun.elapsed(), measured))
    };
    let run = &run;
    let results: Vec<_> = thread::scope(|scope| {
        let handles: Vec<_> = (0..clients).map(|number| scope.spawn(move || run(number))).collect();
        handles.into_iter().map(ScopedJoinHandle::join).collect()
    });
    let (mut longest, mut all) = (Duration::ZERO, Vec::new());
    for result in results {
        let (took, measured) = result.map_err(|_| anyhow!("a client panicked"))??;
        longest = longest.max(took);
        all.extend(measured);
    }
    Ok((longest, all))
}

/// Runs one client. `pace` has its saves per second, and its number, by which clients take turns.
fn client(mut saver: Saver, begun: Instant, time: Duration, pace: Option<(f64, usize)>) -> Result<Vec<Duration>> {
    let mut measured = Vec::new();
    while begun.elapsed() < time {
        if let Some((rate, number)) = pace {
            let turn = (measured.len() as f64 + number as f64 * 0.13 % 1.0) / rate;
            thread::sleep(Duration::from_secs_f64(turn).saturating_sub(begun.elapsed()));
        }
        measured.push(saver()?);
    }
    Ok(measured)
}
