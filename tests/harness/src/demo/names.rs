//! The input: the names of all Debian packages, in a fixed order.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeSet;
use std::process::Command;

/// The number of names if there is no package list.
const MADE_UP: usize = 60_000;

/// All names, shuffled, and the names that each cell wants.
pub struct Input {
    pub names: Vec<String>,
    /// For each cell, ascending indexes into `names`, so that both meet a contested name at about the same time.
    pub wanted: [Vec<usize>; 2],
    /// The number of names that both want.
    pub contested: usize,
    /// The origin of the names.
    pub origin: String,
}

/// Loads the names. Two in five are wanted by the first cell only, two by the second only, one by both.
pub fn load() -> Input {
    let (mut names, origin) = match package_names() {
        Ok(names) => (names, "the names of all Debian packages (apt-cache pkgnames)".to_string()),
        Err(why) => (made_up(), format!("made-up names, because {why}")),
    };
    let mut rng = StdRng::seed_from_u64(1);
    names.shuffle(&mut rng);
    let mut wanted = [Vec::new(), Vec::new()];
    let mut contested = 0;
    for index in 0..names.len() {
        let lot = rng.random_range(0..5);
        if lot != 0 && lot != 1 {
            wanted[0].push(index);
        }
        if lot != 2 && lot != 3 {
            wanted[1].push(index);
        }
        contested += usize::from(lot == 4);
    }
    Input { names, wanted, contested, origin }
}

/// Returns the package names, sorted and without duplicates.
fn package_names() -> Result<Vec<String>, String> {
    let output =
        Command::new("apt-cache").arg("pkgnames").output().map_err(|e| format!("apt-cache cannot be run ({e})"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let names: BTreeSet<&str> = text.lines().map(str::trim).filter(|name| !name.is_empty()).collect();
    if names.len() < 1000 {
        return Err(format!("apt-cache knows only {} packages (try apt-get update)", names.len()));
    }
    Ok(names.into_iter().map(str::to_string).collect())
}

fn made_up() -> Vec<String> {
    (0..MADE_UP).map(|n| format!("package-{n:05}")).collect()
}
