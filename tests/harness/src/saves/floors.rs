//! Floors of saves: the same rows at cell and service, written without the extension.

use std::env;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use tokio::runtime::Builder;
use tokio_postgres::{Client, Config, NoTls};

use super::{Clusters, ROLE, Saver};

/// Saves as many rows as the table `floor_rows` of the service has by one statement. Before the COMMIT it sends these rows, which are
/// claims, over one connection into `floor_claims`, a table like that of the claims, and commits there.
pub fn many_rows(clusters: &Clusters) -> Result<Saver> {
    let (mut cell, mut service) = (clusters.cell()?, clusters.service()?);
    let mut rows = Vec::new();
    service.copy_out("COPY floor_rows TO STDOUT")?.read_to_end(&mut rows)?;
    let count = rows.iter().filter(|byte| **byte == b'\n').count();
    Ok(Box::new(move || {
        service.batch_execute("TRUNCATE floor_claims")?;
        let mut insert = String::new();
        let number = rand::random::<u64>();
        write!(
            insert,
            "BEGIN; INSERT INTO plain (name) SELECT 'floor-{number:016x}-' || i FROM generate_series(1, {count}) i"
        )?;
        let begun = Instant::now();
        cell.batch_execute(&insert)?;
        let mut copy = service.copy_in("COPY floor_claims FROM STDIN")?;
        copy.write_all(&rows)?;
        copy.finish()?;
        cell.batch_execute("COMMIT")?;
        Ok(begun.elapsed())
    }))
}

/// Saves a row with two names, and before its COMMIT two rows by one durable transaction at one service.
pub fn one_service(clusters: &Clusters) -> Result<Saver> {
    services(clusters, false)
}

/// Saves a row with two names, and before its COMMIT one row by a durable transaction at each of two services, sent at the same time. Each is a
/// server of its own.
pub fn two_services(clusters: &Clusters) -> Result<Saver> {
    services(clusters, true)
}

fn services(clusters: &Clusters, both: bool) -> Result<Saver> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (name, insert) = (clusters.service.clone(), "INSERT INTO floor (name) VALUES ($1)");
    let get = |variable: &str| env::var(variable).with_context(|| format!("{variable} is not set"));
    let (cell, first, second) = runtime.block_on(async {
        let cell = connect(&get("CLUSTER_cell")?, &clusters.cell_database).await?;
        let first = connect(&format!("{}:{}", get("PGHOST")?, get("PGPORT")?), &name).await?;
        let second = if both { Some(Arc::new(connect(&get("CLUSTER_second")?, &name).await?)) } else { None };
        Ok::<_, anyhow::Error>((cell, first, second))
    })?;
    let (row, one, other) = runtime.block_on(async {
        let row = cell.prepare("INSERT INTO plain_two (name, other) VALUES ($1, $2)").await?;
        let one = first.prepare(if both { insert } else { "INSERT INTO floor (name) VALUES ($1), ($2)" }).await?;
        let other = match &second {
            Some(second) => Some(second.prepare(insert).await?),
            None => None,
        };
        Ok::<_, anyhow::Error>((row, one, other))
    })?;
    Ok(Box::new(move || {
        let (name, also) = (super::sides::name(), super::sides::name());
        let begun = Instant::now();
        runtime.block_on(async {
            cell.batch_execute("BEGIN").await?;
            cell.execute(&row, &[&name, &also]).await?;
            match (&second, &other) {
                (Some(second), Some(other)) => {
                    let (second, other) = (second.clone(), other.clone());
                    let at_second = tokio::spawn(async move { second.execute(&other, &[&also]).await });
                    first.execute(&one, &[&name]).await?;
                    at_second.await??;
                }
                _ => drop(first.execute(&one, &[&name, &also]).await?),
            }
            Ok::<_, anyhow::Error>(cell.batch_execute("COMMIT").await?)
        })?;
        Ok(begun.elapsed())
    }))
}

/// Connects to a database of the cluster with this socket directory and port: `/tmp/dir:5432`.
async fn connect(place: &str, database: &str) -> Result<Client> {
    let (directory, port) = place.rsplit_once(':').with_context(|| format!("{place} is no DIRECTORY:PORT"))?;
    let mut config = Config::new();
    config.host(directory).port(port.parse()?).user(ROLE).dbname(database);
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
