//! Compares the saved rows of the cells with the claims of the service, at the end.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use postgres::Client;

use super::statements::PAIR;
use super::tally::Tally;
use super::{Field, connect_to};
use crate::damage;

/// The saved names and their rows.
const ROWS: &str = "SELECT name, id FROM routes WHERE name IS NOT NULL";

/// The claims of a cell: the row of each, as subject and as source, and whether no lease holds it.
const CLAIMS: &str = "SELECT bucket_value, subject_type || ' ' || subject_id || ' ' || source_type || ' ' || source_id, \
                      status = 'ACTIVE' FROM claims.records WHERE cell_id = $1 AND bucket_type = 'ROUTES'";

const VERIFY: &str = "SELECT missing, different, extra, corrected, held_by_other, skipped \
                      FROM claims.verify($1, 'service', 'RAILS_TABLE_ROUTES', recent => '0', correct => $2)";

/// The columns of `VERIFY`.
type Verified = [i64; 6];

/// Compares the rows of both cells with all claims.
pub fn compare(field: &Field, tally: &mut Tally) -> Result<()> {
    let mut shared = field.connect(0, "postgres").context("the shared cluster is gone")?;
    let mut saved = Vec::new();
    for cell in [1, 2] {
        let mut client = field.connect(cell, "postgres").context("a cell is gone")?;
        let rows: BTreeMap<String, i64> = client.query(ROWS, &[])?.iter().map(|row| (row.get(0), row.get(1))).collect();
        let moved = compare_cell(&mut shared, cell, &rows, tally)?;
        for (what, sql) in [
            ("tracked leases", "SELECT count(*) FROM claims.cells_outstanding_leases"),
            ("queued transactions", "SELECT count(*) FROM claims.automatic_queue"),
            ("prepared transactions", "SELECT count(*) FROM pg_prepared_xacts"),
        ] {
            expect_none(tally, &mut client, &format!("cell {cell}: {what}"), sql)?;
        }
        let verified = verify(field, cell, false)?;
        if verified != [0, moved, 0, 0, 0, 0] {
            tally.problem(format!("cell {cell}: {moved} names have moved, and verification finds {verified:?}"));
        }
        saved.push(rows.into_keys().collect::<BTreeSet<_>>());
    }
    for name in saved[0].intersection(&saved[1]) {
        tally.problem(format!("both cells have {name}"));
    }
    expect_none(tally, &mut shared, "outstanding leases", "SELECT count(*) FROM claims.claim_leases")?;
    for node in field.service_nodes()? {
        let mut client = connect_to(&node, "postgres").context("a node of the service is gone")?;
        damage::find(&mut client)?.into_iter().for_each(|damage| tally.problem(damage));
    }
    let problems = "SELECT problem, detail FROM claims.check() WHERE NOT ($1 AND problem LIKE 'table is not as %')";
    for row in shared.query(problems, &[&field.has_workers])? {
        tally.problem(format!("check() finds: {}: {}", row.get::<_, String>(0), row.get::<_, String>(1)));
    }
    Ok(())
}

/// Compares rows and claims of one cell. Returns the number of names that are claimed for another row than the one that
/// has them. Only names that moved from one row to another within one transaction may be.
fn compare_cell(shared: &mut Client, cell: usize, rows: &BTreeMap<String, i64>, tally: &mut Tally) -> Result<i64> {
    let claims = shared.query(CLAIMS, &[&(cell as i64)])?;
    let claims: BTreeMap<String, (String, bool)> =
        claims.iter().map(|claim| (claim.get(0), (claim.get(1), claim.get(2)))).collect();
    let mut moved = 0;
    for (name, id) in rows {
        match claims.get(name) {
            None => tally.problem(format!("cell {cell} has saved {name} without a claim")),
            Some((_, false)) => {
                tally.problem(format!("cell {cell} has saved {name}, and its claim is held by a lease"))
            }
            Some((of, true)) if *of == format!("GROUP {id} RAILS_TABLE_ROUTES {id}") => {}
            Some(_) if name.starts_with(PAIR) => moved += 1,
            Some((of, true)) => tally.problem(format!("cell {cell}: {name} is of row {id}, and claimed for {of}")),
        }
    }
    for name in claims.keys().filter(|name| !rows.contains_key(*name)) {
        tally.problem(format!("cell {cell} has claimed {name} without a row"));
    }
    Ok(moved)
}

/// Corrects the allowed discrepancies by verification, and checks that there are no others and that a second
/// verification finds none. Counts them.
pub fn correct(field: &Field, tally: &mut Tally) -> Result<()> {
    for cell in [1, 2] {
        let verified = verify(field, cell, true)?;
        let [_, different, ..] = verified;
        if verified != [0, different, 0, different, 0, 0] {
            tally.problem(format!("cell {cell}: verification corrects {verified:?}"));
        }
        let verified = verify(field, cell, false)?;
        if verified != [0; 6] {
            tally.problem(format!("cell {cell}: after its correction verification finds {verified:?}"));
        }
        tally.add("names that had moved", different);
        let mut client = field.connect(cell, "postgres")?;
        tally.add("names at the end", client.query_one("SELECT count(*) FROM routes", &[])?.get(0));
        let leases = "SELECT count(*) FROM claims.lease_outcomes WHERE creator_id = $1 AND outcome = $2";
        for outcome in ["committed", "rolled_back"] {
            let count = field.connect(0, "postgres")?.query_one(leases, &[&(cell as i64), &outcome])?.get(0);
            tally.add(format!("leases {} by cell {cell}", outcome.replace('_', " ")), count);
        }
    }
    Ok(())
}

/// Runs one complete verification.
pub fn verify(field: &Field, cell: usize, correct: bool) -> Result<Verified> {
    let row = field.connect(cell, "app")?.query_one(VERIFY, &[&(cell as i64), &correct]).context("verification")?;
    Ok([0, 1, 2, 3, 4, 5].map(|column| row.get(column)))
}

fn expect_none(tally: &mut Tally, client: &mut Client, what: &str, sql: &str) -> Result<()> {
    let count: i64 = client.query_one(sql, &[])?.get(0);
    if count > 0 {
        tally.problem(format!("{count} {what} are left"));
    }
    Ok(())
}
