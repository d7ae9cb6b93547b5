//! One connection of one cell, with the functions of the service as methods.

use crate::batch::Batch;
use crate::failure::{Conflict, Failure, parse_conflicts};
use crate::server::Server;
use postgres::{CancelToken, Client, Statement};
use serde_json::Value;
use uuid::Uuid;

/// An outstanding lease, as `list_leases` returns it.
#[derive(Clone, Debug)]
pub struct Listed {
    pub lease: Uuid,
    pub payload: Value,
    pub age_seconds: f64,
    pub cursor: String,
}

/// A row of `settle_leases`.
#[derive(Clone, Debug)]
pub struct SettledRow {
    pub lease: Uuid,
    /// The outcome of the lease. It is `busy` if another session is settling the lease, `fenced` if the lease was
    /// unknown and can no longer begin, and `None` if it is unknown.
    pub outcome: Option<String>,
    pub settled: bool,
}

/// A claim, as `get_record` returns it.
#[derive(Clone, Debug)]
pub struct Record {
    pub cell: i64,
    pub status: String,
}

/// A connection with its prepared statements.
pub struct Cell {
    pub id: i64,
    pub pid: i32,
    pub client: Client,
    begin: Statement,
    try_begin: Statement,
    commit: Statement,
    rollback: Statement,
    settle: Statement,
    outcome: Statement,
    list: Statement,
    get: Statement,
}

/// The answer of `try_begin_update`: the lease, or the conflicts.
pub type Tried = Result<Uuid, Vec<Conflict>>;

impl Cell {
    /// Connects as the cell's role.
    pub fn connect(server: &Server, database: &str, id: i64, role: &str) -> Result<Self, Failure> {
        let mut client = server.connect(database, role)?;
        let pid = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
        let mut prepare = |sql: &str| client.prepare(sql);
        let begin = prepare("SELECT claims.begin_update($1, $2, $3, $4)")?;
        let try_begin = prepare("SELECT * FROM claims.try_begin_update($1, $2, $3, $4)")?;
        let commit = prepare("SELECT claims.commit_update($1, $2)")?;
        let rollback = prepare("SELECT claims.rollback_update($1, $2)")?;
        let settle = prepare("SELECT * FROM claims.settle_leases($1, $2, $3)")?;
        let outcome = prepare("SELECT claims.lease_outcome($1, $2)")?;
        let list = prepare(
            "SELECT lease_uuid, payload, extract(epoch FROM clock_timestamp() - created_at)::float8, cursor \
             FROM claims.list_leases($1, $2, $3)",
        )?;
        let get = prepare("SELECT cell_id, status FROM claims.get_record('ROUTES', $1)")?;
        Ok(Self { id, pid, client, begin, try_begin, commit, rollback, settle, outcome, list, get })
    }

    pub fn cancel_token(&self) -> CancelToken {
        self.client.cancel_token()
    }

    pub fn begin(&mut self, batch: &Batch, lease: Option<Uuid>) -> Result<Uuid, Failure> {
        let (creates, destroys) = (batch.create_records(), batch.destroy_records());
        Ok(self.client.query_one(&self.begin, &[&self.id, &creates, &destroys, &lease])?.get(0))
    }

    pub fn try_begin(&mut self, batch: &Batch, lease: Option<Uuid>) -> Result<Tried, Failure> {
        let (creates, destroys) = (batch.create_records(), batch.destroy_records());
        let row = self.client.query_one(&self.try_begin, &[&self.id, &creates, &destroys, &lease])?;
        match (row.get::<_, Option<Uuid>>(0), row.get::<_, Option<Value>>(1)) {
            (Some(lease), _) => Ok(Ok(lease)),
            (None, conflicts) => Ok(Err(conflicts.as_ref().and_then(parse_conflicts).unwrap_or_default())),
        }
    }

    pub fn commit(&mut self, lease: Uuid) -> Result<bool, Failure> {
        Ok(self.client.query_one(&self.commit, &[&self.id, &lease])?.get(0))
    }

    pub fn rollback(&mut self, lease: Uuid) -> Result<bool, Failure> {
        Ok(self.client.query_one(&self.rollback, &[&self.id, &lease])?.get(0))
    }

    pub fn settle(&mut self, commits: &[Uuid], rollbacks: &[Uuid]) -> Result<Vec<SettledRow>, Failure> {
        let rows = self.client.query(&self.settle, &[&self.id, &commits, &rollbacks])?;
        let row = |r: &postgres::Row| SettledRow { lease: r.get(0), outcome: r.get(1), settled: r.get(2) };
        Ok(rows.iter().map(row).collect())
    }

    pub fn outcome(&mut self, lease: Uuid) -> Result<Option<String>, Failure> {
        Ok(self.client.query_one(&self.outcome, &[&self.id, &lease])?.get(0))
    }

    /// Returns one page of the cell's outstanding leases, oldest first.
    pub fn list(&mut self, after: Option<&str>, max_results: i32) -> Result<Vec<Listed>, Failure> {
        let rows = self.client.query(&self.list, &[&self.id, &after, &max_results])?;
        let listed =
            |r: &postgres::Row| Listed { lease: r.get(0), payload: r.get(1), age_seconds: r.get(2), cursor: r.get(3) };
        Ok(rows.iter().map(listed).collect())
    }

    /// Returns all of the cell's outstanding leases.
    pub fn list_all(&mut self) -> Result<Vec<Listed>, Failure> {
        let mut all: Vec<Listed> = Vec::new();
        loop {
            let after = all.last().map(|l| l.cursor.clone());
            let page = self.list(after.as_deref(), 100)?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
    }

    pub fn get_record(&mut self, name: &str) -> Result<Option<Record>, Failure> {
        let row = self.client.query_opt(&self.get, &[&name])?;
        Ok(row.map(|r| Record { cell: r.get(0), status: r.get(1) }))
    }

    /// Runs plain SQL: transaction control and settings.
    pub fn run(&mut self, sql: &str) -> Result<(), Failure> {
        Ok(self.client.batch_execute(sql)?)
    }
}
