//! The statements of an application that does not know of claims, on its table.

use std::vec;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::index;

use super::NAMES;

/// The number of names that one transaction may move from one row to another. Their claims stay with the first row
/// until verification.
pub const PAIRS: u32 = 8;

/// The prefix of these names.
pub const PAIR: &str = "pair";

/// Draws the statements of one transaction. Each text has one or several statements. No name occurs in two texts,
/// except those of `PAIRS`.
pub fn draw(rng: &mut StdRng) -> Vec<String> {
    let names: Vec<_> = index::sample(rng, NAMES as usize, 12).into_iter().map(|n| format!("name{n}")).collect();
    let mut names = names.into_iter();
    let steps = rng.random_range(1..=3);
    (0..steps).map(|_| perhaps_undone(rng, &mut names)).collect()
}

fn perhaps_undone(rng: &mut StdRng, names: &mut vec::IntoIter<String>) -> String {
    let statement = any(rng, names);
    if rng.random_bool(0.1) {
        return format!("SAVEPOINT s; {statement}; ROLLBACK TO s; RELEASE s");
    }
    if rng.random_bool(0.1) { format!("SAVEPOINT s; {statement}; RELEASE s") } else { statement }
}

fn any(rng: &mut StdRng, names: &mut vec::IntoIter<String>) -> String {
    let mut next = || names.next().unwrap_or_else(|| "name0".into());
    let (a, b) = (next(), next());
    match rng.random_range(0..18) {
        0..3 => format!("INSERT INTO routes (name) VALUES ('{a}')"),
        3..5 => {
            let c = next();
            format!("INSERT INTO routes (name) VALUES ('{a}'), ('{b}'), ('{c}') ON CONFLICT DO NOTHING")
        }
        5..7 => format!("UPDATE routes SET name = '{b}' WHERE name = '{a}'"),
        7 => {
            let (c, d) = (next(), next());
            format!(
                "UPDATE routes SET name = CASE name WHEN '{a}' THEN '{c}' ELSE '{d}' END WHERE name IN ('{a}', '{b}')"
            )
        }
        8 => format!("DELETE FROM routes WHERE name = '{a}'"),
        9 => {
            let c = next();
            format!("DELETE FROM routes WHERE name IN ('{a}', '{b}', '{c}')")
        }
        10 => format!("INSERT INTO routes (name) VALUES ('{a}') ON CONFLICT (name) DO UPDATE SET name = '{b}'"),
        11 => format!("INSERT INTO routes (name) VALUES ('{a}') ON CONFLICT DO NOTHING"),
        // There and back.
        12 => format!(
            "UPDATE routes SET name = '{b}' WHERE name = '{a}'; UPDATE routes SET name = '{a}' WHERE name = '{b}'"
        ),
        // Set to NULL, and then deleted.
        13 => format!("UPDATE routes SET name = NULL WHERE name = '{a}'; DELETE FROM routes WHERE name IS NULL"),
        _ => pair(rng),
    }
}

fn pair(rng: &mut StdRng) -> String {
    let mut two = index::sample(rng, PAIRS as usize, 2).into_iter();
    let mut next = || format!("{PAIR}{}", two.next().unwrap_or_default());
    let (p, q) = (next(), next());
    match rng.random_range(0..7) {
        0..3 => format!(
            "UPDATE routes SET name = NULL WHERE name = '{p}'; UPDATE routes SET name = '{p}' WHERE name = '{q}'; \
             UPDATE routes SET name = '{q}' WHERE name IS NULL"
        ),
        3 => format!("DELETE FROM routes WHERE name = '{p}'; INSERT INTO routes (name) VALUES ('{p}')"),
        4 => format!("DELETE FROM routes WHERE name = '{p}'"),
        _ => format!("INSERT INTO routes (name) VALUES ('{p}'), ('{q}') ON CONFLICT DO NOTHING"),
    }
}
