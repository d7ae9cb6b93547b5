//! A case of the background worker. It meets the lie as soon as it has started, and is ended during the lie.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::case::{Case, HONESTLY, Outcome, Tried};
use super::laws::{Allowance, Breach, Law};
use super::process::{is_there, peak_memory, wait_until_gone};
use super::service::Order;
use super::session::Session;

/// How long it is lied to.
const LIED_TO: Duration = Duration::from_secs(1);
/// How long a disobedient worker is watched, to see whether it ends at all.
const MUCH_LATER: Duration = Duration::from_secs(5);

/// Runs the case. `name` is that of the worker in pg_stat_activity.
pub fn try_it(case: &Case, name: &str) -> Result<Tried> {
    let began = Instant::now();
    let home = case.home;
    let honest_call = case.prepare(&home.app()?)?;
    let admin = home.admin()?;
    admin.value(&home.with_cell("SELECT claims.attend({cell}, 'service')"))?;
    home.forge.lie(Order { lie: case.lie, call: case.way.call });
    home.field.employ(&home.database, true)?;
    let mut outcome = Outcome::default();
    let pid = first_pid(&admin, name)?;
    // A worker has used this much without the lie.
    let memory_before = peak_memory(pid).unwrap_or(0);
    let is_told = watch(case, pid, memory_before, &mut outcome);
    if !is_told {
        outcome.breaches.push(Breach::new(Law::Told, "never told"));
    }
    home.field.employ(&home.database, false)?;
    let obedience = Allowance { lag: case.lag.since(began), honest_call }.obedience();
    match wait_until_gone(pid, obedience + MUCH_LATER) {
        Some(took) if took <= obedience => {}
        Some(took) => {
            let how = format!("the order to end was obeyed after {} ms", took.as_millis());
            outcome.breaches.push(Breach::new(Law::Obedient, how));
        }
        None => outcome.breaches.push(Breach::new(Law::NoHang, "the order to end was not obeyed")),
    }
    Ok(Tried { pid, session: None, outcome })
}

fn first_pid(admin: &Session, name: &str) -> Result<i32> {
    let pid =
        format!("SELECT pid FROM pg_stat_activity WHERE backend_type = '{name}' AND datname = current_database()");
    let since = Instant::now();
    loop {
        if let Some(pid) = admin.value(&pid)? {
            return Ok(pid.parse()?);
        }
        anyhow::ensure!(since.elapsed() < HONESTLY, "no worker starts");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the lie was told, and watches the worker for a while. Returns false if it was not told.
fn watch(case: &Case, pid: i32, memory_before: u64, outcome: &mut Outcome) -> bool {
    let since = Instant::now();
    let mut told_at = None;
    let mut memory = 0;
    while told_at.is_none_or(|at: Instant| at.elapsed() < LIED_TO) && since.elapsed() < HONESTLY {
        if told_at.is_none() && case.home.forge.told() > 0 {
            told_at = Some(Instant::now());
        }
        match peak_memory(pid) {
            Some(peak) => memory = peak.saturating_sub(memory_before),
            None => break,
        }
        thread::sleep(Duration::from_millis(10));
    }
    case.judge_memory(memory, outcome);
    if !is_there(pid) {
        outcome.breaches.push(Breach::new(Law::SessionLives, "the worker has ended"));
    }
    told_at.is_some()
}

/// Checks that the worker's failures have proper SQLSTATEs, too.
pub fn judge_passes(case: &Case, outcome: &mut Outcome) -> Result<()> {
    let admin = case.home.admin()?;
    let states = "SELECT string_agg(DISTINCT sqlstate, ' ') FROM claims.passes WHERE sqlstate IS NOT NULL";
    let states = admin.value(states)?.unwrap_or_default();
    for state in states.split(' ').filter(|state| !state.is_empty() && !super::laws::is_proper(state)) {
        outcome.breaches.push(Breach::new(Law::Sqlstate, format!("a pass has failed with {state}")));
    }
    admin.value("DELETE FROM claims.pass_log").context("claims.pass_log").map(drop)
}
