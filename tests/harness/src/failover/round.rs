//! A round: the primary meets a fault, another node takes over, the cluster becomes complete.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rand::RngExt;
use rand::rngs::StdRng;
use std::sync::atomic::Ordering::Relaxed;

use super::board::{Board, CELLS};
use super::cluster::Cluster;
use super::fault::{Fault, Kind};
use super::options::Mode;
use super::relay::Flow;

const TICK: Duration = Duration::from_millis(200);
/// The control's number of calls that are acknowledged before the primary fails and that no standby has, and the time
/// limit for them.
const UNREPLICATED: usize = 20;
const TRAFFIC: Duration = Duration::from_secs(60);
/// The time limits until the service is back or the fault ends, then until the service is back, and then until the
/// cluster is complete.
const HELP: Duration = Duration::from_secs(60);
const BACK: Duration = Duration::from_secs(180);
const WHOLE: Duration = Duration::from_secs(600);

pub struct Round {
    pub kind: Kind,
    pub from: String,
    pub to: String,
    /// Whether standbys missed the last writes of the primary.
    pub lagged: bool,
    /// Whether another node took over only after the fault had ended.
    pub helped: bool,
    pub silence: f64,
    pub acknowledged: usize,
    pub repaired: Duration,
}

pub fn play(cluster: &Cluster, board: &Board, kind: Kind, rng: &mut StdRng) -> Result<Round> {
    board.round.fetch_add(1, Relaxed);
    board.slow_down(false);
    let before = board.count();
    thread::sleep(Duration::from_millis(rng.random_range(700..1500)));
    let old = cluster.leader(None).context("nobody leads")?;
    // In every second round replication stops for a moment before the fault, as on a busy network. A switchover waits
    // for replication, and a full disk needs its time.
    let lagged = !matches!(kind, Kind::Switchover | Kind::DiskFull) && (before == 0 || rng.random_bool(0.5));
    if lagged {
        old.peers.set(Flow::Held);
        thread::sleep(Duration::from_millis(rng.random_range(300..1000)));
        if cluster.options.mode == Mode::Asynchronous {
            await_unreplicated(board)?;
        }
    }
    let struck = board.now();
    let fault = Fault::strike(cluster, old, kind, rng)?;
    if lagged && kind != Kind::Cut {
        // Data that was held back is lost with the primary.
        old.peers.set(Flow::Broken);
        old.peers.set(Flow::Open);
    }
    let (to, helped) = await_service(cluster, board, old.name, &fault, rng)?;
    if !helped {
        fault.end(rng)?;
    }
    board.slow_down(true);
    let repaired = cluster.await_whole(WHOLE).with_context(|| format!("after {} of {}", kind.name(), old.name))?;
    // While replication stops, a synchronous primary acknowledges nothing. The failover has not caused this wait.
    let silence = board.longest_silence(before, struck, lagged);
    Ok(Round {
        kind,
        from: old.name.into(),
        to,
        lagged,
        helped,
        silence,
        acknowledged: board.count() - before,
        repaired,
    })
}

/// Waits, while replication stops, until enough calls are acknowledged. All of them began after the stop but those that
/// were under way, at most one for each cell.
fn await_unreplicated(board: &Board) -> Result<()> {
    let (began, before) = (Instant::now(), board.count());
    let enough = before + UNREPLICATED + usize::try_from(CELLS)?;
    while board.count() < enough {
        if began.elapsed() > TRAFFIC {
            bail!("only {} calls were acknowledged in {} s", board.count() - before, TRAFFIC.as_secs());
        }
        thread::sleep(TICK);
    }
    Ok(())
}

/// Waits until another node leads and serves. Returns the node, and whether the fault had to end first. Without a
/// complete synchronous standby Patroni lets no node lead, and then somebody must repair the old primary. Asynchronous
/// standbys need no such help.
fn await_service(
    cluster: &Cluster,
    board: &Board,
    old: &str,
    fault: &Fault,
    rng: &mut StdRng,
) -> Result<(String, bool)> {
    let began = Instant::now();
    let mut elected: Option<(String, u64)> = None;
    let mut helped = false;
    let may_help = cluster.options.mode == Mode::Synchronous;
    loop {
        if !helped {
            fault.keep_up()?;
        }
        if elected.is_none() {
            let leader =
                if helped { cluster.leader(None) } else { cluster.leader(Some(old)).filter(|n| n.name != old) };
            elected = leader.map(|n| (n.name.to_string(), board.now()));
        }
        if let Some((name, since)) = &elected
            && board.serves_since(*since)
        {
            return Ok((name.clone(), helped));
        }
        if may_help && elected.is_none() && !helped && began.elapsed() > HELP {
            fault.end(rng)?;
            helped = true;
        }
        if began.elapsed() > BACK {
            cluster.nodes.iter().for_each(|n| eprintln!("---- the last of node {}:\n{}", n.name, n.last_words(15)));
            bail!("no service after {:.0} s; elected: {elected:?}", began.elapsed().as_secs_f64());
        }
        thread::sleep(TICK);
    }
}
