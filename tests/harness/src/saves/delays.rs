//! Delays between a save and its effect at the service.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use postgres::{Client, Statement};

use super::sides::name;
use super::{Clusters, ORPHANED, ROLE, SERVICE, Saver};
use crate::server::Server;

/// The time after which a lease counts as left to recovery.
const DELAY_LIMIT: Duration = Duration::from_secs(30);

/// Measures from the answer to COMMIT until the claim is ACTIVE at the service.
pub fn committed(clusters: &Clusters) -> Result<Saver> {
    let (mut cell, mut service) = (clusters.cell()?, clusters.service()?);
    let row = cell.prepare("INSERT INTO routes (name) VALUES ($1)")?;
    let state = state(&mut service)?;
    Ok(Box::new(move || {
        let name = name();
        cell.execute(&row, &[&name])?;
        until(&mut service, &state, &name, Some("ACTIVE"))
    }))
}

/// Measures from a ROLLBACK, after the claim was leased, until the name is free again.
pub fn aborted(clusters: &Clusters) -> Result<Saver> {
    let (mut cell, mut service) = (clusters.cell()?, clusters.service()?);
    let row = cell.prepare("INSERT INTO routes (name) VALUES ($1)")?;
    let state = state(&mut service)?;
    Ok(Box::new(move || {
        let name = name();
        cell.batch_execute("BEGIN")?;
        cell.execute(&row, &[&name])?;
        cell.batch_execute("SET CONSTRAINTS ALL IMMEDIATE")?;
        cell.batch_execute("ROLLBACK")?;
        until(&mut service, &state, &name, None)
    }))
}

fn state(service: &mut Client) -> Result<Statement> {
    Ok(service.prepare("SELECT status FROM claims.get_record('ROUTES', $1)")?)
}

/// Polls the service every tenth of a millisecond.
fn until(service: &mut Client, state: &Statement, name: &str, wanted: Option<&str>) -> Result<Duration> {
    let begun = Instant::now();
    loop {
        let found: Option<String> = service.query_opt(state, &[&name])?.map(|row| row.get(0));
        if found.as_deref() == wanted {
            return Ok(begun.elapsed());
        }
        if begun.elapsed() > DELAY_LIMIT {
            bail!("after {DELAY_LIMIT:?} {name} is {found:?} and not {wanted:?}");
        }
        thread::sleep(Duration::from_micros(100));
    }
}

/// Measures the first call of a new session.
pub fn first(clusters: &Clusters) -> Result<Saver> {
    Ok(first_call(clusters.service_cluster.clone(), SERVICE))
}

/// Like [`first`], on a server that has preloaded the library.
pub fn first_preloaded(clusters: &Clusters) -> Result<Saver> {
    Ok(first_call(clusters.cell_cluster.clone(), ORPHANED))
}

fn first_call(server: Server, database: &'static str) -> Saver {
    Box::new(move || {
        let mut session = server.connect(database, ROLE)?;
        let record = format!(
            "{{\"bucket\": {{\"type\": 1, \"value\": \"{}\"}}, \"subject\": {{\"type\": 2, \"id\": 1}}, \
             \"source\": {{\"type\": 3, \"id\": 1}}}}",
            name()
        );
        let begun = Instant::now();
        session.simple_query(&format!("SELECT claims.begin_update(1, '[{record}]')"))?;
        Ok(begun.elapsed())
    })
}
