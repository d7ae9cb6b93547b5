//! Chapter 7: a cell's database server crashes between its COMMIT and that of the leases, and its background worker finishes them.

use super::cast::{NORTH, SOUTH, World};
use super::home::{self, APP};
use super::screen::Screen;
use anyhow::{Context, Result, bail, ensure};
use postgres::Client;
use rustix::process::{Pid, Signal, kill_process};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

/// The user whose transaction has committed when the server crashes, and the one whose transaction has not.
const SAVED: &str = "grace";
const LOST: &str = "linus";

/// How long the server may take to come back.
const RESTART_LIMIT: Duration = Duration::from_secs(60);

pub fn tell(screen: &mut Screen, world: &mut World) -> Result<()> {
    // Without a worker, so that the outstanding lease is visible.
    NORTH.home()?.employ_worker("")?;
    let mut open = NORTH.at_home(APP)?;
    let pid: i32 = open.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    // The first steps of COMMIT: the deferred constraint triggers, and with them the lease.
    open.batch_execute(&format!("BEGIN; {}; SET CONSTRAINTS ALL IMMEDIATE", home::insert_sql(LOST)))?;
    let mut other = NORTH.at_home(APP)?;
    home::insert(&mut other, SAVED)?;
    let before: SystemTime = other.query_one("SELECT clock_timestamp()", &[])?.get(0);
    let process = Pid::from_raw(pid).context("a process id is a positive number")?;
    kill_process(process, Signal::KILL).with_context(|| format!("cannot kill process {pid} of north's server"))?;
    screen.say(&format!(
        "North's application saves {SAVED}. Another transaction of it inserts {LOST} and has its lease, but is not \
         committed yet. Its background worker is off for a moment. Then the process (pid {pid}) is killed with SIGKILL. PostgreSQL ends all the others and \
         recovers from its log. The leases that are left:"
    ));
    let mut north = come_back(&mut other)?;

    let mut rows = Vec::new();
    for lease in NORTH.connect(&world.server)?.list_all()? {
        let name = lease.payload["create_records"][0]["bucket"]["value"].as_str().unwrap_or_default().to_string();
        let row = north.query_one(
            "SELECT EXISTS (SELECT FROM users WHERE username = $1), \
                    EXISTS (SELECT FROM claims.cells_outstanding_leases WHERE uuid = $2)",
            &[&name, &lease.lease],
        )?;
        let [saved, tracked] = [0, 1].map(|column| if row.get(column) { "yes" } else { "no" }.to_string());
        rows.push(vec![lease.lease.to_string(), name, saved, tracked]);
    }
    screen.table(&["lease", "creates", "saved in north", "tracked in north"], &rows);
    rows.sort_by(|one, other| one[1].cmp(&other[1]));
    let found: Vec<String> = rows.iter().map(|row| row[1..].join(" ")).collect();
    screen.expect(
        // The committed lease may be settled already: its session sent the commit before the crash.
        found.last() == Some(&format!("{LOST} no no"))
            && (found.len() == 1 || found[..1] == [format!("{SAVED} yes yes")]),
        "each lease is tracked exactly where its row was saved",
    );
    let mut app = SOUTH.at_home(APP)?;
    let states = [SAVED, LOST].map(|name| home::state(&mut app, name));
    screen.expect(!states.contains(&"00000".to_owned()), "until they are settled, south can have neither name");
    screen.blank();

    screen.say("Now the worker may run again. Nobody calls anything:");
    NORTH.home()?.employ_worker(NORTH.database)?;
    let took = home::settled(&NORTH, world)?;
    let rolled_back = counted(&mut north, before)?;
    screen.expect(
        rolled_back == 1,
        &format!("it has rolled back the lease of {LOST} ({:.1} s later)", took.as_secs_f64()),
    );
    let states = [SAVED, LOST].map(|name| home::state(&mut app, name));
    screen.expect(
        states == ["23505", "00000"],
        &format!("{SAVED} is north's for good (23505), and south can save {LOST}"),
    );
    home::settled(&SOUTH, world)?;
    Ok(())
}

/// Counts the leases that passes of recovery have rolled back since. A pass inserts its row at the end, after it has
/// settled the leases.
fn counted(north: &mut Client, since: SystemTime) -> Result<i64> {
    let started = Instant::now();
    loop {
        let row = north.query_one(
            "SELECT coalesce(sum((counts ->> 'rolled_back')::bigint), 0)::bigint FROM claims.passes \
              WHERE kind = 'reconcile' AND started_at > $1",
            &[&since],
        )?;
        let rolled_back = row.get(0);
        if rolled_back > 0 || started.elapsed() > RESTART_LIMIT {
            return Ok(rolled_back);
        }
        sleep(Duration::from_millis(20));
    }
}

/// Waits until the server has noticed the crash and has recovered from it. `other` is a session that was not killed.
fn come_back(other: &mut Client) -> Result<Client> {
    let started = Instant::now();
    // Until the server notices the crash, it accepts new sessions that it will end soon. When it has noticed it, it
    // ends this one, too.
    while other.batch_execute("SELECT").is_ok() {
        ensure!(started.elapsed() < RESTART_LIMIT, "north's server does not notice that a process of it was killed");
        sleep(Duration::from_millis(20));
    }
    loop {
        match NORTH.home()?.admin(NORTH.database) {
            Ok(client) => return Ok(client),
            Err(error) if started.elapsed() > RESTART_LIMIT => bail!("north's server does not come back: {error:#}"),
            Err(_) => sleep(Duration::from_millis(50)),
        }
    }
}
