//! The demo: a story in chapters, in a terminal.
//!
//! Each chapter is a module with one function `tell`. It gets the screen and the world, shows what happens, and checks
//! the results with `Screen::expect`. Any statement that fails fails the demo.

mod cast;
mod crash;
mod damage;
mod death;
mod ending;
mod home;
mod names;
mod one_database;
mod opening;
mod race;
mod refusals;
mod rollout;
mod screen;
mod shorter;
mod spellings;
mod tally;
mod unaware;

use anyhow::Result;
use cast::World;
use screen::Screen;
use std::process::ExitCode;

type Chapter = fn(&mut Screen, &mut World) -> Result<()>;

const CHAPTERS: [(&str, Chapter); 12] = [
    ("Two cells and one shared database", opening::tell),
    ("Both claim names at the same time", race::tell),
    ("How the service says no", refusals::tell),
    ("A cell dies halfway", death::tell),
    ("Shorter holds: expiring claims and requests", shorter::tell),
    ("Applications that know nothing of claims", unaware::tell),
    ("A cell's database crashes", crash::tell),
    ("A damaged claim is found and repaired", damage::tell),
    ("Names that people take for the same", spellings::tell),
    ("From nothing to enforced names", rollout::tell),
    ("Unique in one database", one_database::tell),
    ("What is left", ending::tell),
];

/// Runs the demo, or the part of it that is a process of its own.
pub fn main() -> ExitCode {
    let told = if std::env::args().nth(1).as_deref() == Some(death::DYING) { death::dying_cell() } else { tell() };
    match told {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("\ndemo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Tells all chapters. Returns false if an expectation failed.
fn tell() -> Result<bool> {
    let mut screen = Screen::new();
    let mut world = World::build()?;
    for (number, (title, chapter)) in CHAPTERS.iter().enumerate() {
        screen.heading(number + 1, title);
        chapter(&mut screen, &mut world)?;
    }
    world.tear_down()?;
    Ok(screen.verdict())
}
