//! A cell's own database: the application's table, the extension, and the connection to the service.

use super::cast::{Member, World};
use super::screen::Screen;
use crate::failure::{Failure, Refusal};
use crate::server::fresh_role;
use anyhow::{Result, ensure};
use postgres::Client;
use std::thread::sleep;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The role of the application. It may write its table, and has no privilege on any object of claims.
pub const APP: &str = "demo_app";
/// The role that declares and verifies.
pub const KEEPER: &str = "demo_keeper";
/// The owner of the extension. Nobody logs in as this role.
const OWNER: &str = "demo_owner";
pub const ROLES: [&str; 3] = [APP, KEEPER, OWNER];

/// How long the cell's background worker may take.
const WORKER_LIMIT: Duration = Duration::from_secs(60);

/// Creates the cell's database with users, as `docs/cell/first-steps.md` describes.
pub fn furnish(cell: &Member, world: &mut World, users: &[&str]) -> Result<Client> {
    let password = Uuid::new_v4();
    world.admin.batch_execute(&format!("ALTER ROLE {} PASSWORD '{password}'", cell.role))?;
    let mut home = cell.home()?.fresh_database(cell.database)?;
    for role in ROLES {
        fresh_role(&mut home, role)?;
    }
    home.batch_execute(&format!(
        "CREATE TABLE users (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, username text NOT NULL UNIQUE); \
         GRANT SELECT, INSERT, UPDATE, DELETE ON users TO {APP}; \
         ALTER ROLE {OWNER} NOLOGIN SUPERUSER; \
         SET ROLE {OWNER}; \
         CREATE EXTENSION claims; \
         RESET ROLE; \
         ALTER ROLE {OWNER} NOSUPERUSER; \
         SELECT claims.register_cell({id}, '{KEEPER}'); \
         CREATE SERVER claims_service FOREIGN DATA WRAPPER claims_service \
             OPTIONS (host '127.0.0.1', port '{port}', dbname '{shared}', connect_timeout '5'); \
         GRANT USAGE ON FOREIGN SERVER claims_service TO {OWNER}; \
         CREATE USER MAPPING FOR {OWNER} SERVER claims_service OPTIONS (user '{role}', password '{password}')",
        id = cell.id,
        role = cell.role,
        port = world.server.port(),
        shared = super::cast::SHARED,
    ))?;
    cell.home()?.employ_worker(cell.database)?;
    // The machine may be busy, and the demo does not test how long an answer takes.
    home.batch_execute(&format!("ALTER DATABASE {} SET claims.service_timeout = '10s'", cell.database))?;
    for name in users {
        home.execute("INSERT INTO users (username) VALUES ($1)", &[name])?;
    }
    Ok(home)
}

/// Inserts a user like an application that does not know of claims.
pub fn insert(app: &mut Client, name: &str) -> Result<(), Failure> {
    Ok(app.batch_execute(&insert_sql(name))?)
}

pub fn insert_sql(name: &str) -> String {
    format!("INSERT INTO users (username) VALUES ('{name}')")
}

/// Returns the refusal of an insert, or `None` if it succeeded.
pub fn refusal(app: &mut Client, name: &str) -> Option<Refusal> {
    insert(app, name).err().and_then(Failure::refusal)
}

/// Returns the SQLSTATE of an insert.
pub fn state(app: &mut Client, name: &str) -> String {
    insert(app, name).map_or_else(|failure| failure.code().to_string(), |()| "00000".to_string())
}

pub fn users(home: &mut Client) -> Result<Vec<String>> {
    Ok(home.query("SELECT username FROM users", &[])?.iter().map(|row| row.get(0)).collect())
}

/// Waits until a cell has no lease at the service and tracks none. Returns how long that took.
pub fn settled(cell: &Member, world: &mut World) -> Result<Duration> {
    let begun = Instant::now();
    let mut home = cell.home()?.admin(cell.database)?;
    let at_service = format!("SELECT count(*) FROM claims.claim_leases WHERE creator_id = {}", cell.id);
    while world.count(&at_service)? > 0
        || home.query_one("SELECT count(*) FROM claims.cells_outstanding_leases", &[])?.get::<_, i64>(0) > 0
    {
        ensure!(begun.elapsed() < WORKER_LIMIT, "{}'s worker leaves leases unsettled", cell.name);
        sleep(Duration::from_millis(20));
    }
    Ok(begun.elapsed())
}

/// The counts of one verification.
#[derive(Debug)]
pub struct Verified {
    pub checked: i64,
    pub missing: i64,
    pub different: i64,
    pub extra: i64,
    pub corrected: i64,
    pub held_by_other: i64,
}

/// The columns of `Verified::cells`.
pub const VERIFIED: [&str; 6] = ["checked", "missing", "different", "extra", "corrected", "held_by_other"];

impl Verified {
    /// Returns a row of a table, with a name in the first column.
    pub fn cells(&self, name: &str) -> Vec<String> {
        let counts = [self.checked, self.missing, self.different, self.extra, self.corrected, self.held_by_other];
        [name.to_string()].into_iter().chain(counts.iter().map(i64::to_string)).collect()
    }

    /// Returns the number of discrepancies of each kind, and of corrections.
    pub fn found(&self) -> [i64; 4] {
        [self.missing, self.different, self.extra, self.corrected]
    }
}

/// Verifies the cell's users. The claims of the demo are only seconds old, so none counts as recent.
pub fn verify(cell: &Member, correct: bool) -> Result<Verified> {
    let row = cell.at_home(KEEPER)?.query_one(
        "SELECT * FROM claims.verify($1, 'claims_service', 'RAILS_TABLE_USERS', recent => '0', correct => $2)",
        &[&cell.id, &correct],
    )?;
    Ok(Verified {
        checked: row.get("checked"),
        missing: row.get("missing"),
        different: row.get("different"),
        extra: row.get("extra"),
        corrected: row.get("corrected"),
        held_by_other: row.get("held_by_other"),
    })
}

/// Prints an error as the application gets it.
pub fn show(screen: &Screen, refusal: &Refusal) {
    screen.label("ERROR", &format!("{}: {}", refusal.code, refusal.message));
    screen.label("DETAIL", refusal.detail.as_deref().unwrap_or("(none)"));
    screen.label("HINT", refusal.hint.as_deref().unwrap_or("(none)"));
}
