//! The end state: what the cells have saved, and what the service says.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use postgres::Client;

use super::Field;
use super::tally::Tally;

/// Compares everything with everything.
pub fn compare(field: &Field, tally: &mut Tally) -> Result<()> {
    let mut shared = field.connect(0, "postgres").context("the shared cluster is gone")?;
    let mut saved = Vec::new();
    for cell in [1, 2] {
        let mut client = field.connect(cell, "postgres").context("a cell is gone")?;
        let rows = names(&mut client, "SELECT name FROM routes", &[])?;
        let active = "SELECT bucket_value FROM claims.claims WHERE creator_id = $1 AND status = 1";
        let claims = names(&mut shared, active, &[&(cell as i64)])?;
        for name in rows.difference(&claims) {
            tally.problem(format!("cell {cell} has saved {name} without a claim"));
        }
        for name in claims.difference(&rows) {
            tally.problem(format!("cell {cell} has claimed {name} without a row"));
        }
        expect_none(tally, &mut client, "tracked leases", "SELECT count(*) FROM claims.cells_outstanding_leases")?;
        tally.add("names at the end", rows.len() as i64);
        saved.push(rows);
    }
    for name in saved[0].intersection(&saved[1]) {
        tally.problem(format!("both cells have {name}"));
    }
    expect_none(tally, &mut shared, "outstanding leases", "SELECT count(*) FROM claims.claim_leases")?;
    expect_none(tally, &mut shared, "rows of check()", "SELECT count(*) FROM claims.check()")
}

fn names(client: &mut Client, sql: &str, values: &[&(dyn postgres::types::ToSql + Sync)]) -> Result<BTreeSet<String>> {
    Ok(client.query(sql, values)?.iter().map(|row| row.get(0)).collect())
}

fn expect_none(tally: &mut Tally, client: &mut Client, what: &str, sql: &str) -> Result<()> {
    let count: i64 = client.query_one(sql, &[])?.get(0);
    if count > 0 {
        tally.problem(format!("{count} {what} are left"));
    }
    Ok(())
}
