//! Chapter 6: databases in automatic mode, and two applications that only insert rows.

use super::cast::{CELLS, Member, NORTH, SOUTH, World};
use super::home::{self, APP};
use super::screen::Screen;
use crate::failure::Failure;
use anyhow::{Context, Result, bail};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// Users who existed before anything was claimed.
const BEFORE: [&[&str]; 2] = [&["ann", "bob", "cleo"], &["dora", "emil"]];

/// The user whom both cells want.
const BOTH: &str = "ada";

/// The number of users that each cell saves afterwards.
const SAVES: usize = 50;

/// How long a worker leaves a lease to its session.
const BY_WORKER: Duration = Duration::from_millis(200);

pub fn tell(screen: &mut Screen, world: &mut World) -> Result<()> {
    screen.say(
        "So far the cells called the service themselves. Now each has a PostgreSQL server of its own, with the \
         extension, its background worker, a foreign server that leads to the shared database, and users from before. An \
         administrator runs in each:",
    );
    screen.blank();
    let declare = "SELECT claims.claim_attribute('users', 'username', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS')";
    let verify = "SELECT * FROM claims.verify(1, 'claims_service', 'RAILS_TABLE_USERS', correct => true)";
    for sql in [declare, "SELECT claims.automatic(1, 'claims_service')", verify] {
        screen.label("SQL", sql);
    }
    let mut verified = Vec::new();
    for (cell, users) in CELLS.iter().zip(BEFORE) {
        let mut admin = home::furnish(cell, world, users)?;
        admin.batch_execute(declare)?;
        admin.execute("SELECT claims.automatic($1, 'claims_service')", &[&cell.id])?;
        verified.push((home::verify(cell, true)?, cell, users.len() as i64));
    }
    screen.table(
        &[&["cell"], &home::VERIFIED[..]].concat(),
        &verified.iter().map(|(counts, cell, _)| counts.cells(cell.name)).collect::<Vec<_>>(),
    );
    let claimed = verified.iter().all(|(counts, _, users)| counts.found() == [*users, 0, 0, *users]);
    screen.expect(claimed, "verification has claimed the users who were there before");
    screen.blank();
    conflict(screen, world)?;
    screen.blank();
    speed(screen, world)
}

/// Lets both insert the same user. One succeeds. The other first gets a temporary conflict, and then a permanent one.
fn conflict(screen: &mut Screen, world: &mut World) -> Result<()> {
    screen.say(&format!(
        "At the same moment both applications run {}. Their role may write the table; it has no right on anything of \
         claims.",
        home::insert_sql(BOTH)
    ));
    screen.blank();
    let (winner, loser, failure) = race()?;
    let refusal = failure.refusal().context("the connection was lost")?;
    screen.label(winner.name, "saved");
    screen.label(loser.name, &format!("ERROR {}: {}", refusal.code, refusal.message));
    screen.expect(
        matches!(refusal.code.as_str(), "55P03" | "23505"),
        "one of them has the user; the other one's row was refused at COMMIT",
    );
    home::settled(winner, world)?;
    screen.blank();

    screen.example(&format!("{} tries it once more", loser.name));
    let mut app = loser.at_home(APP)?;
    let refusal = home::refusal(&mut app, BOTH).context("the name is not refused")?;
    home::show(screen, &refusal);
    let conflicts = refusal.conflicts().unwrap_or_default();
    let told = conflicts.len() == 1 && conflicts[0].reason == "taken" && conflicts[0].holder == Some(winner.id);
    let nothing = app.query("SELECT FROM users WHERE username = $1", &[&BOTH])?.is_empty();
    screen.expect(
        told && nothing && refusal.code == "23505",
        "to the application this is the error of a unique index, with the holder in DETAIL",
    );
    Ok(())
}

/// Saves users in both applications, one after the other. Measures each save, and the time until its lease is settled.
fn speed(screen: &mut Screen, world: &mut World) -> Result<()> {
    screen.say(&format!(
        "Then each application saves {SAVES} more users. Claiming a name is a part of its INSERT; the lease is settled by a \
         message that its session sends after its COMMIT, and for whose answer it does not wait. Milliseconds:"
    ));
    let mut rows = Vec::new();
    let mut at_once = true;
    for cell in &CELLS {
        let mut app = cell.at_home(APP)?;
        let outstanding = format!("SELECT count(*) FROM claims.claim_leases WHERE creator_id = {}", cell.id);
        let (mut saves, mut settlements) = (Vec::new(), Vec::new());
        for number in 1..=SAVES {
            let begun = Instant::now();
            home::insert(&mut app, &format!("{}-{number}", cell.name))?;
            saves.push(begun.elapsed());
            let committed = Instant::now();
            while world.count(&outstanding)? > 0 && committed.elapsed() < BY_WORKER {}
            settlements.push(committed.elapsed());
        }
        let [save, slowest, settled, latest] =
            [middle(&mut saves), last(&saves), middle(&mut settlements), last(&settlements)];
        at_once &= settled < BY_WORKER;
        let milliseconds = |time: Duration| format!("{:.1}", 1000.0 * time.as_secs_f64());
        rows.push(
            [cell.name.to_string()].into_iter().chain([save, slowest, settled, latest].map(milliseconds)).collect(),
        );
    }
    screen.table(&["cell", "a save: median", "the slowest", "COMMIT to settled: median", "the latest"], &rows);
    screen.expect(at_once, "the leases were settled at once, by the sessions that saved: nobody ran recovery");
    for cell in &CELLS {
        home::settled(cell, world)?;
    }
    Ok(())
}

fn middle(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Returns the last of sorted times.
fn last(times: &[Duration]) -> Duration {
    times.last().copied().unwrap_or_default()
}

/// Returns the winner, the loser, and the loser's failure.
fn race() -> Result<(&'static Member, &'static Member, Failure)> {
    let start = Barrier::new(2);
    let run = |cell: &'static Member| -> Result<Result<(), Failure>> {
        // Both must reach the barrier, or the other one waits forever.
        let app = cell.at_home(APP);
        start.wait();
        Ok(home::insert(&mut app?, BOTH))
    };
    let (north, south) = thread::scope(|scope| {
        let north = scope.spawn(|| run(&NORTH));
        let south = run(&SOUTH);
        (north.join(), south)
    });
    let Ok(north) = north else { bail!("north's application panicked") };
    match (north?, south?) {
        (Ok(()), Err(failure)) => Ok((&NORTH, &SOUTH, failure)),
        (Err(failure), Ok(())) => Ok((&SOUTH, &NORTH, failure)),
        (Ok(()), Ok(())) => bail!("both have saved {BOTH}"),
        (Err(north), Err(south)) => bail!("neither has saved {BOTH}: {north}; {south}"),
    }
}
