//! One connection of an application that follows the protocol itself. It saves, renames and deletes names, and dies at
//! random points.

use std::thread;
use std::time::Duration;

use postgres::Client;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use uuid::Uuid;

use super::tally::Tally;
use super::{Field, NAMES, linger};
use crate::failure::{Failure, Refusal};

/// The change of one transaction to the cell's table, and its row.
struct Change {
    row: i64,
    create: Option<String>,
    destroy: Option<String>,
}

struct Writer<'f> {
    field: &'f Field,
    cell: usize,
    rng: StdRng,
    tally: Tally,
    /// The connections to the cell's database and to the service.
    local: Option<Client>,
    service: Option<Client>,
}

/// The reason why a round ended early.
enum Stop {
    /// The application died, or lost a connection.
    Died,
    /// The transaction is rolled back regularly.
    RollBack(Option<Uuid>),
}

impl From<postgres::Error> for Stop {
    fn from(_: postgres::Error) -> Self {
        Stop::Died
    }
}

/// Works until the campaign ends.
pub fn run(field: &Field, cell: usize, tally: Tally, seed: u64) -> Tally {
    let rng = StdRng::seed_from_u64(seed);
    let mut writer = Writer { field, cell, rng, tally, local: None, service: None };
    while !field.is_over() {
        writer.round();
    }
    writer.tally
}

