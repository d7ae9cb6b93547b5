//! Chapter 6: databases that claim by themselves, and two applications that only insert rows.

use super::cast::{CELLS, Member, NORTH, SOUTH, World};
use super::home::{self, APP};
use super::screen::Screen;
use crate::failure::Failure;
use anyhow::{Context, Result, bail};
use std::sync::Barrier;
use std::thread;

/// Users who were there before anything was claimed.
const BEFORE: [&[&str]; 2] = [&["ann", "bob", "cleo"], &["dora", "emil"]];

/// Who both cells want.
const BOTH: &str = "ada";

pub fn tell(screen: &mut Screen, world: &mut World) -> Result<()> {
    screen.say(
        "So far the cells called the service themselves. Now each has a PostgreSQL server of its own, with the \
         extension, a foreign server that leads to the shared database, and users from before. An administrator \
         runs in each:",
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
    conflict(screen)
}

/// Both insert the same user: one has it, the other is told to wait and then that it is taken.
fn conflict(screen: &mut Screen) -> Result<()> {
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
    let pass = home::reconcile(winner)?;
    screen.expect(
        pass[3..] == [0, 0],
        &format!("{}'s session has settled the lease, or the next pass does", winner.name),
    );
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

/// Who had it, who had not, and why not.
fn race() -> Result<(&'static Member, &'static Member, Failure)> {
    let start = Barrier::new(2);
    let run = |cell: &'static Member| -> Result<Result<(), Failure>> {
        // Both must come to the start, or the other one waits for ever.
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
