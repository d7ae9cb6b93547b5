//! The crash campaign: two cells save the same names at random while a script kills the three clusters and cuts the
//! network.
//!
//! `writer` follows the protocol, call by call. `unaware` runs plain `statements` on a claimed table, and capture does
//! the rest. Both die at random points. Meanwhile `recovery` runs `claims.reconcile()`, and `proxy` is the network
//! between the cells and the service. At the end recovery finishes, and `verdict` compares the saved rows of the cells
//! with the claims of the service. Then `sabotage` damages consistent data, to test that the verdict notices it.

mod proxy;
mod recovery;
mod sabotage;
mod statements;
mod tally;
mod unaware;
mod verdict;
mod worker;
mod writer;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, anyhow};
use postgres::{Client, Config, NoTls};

use rand::RngExt;
use rand::rngs::StdRng;

use tally::Tally;
use unaware::Mode;

/// The writers in cell 1, which is not in automatic mode, and in cell 2, which is.
const WRITERS: [&[Kind]; 2] = [
    &[Kind::Explicit, Kind::Explicit, Kind::Unaware(Mode::Pending), Kind::Unaware(Mode::Pending)],
    &[
        Kind::Unaware(Mode::Automatic),
        Kind::Unaware(Mode::Automatic),
        Kind::Unaware(Mode::Automatic),
        Kind::Unaware(Mode::Automatic),
        Kind::Unaware(Mode::Pending),
    ],
];

/// The number of names, which both cells want.
const NAMES: u32 = 60;

#[derive(Clone, Copy)]
enum Kind {
    Explicit,
    Unaware(Mode),
}

/// The addresses of everything, from the script.
pub struct Field {
    /// The socket directories and ports of shared, cell 1 and cell 2.
    clusters: [(String, u16); 3],
    /// The password of the cells' roles at the service.
    password: String,
    /// The port of the proxy.
    proxy_port: u16,
    /// A file that contains `close` or `hold` while the network is cut.
    cut: PathBuf,
    /// A file that tells the script that enough has happened.
    enough: PathBuf,
    /// A file that ends the campaign when it exists.
    over: PathBuf,
    /// Whether background workers do the recovery.
    has_workers: bool,
    /// A file with the nodes of a service whose tables are distributed, as the script adds and removes them: DIR:PORT in each line. The
    /// first one is the shared cluster.
    nodes: Option<PathBuf>,
}

/// Parses DIR:PORT.
fn address(value: &str) -> Result<(String, u16)> {
    let (dir, port) = value.rsplit_once(':').with_context(|| format!("{value} is no DIR:PORT"))?;
    Ok((dir.to_string(), port.parse()?))
}

impl Field {
    fn from_env() -> Result<Self> {
        let get = |name: &str| env::var(name).with_context(|| format!("{name} is not set"));
        let cluster = |name: &str| address(&get(name)?);
        Ok(Field {
            clusters: [cluster("CAMPAIGN_SHARED")?, cluster("CAMPAIGN_CELL1")?, cluster("CAMPAIGN_CELL2")?],
            password: get("CAMPAIGN_PASSWORD")?,
            proxy_port: get("CAMPAIGN_PROXY")?.parse()?,
            cut: get("CAMPAIGN_CUT")?.into(),
            enough: get("CAMPAIGN_ENOUGH")?.into(),
            over: get("CAMPAIGN_OVER")?.into(),
            has_workers: env::var("CAMPAIGN_WORKERS").is_ok_and(|value| value == "yes"),
            nodes: env::var("CAMPAIGN_NODES").ok().map(PathBuf::from),
        })
    }

    /// Returns the addresses of the service: one, or those of all nodes.
    fn service_nodes(&self) -> Result<Vec<(String, u16)>> {
        match &self.nodes {
            None => Ok(vec![self.clusters[0].clone()]),
            Some(file) => fs::read_to_string(file)?.lines().map(address).collect(),
        }
    }

    /// Returns whether a call may fail with this SQLSTATE because nodes of the service fail, or shards move. Such a call is repeated. Citus has
    /// no SQLSTATE of its own for a node that is gone in the middle of a call.
    fn may_come_from_nodes(&self, code: &str) -> bool {
        self.nodes.is_some() && ["08006", "08003", "40P01", "40001", "55P03", "25P02", "XX000"].contains(&code)
    }

