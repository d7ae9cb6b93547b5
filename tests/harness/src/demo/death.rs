//! Chapter 4: a cell's process dies between begin and commit, and its lease is rolled back afterwards.

use super::cast::{NORTH, SOUTH, World};
use super::screen::Screen;
use crate::batch::Batch;
use crate::server::Server;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use uuid::Uuid;

/// The argument with which this program becomes the dying cell.
pub const DYING: &str = "--dying-cell";

/// How long the cell is gone.
const RESTART: Duration = Duration::from_secs(2);

/// The routes that the dying cell wants.
const ROUTES: [&str; 3] = ["new-team", "new-team/website", "new-team/shop"];

/// The cell's own table. Its first route exists already, so the local part must fail.
const LOCAL: &str = "CREATE TABLE routes (id bigint PRIMARY KEY, path text NOT NULL UNIQUE, owner text NOT NULL)";

pub fn tell(screen: &mut Screen, world: &mut World) -> Result<()> {
    SOUTH.home()?.fresh_database(SOUTH.database)?.batch_execute(LOCAL)?;
    let (lease, error) = let_it_die(screen)?;
    let mut north = NORTH.connect(&world.server)?;
    let wish = Batch::create(vec![(ROUTES[0].to_string(), 7)]);

    let refused = north.begin(&wish, None).err().and_then(|f| f.refusal());
    let conflicts = refused.and_then(|r| r.conflicts()).unwrap_or_default();
    let held = conflicts.len() == 1 && conflicts[0].reason == "leased" && conflicts[0].holder == Some(SOUTH.id);
    screen.expect(held, &format!("{} is held by the dead cell's lease; north is told to come back later", ROUTES[0]));
    screen.blank();

    thread::sleep(RESTART);
    screen.say("South is started again and asks list_leases what it left behind:");
    let mut south = SOUTH.connect(&world.server)?;
    let listed = south.list_all()?;
    let row = |l: &crate::cell::Listed| {
        let names = l.payload["create_records"].as_array().into_iter().flatten();
        let names: Vec<&str> = names.filter_map(|r| r["bucket"]["value"].as_str()).collect();
        vec![l.lease.to_string(), format!("{:.1} s", l.age_seconds), names.join(", ")]
    };
    screen.table(&["lease", "age", "creates"], &listed.iter().map(row).collect::<Vec<_>>());
    screen.expect(listed.len() == 1 && listed[0].lease == lease, "it is the lease of the process that died");

    let rows = SOUTH.home()?.admin(SOUTH.database)?.query("SELECT 1 FROM routes", &[])?.len();
    screen.expect(rows == 0 && error.contains("null value"), "none of the routes was saved in south's own database");
    screen.expect(south.rollback(lease)?, "so south rolls the lease back");
    screen.expect(!south.rollback(lease)?, "a second rollback changes nothing and says so");
    let late = south.commit(lease).err().map(|f| f.code().to_string());
    screen.expect(late.as_deref() == Some("55000"), "a commit that comes too late is refused (55000)");

    let lease = north.begin(&wish, None)?;
    screen.expect(north.commit(lease)?, &format!("north has {} now", ROUTES[0]));
    Ok(())
}

/// Starts the dying cell as a process of its own, and kills it (SIGKILL) after its local part has failed.
fn let_it_die(screen: &Screen) -> Result<(Uuid, String)> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg(DYING)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the cell that dies")?;
    let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
    let mut line = || lines.next().context("the cell died too early")?.map_err(anyhow::Error::from);
    let heard = line().and_then(|lease| Ok((lease.parse()?, line()?)));
    child.kill()?;
    child.wait()?;
    let (lease, error): (Uuid, String) = heard?;
    screen.say(&format!(
        "A process of south (pid {}) begins a lease on {}. Then it saves the routes in its own database, and that \
         fails. Before it can roll the lease back it is killed with SIGKILL.",
        child.id(),
        ROUTES.join(", ")
    ));
    screen.blank();
    screen.label("lease", &lease.to_string());
    screen.label("local", &error);
    screen.blank();
    Ok((lease, error))
}

/// Runs the dying cell: it begins, fails locally, and waits until its parent kills it.
pub fn dying_cell() -> Result<bool> {
    let server = Server::from_env()?;
    let mut service = SOUTH.connect(&server)?;
    let creates = ROUTES.iter().zip(1..).map(|(name, id)| (name.to_string(), id)).collect();
    let lease = service.begin(&Batch::create(creates), Some(Uuid::new_v4()))?;
    println!("{lease}");
    let mut local = SOUTH.home()?.admin(SOUTH.database)?;
    let mut transaction = local.transaction()?;
    for (id, path) in ROUTES.iter().enumerate() {
        // The last route has no owner, so the row violates a constraint.
        let owner = (id + 1 < ROUTES.len()).then_some("somebody");
        let saved = transaction.execute("INSERT INTO routes VALUES ($1, $2, $3)", &[&(id as i64), path, &owner]);
        if let Some(error) = saved.err().as_ref().and_then(|e| e.as_db_error()) {
            println!("ERROR {}: {}", error.code().code(), error.message());
            // The transaction stays open until the parent kills this process, or is gone itself.
            std::io::stdin().read_to_end(&mut Vec::new())?;
            return Ok(false);
        }
    }
    bail!("the local part went through")
}
