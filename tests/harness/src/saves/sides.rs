//! Ways to save a row. Each client has connections and prepared statements of its own.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use postgres::{Client, Statement};
use uuid::Uuid;

use super::{Clusters, Saver};
use crate::batch::Batch;

/// Returns a name that was never used before.
pub fn name() -> String {
    format!("name-{:016x}", rand::random::<u64>())
}

fn timed(save: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let begun = Instant::now();
    save()?;
    Ok(begun.elapsed())
}

/// Saves a row, and before its COMMIT one durable transaction of one row at the service. No save
/// can cost less if it asks another database first.
pub fn minimum(clusters: &Clusters) -> Result<Saver> {
    let (mut cell, mut service) = (clusters.cell()?, clusters.service()?);
    let row = cell.prepare("INSERT INTO plain (name) VALUES ($1)")?;
    let other = service.prepare("INSERT INTO floor (name) VALUES ($1)")?;
    Ok(Box::new(move || {
        timed(|| {
            let name = name();
            cell.batch_execute("BEGIN")?;
            cell.execute(&row, &[&name])?;
            service.execute(&other, &[&name])?;
            Ok(cell.batch_execute("COMMIT")?)
        })
    }))
}

/// Follows the protocol, driven by the application over two permanent connections.
pub fn app(clusters: &Clusters) -> Result<Saver> {
    let (mut cell, mut service) = (clusters.cell()?, clusters.service()?);
    let row = cell.prepare("INSERT INTO plain (name) VALUES ($1) RETURNING id")?;
    let track = cell.prepare("SELECT claims.track_lease($1)")?;
    let begin = service.prepare("SELECT claims.begin_update(1, $1, '[]', $2)")?;
    let commit = service.prepare("SELECT claims.commit_update(1, $1)")?;
    Ok(Box::new(move || {
        timed(|| {
            let (name, lease) = (name(), Uuid::new_v4());
            cell.batch_execute("BEGIN")?;
            let id: i64 = cell.query_one(&row, &[&name])?.get(0);
            service.execute(&begin, &[&Batch::create(vec![(name, id)]).create_records(), &lease])?;
            cell.execute(&track, &[&lease])?;
            cell.batch_execute("COMMIT")?;
            service.execute(&commit, &[&lease])?;
            Ok(())
        })
    }))
}

/// Saves a row without claims.
pub fn plain(clusters: &Clusters) -> Result<Saver> {
    inserts(clusters, "plain")
}

/// Uses automatic mode: the application inserts a row.
pub fn auto(clusters: &Clusters) -> Result<Saver> {
    inserts(clusters, "routes")
}

fn inserts(clusters: &Clusters, table: &str) -> Result<Saver> {
    let mut cell = clusters.cell()?;
    let row = cell.prepare(&format!("INSERT INTO {table} (name) VALUES ($1)"))?;
    Ok(Box::new(move || {
        timed(|| {
            cell.execute(&row, &[&name()])?;
            Ok(())
        })
    }))
}

/// Measures a save that a deferred trigger refuses.
pub fn refused(clusters: &Clusters) -> Result<Saver> {
    let mut cell = clusters.orphaned()?;
    let row = cell.prepare("INSERT INTO refused (name) VALUES ($1)")?;
    Ok(Box::new(move || fails(&mut cell, &row, "P0001")))
}

/// Measures a save that is refused because the breaker is open.
pub fn refused_open(clusters: &Clusters) -> Result<Saver> {
    let mut cell = clusters.orphaned()?;
    let row = cell.prepare("INSERT INTO routes (name) VALUES ($1)")?;
    Ok(Box::new(move || fails(&mut cell, &row, "08001")))
}

fn fails(cell: &mut Client, row: &Statement, wanted: &str) -> Result<Duration> {
    timed(|| match cell.execute(row, &[&name()]) {
        Err(error) if error.code().is_some_and(|state| state.code() == wanted) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => bail!("a save that was to fail has succeeded"),
    })
}
