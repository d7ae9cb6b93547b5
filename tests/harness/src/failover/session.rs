//! A cell's connection to the current primary. Its calls have a deadline, because a node that is frozen or cut off does
//! not report it.

use std::time::Duration;

use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Config, NoTls, Row};
use uuid::Uuid;

use crate::batch::Batch;
use crate::failure::Failure;

const CONNECT: Duration = Duration::from_secs(2);

pub struct Session {
    // The client is dropped first; then the runtime ends the connection.
    client: tokio_postgres::Client,
    runtime: Runtime,
    cell: i64,
    call_timeout: Duration,
}

impl Session {
    /// Connects to a primary only, as libpq does with `target_session_attrs=read-write`.
    pub fn connect(port: u16, cell: i64, password: &str, call_timeout: Duration) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|e| Failure::Lost(e.to_string()))?;
        let mut config = Config::new();
        config.host("127.0.0.1").port(port).user(super::role(cell)).password(password).dbname("postgres");
        config.application_name(format!("cell {cell}")).target_session_attrs(TargetSessionAttrs::ReadWrite);
        let connected = runtime.block_on(async {
            timeout(CONNECT, async {
                let (client, connection) = config.connect(NoTls).await?;
                tokio::spawn(connection);
                Ok::<_, tokio_postgres::Error>(client)
            })
            .await
        });
        match connected {
            Ok(Ok(client)) => Ok(Self { client, runtime, cell, call_timeout }),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Failure::Lost("no connection in time".into())),
        }
    }

    fn ask(&self, sql: &str, params: &[(&(dyn ToSql + Sync), Type)]) -> Result<Vec<Row>, Failure> {
        match self.runtime.block_on(async { timeout(self.call_timeout, self.client.query_typed(sql, params)).await }) {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Failure::Lost("no answer in time".into())),
        }
    }

    fn one<T: for<'a> tokio_postgres::types::FromSql<'a>>(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<T, Failure> {
        match self.ask(sql, params)?.first() {
            Some(row) => Ok(row.get(0)),
            None => Err(Failure::Lost("no row".into())),
        }
    }

    pub fn begin(&self, batch: &Batch, lease: Uuid) -> Result<Uuid, Failure> {
        let (creates, destroys) = (batch.create_records(), batch.destroy_records());
        self.one(
            "SELECT claims.begin_update($1, $2, $3, $4)",
            &[(&self.cell, Type::INT8), (&creates, Type::JSONB), (&destroys, Type::JSONB), (&lease, Type::UUID)],
        )
    }

    pub fn commit(&self, lease: Uuid) -> Result<bool, Failure> {
        self.one("SELECT claims.commit_update($1, $2)", &[(&self.cell, Type::INT8), (&lease, Type::UUID)])
    }

    /// Calls commit_unflushed, whose answer a crash may undo.
    pub fn commit_unflushed(&self, lease: Uuid) -> Result<bool, Failure> {
        self.one("SELECT claims.commit_unflushed($1, $2)", &[(&self.cell, Type::INT8), (&lease, Type::UUID)])
    }

    pub fn rollback(&self, lease: Uuid) -> Result<bool, Failure> {
        self.one("SELECT claims.rollback_update($1, $2)", &[(&self.cell, Type::INT8), (&lease, Type::UUID)])
    }

    /// Returns the answers of `settle_leases`: the outcome of each lease, and whether it is settled as requested.
    pub fn settle(&self, commits: &[Uuid], rollbacks: &[Uuid]) -> Result<Vec<(Uuid, Option<String>, bool)>, Failure> {
        let rows = self.ask(
            "SELECT lease_uuid, outcome, settled FROM claims.settle_leases($1, $2, $3)",
            &[(&self.cell, Type::INT8), (&commits, Type::UUID_ARRAY), (&rollbacks, Type::UUID_ARRAY)],
        )?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
    }

    /// Returns a page of the outstanding leases.
    pub fn list(&self, limit: i32) -> Result<Vec<(Uuid, Value)>, Failure> {
        let rows = self.ask(
            "SELECT lease_uuid, payload FROM claims.list_leases($1, max_results => $2)",
            &[(&self.cell, Type::INT8), (&limit, Type::INT4)],
        )?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// Returns owner and status of a name.
    pub fn read_name(&self, name: &str) -> Result<Option<(i64, String)>, Failure> {
        let rows = self.ask("SELECT cell_id, status FROM claims.get_record('ROUTES', $1)", &[(&name, Type::TEXT)])?;
        Ok(rows.first().map(|row| (row.get(0), row.get(1))))
    }
}