impl Writer<'_> {
    fn round(&mut self) {
        let connected = self.connect();
        match connected.and_then(|()| self.transaction()) {
            Ok(()) => {}
            Err(Stop::RollBack(lease)) => {
                let local = self.local.as_mut().map(|client| client.batch_execute("ROLLBACK"));
                if let (Some(Ok(())), Some(lease), Some(service)) = (local, lease, self.service.as_mut()) {
                    let cell = self.cell as i64;
                    let _ = service.execute("SELECT claims.rollback_update($1, $2)", &[&cell, &lease]);
                }
            }
            Err(Stop::Died) => {
                self.tally.count("explicit: died");
                (self.local, self.service) = (None, None);
                thread::sleep(Duration::from_millis(100));
            }
        }
    }

    fn connect(&mut self) -> Result<(), Stop> {
        if self.local.as_ref().is_none_or(Client::is_closed) {
            self.local = Some(self.field.connect(self.cell, "app")?);
        }
        if self.service.as_ref().is_none_or(Client::is_closed) {
            self.service = Some(self.field.connect_service(self.cell)?);
        }
        Ok(())
    }

    /// Runs one transaction of the cell, from BEGIN to `forget_leases`.
    fn transaction(&mut self) -> Result<(), Stop> {
        let lease = Uuid::new_v4();
        // If the lease does not name its local transaction, the worker judges it after ten minutes.
        let named = self.field.has_workers || self.rng.random_bool(0.5);
        self.local()?.batch_execute("BEGIN")?;
        let xid: String = self.local()?.query_one("SELECT pg_current_xact_id()::text", &[])?.get(0);
        let Some(change) = self.change()? else { return Err(Stop::RollBack(None)) };
        self.perhaps_die(0.01)?;
        self.begin(&change, lease, named.then_some(xid.as_str()))?;
        linger(&mut self.rng);
        self.perhaps_die(0.03)?;
        self.local_call("SELECT claims.track_lease($1)", lease)?;
        linger(&mut self.rng);
        self.perhaps_die(0.03)?;
        self.local()?.batch_execute("COMMIT")?;
        self.tally.count("explicit: committed");
        self.perhaps_die(0.05)?;
        if self.rng.random_bool(0.1) {
            return Ok(());
        }
        let cell = self.cell as i64;
        self.service()?.execute("SELECT claims.commit_update($1, $2)", &[&cell, &lease])?;
        self.perhaps_die(0.03)?;
        self.local_call("SELECT claims.forget_leases(ARRAY[$1::uuid])", lease)
    }

    fn local(&mut self) -> Result<&mut Client, Stop> {
        self.local.as_mut().ok_or(Stop::Died)
    }

    fn service(&mut self) -> Result<&mut Client, Stop> {
        self.service.as_mut().ok_or(Stop::Died)
    }

    fn perhaps_die(&mut self, probability: f64) -> Result<(), Stop> {
        if self.rng.random_bool(probability) { Err(Stop::Died) } else { Ok(()) }
    }

    /// Changes the cell's own table. Returns `None` if there is nothing to change.
    fn change(&mut self) -> Result<Option<Change>, Stop> {
        let (one, other) = (self.name(), self.name());
        let kind = self.rng.random_range(0..10);
        let (sql, values, create, destroy): (_, Vec<&String>, _, _) = match kind {
            0..5 => ("INSERT INTO routes (name) VALUES ($1) RETURNING id", vec![&one], Some(&one), None),
            5..8 => ("DELETE FROM routes WHERE name = $1 RETURNING id", vec![&one], None, Some(&one)),
            _ => {
                let rename = "UPDATE routes SET name = $2 WHERE name = $1 RETURNING id";
                (rename, vec![&one, &other], Some(&other), Some(&one))
            }
        };
        if kind >= 8 && one == other {
            return Ok(None);
        }
        let parameters: Vec<_> =
            values.into_iter().map(|value| value as &(dyn postgres::types::ToSql + Sync)).collect();
        match self.local()?.query_opt(sql, &parameters) {
            Ok(row) => {
                Ok(row.map(|row| Change { row: row.get(0), create: create.cloned(), destroy: destroy.cloned() }))
            }
            Err(error) => match Failure::from(error) {
                // This cell already has the name, or two of its writers met.
                Failure::Refused(refusal) if ["23505", "40P01"].contains(&refusal.code.as_str()) => Ok(None),
                Failure::Refused(refusal) => Err(self.odd("the cell's table", &refusal)),
                Failure::Lost(_) => Err(Stop::Died),
            },
        }
    }

    fn name(&mut self) -> String {
        format!("name{}", self.rng.random_range(0..NAMES))
    }

    /// Calls begin_update, sometimes twice, as after a lost answer.
    fn begin(&mut self, change: &Change, lease: Uuid, xid: Option<&str>) -> Result<(), Stop> {
        let record = |name: &String| -> Value {
            json!({"bucket": {"type": "ROUTES", "value": name}, "subject": {"type": "GROUP", "id": change.row},
                   "source": {"type": "RAILS_TABLE_ROUTES", "id": change.row}})
        };
        let creates = Value::Array(change.create.iter().map(record).collect());
        let destroys = Value::Array(change.destroy.iter().map(record).collect());
        let cell = self.cell as i64;
        for _ in 0..if self.rng.random_bool(0.05) { 2 } else { 1 } {
            let sql = "SELECT claims.begin_update($1, $2, $3, $4, ($5::text)::xid8)";
            let answer = self.service()?.query_one(sql, &[&cell, &creates, &destroys, &lease, &xid]);
            match answer.map_err(Failure::from) {
                Ok(_) => {}
                Err(Failure::Lost(_)) => return Err(Stop::Died),
                Err(Failure::Refused(refusal)) => return Err(self.refused(change, lease, &refusal)),
            }
        }
        Ok(())
    }

    /// Handles a conflict. Some kinds would show that rows and claims differ. The rows that the transaction deletes are
    /// saved, so their claims must exist and belong to this cell. The rows that it creates are not saved, so this cell
    /// cannot have a settled claim for them. Both is so only until the transaction has died in a crash of its cluster.
    fn refused(&mut self, change: &Change, lease: Uuid, refusal: &Refusal) -> Stop {
        for conflict in refusal.conflicts().unwrap_or_default() {
            let of_ours = conflict.holder == Some(self.cell as i64);
            match conflict.reason.as_str() {
                "leased" | "in_flight" | "queued" => self.tally.count("explicit: conflicts"),
                "taken" if !of_ours => self.tally.count("explicit: conflicts"),
                _ if self.local().is_ok_and(|local| local.batch_execute("SELECT").is_err()) => return Stop::Died,
                _ => self.tally.problem(format!("cell {}: {refusal:?} for {:?}", self.cell, change.destroy)),
            }
        }
        match refusal.code.as_str() {
            "23505" | "55P03" | "42501" | "P0002" => Stop::RollBack(None),
            // Whether the lease has begun is unknown.
            code if self.field.may_come_from_nodes(code) => {
                self.tally.count(format!("explicit: nodes, {code}"));
                Stop::RollBack(Some(lease))
            }
            // Recovery fenced the lease between the first call and the repeated one.
            "55000" => Stop::RollBack(Some(lease)),
            _ => self.odd("begin_update", refusal),
        }
    }

    fn local_call(&mut self, sql: &str, lease: Uuid) -> Result<(), Stop> {
        match self.local()?.execute(sql, &[&lease]).map_err(Failure::from) {
            Ok(_) => Ok(()),
            Err(Failure::Lost(_)) => Err(Stop::Died),
            Err(Failure::Refused(refusal)) if ["55000", "55P03"].contains(&refusal.code.as_str()) => {
                self.tally.count("explicit: given up by recovery");
                Err(Stop::RollBack(Some(lease)))
            }
            Err(Failure::Refused(refusal)) => Err(self.odd(sql, &refusal)),
        }
    }

    fn odd(&mut self, what: &str, refusal: &Refusal) -> Stop {
        // A server that is starting, or has just lost another process, is no problem.
        if !refusal.code.starts_with("57") {
            self.tally.problem(format!("cell {}: {what}: {} {}", self.cell, refusal.code, refusal.message));
        }
        Stop::Died
    }
}
