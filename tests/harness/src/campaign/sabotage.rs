//! Damages consistent data after the campaign, in each way that the verdict must notice, and repairs it.

use anyhow::{Context, Result};

use super::tally::Tally;
use super::{Field, recovery, verdict};

/// The repair of a damage.
enum Repair {
    Verification,
    Recovery,
    /// These statements, without capture.
    ByHand(&'static str),
}

struct Sabotage {
    cell: usize,
    /// Whether the changes are captured.
    captured: bool,
    sql: &'static str,
    /// A problem that the verdict must report.
    problem: &'static str,
    repair: Repair,
}

const ALL: [Sabotage; 5] = [
    Sabotage {
        cell: 2,
        captured: true,
        sql: "BEGIN; INSERT INTO routes (name) VALUES ('unfinished'); SELECT claims.begin_pending(2, 'service'); COMMIT",
        problem: "1 outstanding leases are left",
        repair: Repair::Recovery,
    },
    Sabotage {
        cell: 2,
        captured: false,
        sql: "INSERT INTO routes (name) VALUES ('unseen')",
        problem: "cell 2 has saved unseen without a claim",
        repair: Repair::Verification,
    },
    Sabotage {
        cell: 2,
        captured: false,
        sql: "UPDATE routes SET id = DEFAULT WHERE name = 'unseen'",
        problem: "cell 2: unseen is of row",
        repair: Repair::Verification,
    },
    Sabotage {
        cell: 1,
        captured: false,
        sql: "INSERT INTO routes (name) VALUES ('unseen')",
        problem: "both cells have unseen",
        repair: Repair::ByHand("DELETE FROM routes WHERE name = 'unseen'"),
    },
    Sabotage {
        cell: 2,
        captured: false,
        sql: "DELETE FROM routes WHERE name = 'unseen'",
        problem: "cell 2 has claimed unseen without a row",
        repair: Repair::Verification,
    },
];

/// Tries every sabotage. It is a problem if the verdict does not notice the damage, or if the repair does not remove
/// it.
pub fn try_all(field: &Field, tally: &mut Tally) -> Result<()> {
    for sabotage in &ALL {
        change(field, sabotage.cell, sabotage.captured, sabotage.sql)?;
        let mut found = Tally::default();
        verdict::compare(field, &mut found)?;
        if !found.problems.iter().any(|problem| problem.starts_with(sabotage.problem)) {
            tally.problem(format!("not noticed: {}: {:?}", sabotage.problem, found.problems));
        }
        match sabotage.repair {
            Repair::Verification => drop(verdict::verify(field, sabotage.cell, true)?),
            Repair::Recovery => recovery::finish(field, tally)?,
            Repair::ByHand(sql) => change(field, sabotage.cell, false, sql)?,
        }
        let before = tally.problems.len();
        verdict::compare(field, tally)?;
        if tally.problems.len() == before {
            tally.count("sabotages noticed and repaired");
        }
    }
    Ok(())
}

fn change(field: &Field, cell: usize, captured: bool, sql: &str) -> Result<()> {
    let mut client = field.connect(cell, "postgres").context("a cell is gone")?;
    if captured {
        return Ok(client.batch_execute(sql)?);
    }
    let name = "ALTER TABLE routes";
    client.batch_execute(&format!(
        "{name} DISABLE TRIGGER claims_capture; {sql}; {name} ENABLE TRIGGER claims_capture"
    ))?;
    Ok(())
}
