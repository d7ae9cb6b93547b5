//! One connection of an application that writes to a claimed table and leaves the claims to capture. It dies at random
//! points.

use std::fmt;
use std::thread;
use std::time::Duration;

use postgres::{Client, SimpleQueryMessage};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use uuid::Uuid;

use super::tally::Tally;
use super::{Field, linger, statements};
use crate::failure::{Conflict, Refusal};

/// The sender of the batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The database, at COMMIT. The application does not know of claims.
    Automatic,
    /// The application, which calls `begin_pending` and `finish`.
    Pending,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Automatic => "automatic",
            Mode::Pending => "pending",
        })
    }
}

struct Application<'f> {
    field: &'f Field,
    cell: usize,
    mode: Mode,
    rng: StdRng,
    tally: Tally,
    client: Option<Client>,
    /// The statements of this transaction so far.
    statements: Vec<String>,
}

/// The reason why a transaction ended early.
enum Stop {
    /// The application died, or lost its connection.
    Died,
    /// A statement was refused, and the refusal was counted.
    Refused,
}

/// The origin of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    /// A statement of the application, including COMMIT and `begin_pending`.
    Transaction,
    /// COMMIT PREPARED or ROLLBACK PREPARED.
    Prepared,
    Finish,
}

/// Works until the campaign ends.
pub fn run(field: &Field, cell: usize, mode: Mode, tally: Tally, seed: u64) -> Tally {
    let rng = StdRng::seed_from_u64(seed);
    let mut application = Application { field, cell, mode, rng, tally, client: None, statements: Vec::new() };
    while !field.is_over() {
        application.round();
    }
    application.tally
}

