//! Chapter 3: one real example of each kind of conflict, as the server sent it.

use super::cast::{NORTH, SOUTH, World};
use super::screen::Screen;
use crate::batch::Batch;
use crate::cell::Cell;
use anyhow::Result;
use std::time::Instant;
use uuid::Uuid;

const NEW: &str = "a-brand-new-package";

pub fn tell(screen: &mut Screen, world: &mut World) -> Result<()> {
    screen.say(
        "A batch that cannot be had is refused at once and as a whole. DETAIL lists every conflict as JSON for \
         the program, HINT says what to do.",
    );
    screen.blank();
    let mut north = NORTH.connect(&world.server)?;
    let mut south = SOUTH.connect(&world.server)?;
    // The first call of a session loads the library. The measured times must not include that.
    for cell in [&mut north, &mut south] {
        cell.get_record(NEW)?;
        cell.outcome(Uuid::new_v4())?;
    }
    let theirs = world.name_of(&SOUTH)?;
    let create = |name: &str| Batch::create(vec![(name.to_string(), 1)]);
    let destroy = |name: &str| Batch::destroy(vec![name.to_string()]);

    let title = format!("taken: north asks for {theirs}, which south has");
    refuse(screen, &mut north, &title, &create(&theirs), "taken", "23505");

    let lease = south.begin(&destroy(&theirs), None)?;
    let title = format!("leased: south is giving {theirs} up, and has not committed that yet");
    refuse(screen, &mut north, &title, &create(&theirs), "leased", "55P03");
    south.rollback(lease)?;

    south.run("BEGIN")?;
    south.begin(&create(NEW), None)?;
    let title = format!("in_flight: an open transaction of south has just asked for {NEW}");
    refuse(screen, &mut north, &title, &create(NEW), "in_flight", "55P03");
    south.run("ROLLBACK")?;

    let title = format!("not_owner: north wants to destroy south's {theirs}");
    refuse(screen, &mut north, &title, &destroy(&theirs), "not_owner", "42501");

    let lease = north.begin(&create(NEW), None)?;
    north.rollback(lease)?;
    screen.expect(true, &format!("{NEW} could be had as soon as south's transaction was gone"));
    Ok(())
}

/// Lets the cell call, and shows the answer, which must be the expected conflict.
fn refuse(screen: &mut Screen, cell: &mut Cell, title: &str, batch: &Batch, reason: &str, code: &str) {
    screen.example(title);
    let sent = Instant::now();
    let answer = cell.begin(batch, None);
    let took = sent.elapsed().as_secs_f64() * 1e3;
    let refusal = match answer {
        Ok(_) => return screen.expect(false, "the service refuses this"),
        Err(failure) => failure.refusal(),
    };
    let Some(refusal) = refusal else { return screen.expect(false, "the connection holds") };
    screen.label("ERROR", &format!("{}: {}   ({took:.1} ms)", refusal.code, refusal.message));
    screen.label("DETAIL", refusal.detail.as_deref().unwrap_or("(none)"));
    screen.label("HINT", refusal.hint.as_deref().unwrap_or("(none)"));
    screen.blank();
    let conflicts = refusal.conflicts().unwrap_or_default();
    let named = conflicts.len() == 1 && conflicts[0].reason == reason;
    if !(named && refusal.code == code && refusal.hint.is_some()) {
        screen.expect(false, &format!("this is a {reason} with SQLSTATE {code} and a HINT"));
    }
}