    /// Returns whether a call was refused because a node that has crashed while a shard moved does not know yet where it is.
    fn has_met_old_catalogs(&self, code: &str, message: &str) -> bool {
        self.nodes.is_some() && code == "55000" && message == "a shard of claims is on another node by now"
    }

    fn is_over(&self) -> bool {
        Path::exists(&self.over)
    }

    /// Connects to a cluster's own socket. 0 is the shared cluster, 1 and 2 are the cells.
    fn connect(&self, cluster: usize, role: &str) -> Result<Client, postgres::Error> {
        connect_to(&self.clusters[cluster], role)
    }

    /// Connects a cell's application to the service, over the network.
    fn connect_service(&self, cell: usize) -> Result<Client, postgres::Error> {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.proxy_port).user(&format!("cell{cell}")).password(&self.password);
        config.dbname("postgres").connect_timeout(Duration::from_secs(2)).connect(NoTls)
    }
}

fn connect_to((dir, port): &(String, u16), role: &str) -> Result<Client, postgres::Error> {
    Config::new().host(dir).port(*port).user(role).dbname("postgres").connect(NoTls)
}

/// Runs until the script ends the campaign, then judges.
pub fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("campaign: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool> {
    let field = Arc::new(Field::from_env()?);
    let seed = rand::random_range(0..1_000_000);
    println!("campaign: {} writers in two cells, {NAMES} names, seed {seed}", WRITERS.concat().len());
    let network = proxy::start(&field)?;
    let stopped = AtomicBool::new(false);
    let mut tally = Tally::default();
    let problems = thread::scope(|scope| {
        let (field, stopped, tally) = (&*field, &stopped, &tally);
        let (mut writers, mut recoveries) = (Vec::new(), Vec::new());
        for cell in [1, 2] {
            recoveries.push(scope.spawn(move || recovery::run(field, cell, tally.sharing_counts(), stopped)));
            for (number, kind) in WRITERS[cell - 1].iter().copied().enumerate() {
                let seed = seed + (cell * 100 + number) as u64;
                writers.push(scope.spawn(move || match kind {
                    Kind::Explicit => writer::run(field, cell, tally.sharing_counts(), seed),
                    Kind::Unaware(mode) => unaware::run(field, cell, mode, tally.sharing_counts(), seed),
                }));
            }
        }
        await_end(field, tally)?;
        // Recovery stops after the writers, which may wait for a transaction that it ends.
        let writers: Vec<_> = writers.into_iter().map(ScopedJoinHandle::join).collect();
        stopped.store(true, Relaxed);
        let recoveries = recoveries.into_iter().map(ScopedJoinHandle::join);
        let mut problems = Vec::new();
        for tally in writers.into_iter().chain(recoveries) {
            problems.extend(tally.map_err(|_| anyhow!("a thread panicked"))?.problems);
        }
        Ok::<_, anyhow::Error>(problems)
    })?;
    tally.problems = problems;
    if field.has_workers {
        worker::finish(&field, &mut tally)?;
    }
    recovery::finish(&field, &mut tally)?;
    verdict::compare(&field, &mut tally)?;
    verdict::correct(&field, &mut tally)?;
    // Data that is inconsistent already is not damaged again.
    if tally.problems.is_empty() {
        sabotage::try_all(&field, &mut tally)?;
    }
    drop(network);
    tally.problems.extend(tally.too_rare(field.has_workers));
    Ok(tally.print())
}

/// Waits until the script ends the campaign. Tells the script when enough has happened, however slow the machine is.
fn await_end(field: &Field, tally: &Tally) -> Result<()> {
    while !field.is_over() {
        // A cell that is down is counted the next time.
        let counted = !field.has_workers || worker::count_passes(field, tally).is_ok();
        if counted && tally.too_rare(field.has_workers).is_empty() {
            fs::write(&field.enough, "")?;
        }
        thread::sleep(Duration::from_millis(500));
    }
    Ok(())
}

/// Sleeps for a random time, which is sometimes longer than stale_after.
fn linger(rng: &mut StdRng) {
    let time = match rng.random_range(0..200) {
        0..4 => rng.random_range(1000..5000),
        4..24 => rng.random_range(1..30),
        _ => return,
    };
    thread::sleep(Duration::from_millis(time));
}