impl Application<'_> {
    fn round(&mut self) {
        match self.transaction() {
            Ok(()) => {}
            Err(Stop::Refused) => {
                if self.client().and_then(|client| client.batch_execute("ROLLBACK").map_err(|_| Stop::Died)).is_err() {
                    self.client = None;
                }
            }
            Err(Stop::Died) => {
                self.count("died");
                self.client = None;
                thread::sleep(Duration::from_millis(100));
            }
        }
    }

    fn transaction(&mut self) -> Result<(), Stop> {
        if self.client.as_ref().is_none_or(Client::is_closed) {
            self.client = Some(self.field.connect(self.cell, "app").map_err(|_| Stop::Died)?);
        }
        self.statements.clear();
        self.run("BEGIN")?;
        let mut changed = 0;
        for statement in statements::draw(&mut self.rng) {
            let rows = self.run(&statement)?;
            // Changes that are rolled back to a savepoint do not count.
            changed += if statement.contains("ROLLBACK TO") { 0 } else { rows };
            self.perhaps_die(0.01)?;
            // From now on each row is sent separately.
            if self.mode == Mode::Automatic && self.rng.random_bool(0.05) {
                self.run("SET CONSTRAINTS ALL IMMEDIATE")?;
            }
        }
        linger(&mut self.rng);
        let lease = if self.mode == Mode::Pending { self.begin_pending()? } else { None };
        self.perhaps_die(0.02)?;
        if self.rng.random_bool(0.05) {
            self.prepare()?;
        } else {
            self.run("COMMIT")?;
        }
        self.count(if changed > 0 { "committed" } else { "committed without a change" });
        self.perhaps_die(0.03)?;
        match lease {
            Some(lease) if self.rng.random_bool(0.8) => self.finish(lease),
            _ => Ok(()),
        }
    }

    /// Calls begin_pending, sometimes again after a conflict. Sometimes it rolls back a successful call, and the lease
    /// remains.
    fn begin_pending(&mut self) -> Result<Option<Uuid>, Stop> {
        let patient = self.rng.random_bool(0.3);
        if patient {
            self.run("SAVEPOINT patient")?;
        }
        let lease = self.call_begin_pending();
        let again = match lease {
            Err(Stop::Refused) => patient,
            Err(Stop::Died) => false,
            Ok(_) => patient && self.rng.random_bool(0.2),
        };
        if again {
            self.run("ROLLBACK TO patient")?;
            return self.call_begin_pending();
        }
        lease
    }

    fn call_begin_pending(&mut self) -> Result<Option<Uuid>, Stop> {
        let cell = self.cell as i64;
        self.statements.push("begin_pending".into());
        match self.client()?.query_one("SELECT claims.begin_pending($1, 'service')", &[&cell]) {
            Ok(row) => Ok(row.get(0)),
            Err(error) => Err(self.stopped(At::Transaction, &error)),
        }
    }

    fn finish(&mut self, lease: Uuid) -> Result<(), Stop> {
        let cell = self.cell as i64;
        match self.client()?.query_one("SELECT claims.finish($1, 'service', $2)", &[&cell, &lease]) {
            Ok(_) => {
                self.count("finished");
                Ok(())
            }
            Err(error) => Err(self.stopped(At::Finish, &error)),
        }
    }

    /// Ends the transaction in two phases. `Ok` means committed. If it stays prepared, recovery ends it.
    fn prepare(&mut self) -> Result<(), Stop> {
        let name = Uuid::new_v4();
        self.run(&format!("PREPARE TRANSACTION '{name}'"))?;
        self.count("prepared");
        linger(&mut self.rng);
        self.perhaps_die(0.3)?;
        let end = if self.rng.random_bool(0.8) { "COMMIT" } else { "ROLLBACK" };
        match self.client()?.batch_execute(&format!("{end} PREPARED '{name}'")) {
            Ok(()) if end == "COMMIT" => Ok(()),
            Ok(()) => Err(Stop::Refused),
            Err(error) => Err(self.stopped(At::Prepared, &error)),
        }
    }

    /// Runs statements. Returns the number of rows that they have changed.
    fn run(&mut self, sql: &str) -> Result<u64, Stop> {
        self.statements.push(sql.into());
        match self.client()?.simple_query(sql) {
            Ok(messages) => Ok(messages.iter().map(rows).sum()),
            Err(error) => Err(self.stopped(At::Transaction, &error)),
        }
    }

    fn client(&mut self) -> Result<&mut Client, Stop> {
        self.client.as_mut().ok_or(Stop::Died)
    }

    fn perhaps_die(&mut self, probability: f64) -> Result<(), Stop> {
        if self.rng.random_bool(probability) { Err(Stop::Died) } else { Ok(()) }
    }

    fn count(&mut self, what: &str) {
        self.tally.count(format!("{}: {what}", self.mode));
    }

    fn stopped(&mut self, at: At, error: &postgres::Error) -> Stop {
        let Some(refusal) = error.as_db_error().map(Refusal::from) else { return Stop::Died };
        let code = refusal.code.as_str();
        match (at, code) {
            (_, code) if code.starts_with("57P") => return Stop::Died,
            // Recovery has ended the prepared transaction, or is ending it.
            (At::Prepared, "42704" | "55000") => self.count("prepared, and ended by somebody else"),
            (At::Finish, "08001" | "55P03" | "57014") => self.count(&format!("finish refused {code}")),
            (At::Transaction, "08001" | "57014") => self.count(&format!("refused {code}")),
            (At::Transaction, "40P01") => self.count("met each other"),
            (At::Transaction, "55P03") if refusal.conflicts().is_none() && self.field.may_come_from_nodes(code) => {
                self.count(&format!("nodes, {code}"));
            }
            (At::Transaction, "23505" | "55P03") => match refusal.conflicts() {
                Some(conflicts) if conflicts.iter().all(|conflict| self.may_be(conflict)) => {
                    self.count(&format!("refused {code}"));
                }
                // The table's own unique index refused it.
                None if code == "23505" => self.count("met each other"),
                _ => self.odd(at, &refusal),
            },
            (At::Transaction | At::Finish, code)
                if self.field.may_come_from_nodes(code) || self.field.has_met_old_catalogs(code, &refusal.message) =>
            {
                self.count(&format!("nodes, {code}"));
            }
            _ => self.odd(at, &refusal),
        }
        Stop::Refused
    }

    /// Returns whether a conflict is possible. The rows that the transaction destroys are saved, so their claims must
    /// exist and belong to this cell. The rows that it creates are not saved, so this cell cannot have a settled claim
    /// for them.
    fn may_be(&self, conflict: &Conflict) -> bool {
        match conflict.reason.as_str() {
            "leased" | "in_flight" | "queued" => true,
            "taken" => conflict.holder != Some(self.cell as i64),
            _ => false,
        }
    }

    fn odd(&mut self, at: At, refusal: &Refusal) {
        let statements = self.statements.join("; ");
        self.tally.problem(format!("cell {}, {}, {at:?}: {refusal:?} after {statements}", self.cell, self.mode));
    }
}

fn rows(message: &SimpleQueryMessage) -> u64 {
    match message {
        SimpleQueryMessage::CommandComplete(rows) => *rows,
        _ => 0,
    }
}
