//! The place of a case: a database of the cell's server with a cell of its own, whose service is forged.

use std::env;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::process::{self, Log};
use super::service::Forge;
use super::session::{HONEST_LIMIT, Session};

/// The cell that has the names which other cells cannot get.
const RIVAL: usize = 1000;
/// A name of the rival.
pub const TAKEN: &str = "taken";
/// A range of ids that the rival has.
pub const RIVALS_IDS: (i64, i64) = (1, 1000);

/// The two servers, from the script.
pub struct Field {
    /// The socket directory and port.
    service: (String, u16),
    cell: (String, u16),
    /// The password of the cells' roles at the service.
    password: String,
    pub log: Log,
    /// The databases that have a worker.
    employed: Mutex<Vec<String>>,
    /// Locked exclusively to kill a process.
    restarting: RwLock<()>,
}

impl Field {
    pub fn from_env() -> Result<Field> {
        let get = |name: &str| env::var(name).with_context(|| format!("{name} is not set"));
        let cluster = |name: &str| -> Result<(String, u16)> {
            let value = get(name)?;
            let (directory, port) = value.rsplit_once(':').with_context(|| format!("{name} is no DIRECTORY:PORT"))?;
            Ok((directory.to_owned(), port.parse()?))
        };
        let cell = cluster("FORGE_CELL")?;
        let log = Log::new(PathBuf::from(&cell.0).join("log"));
        Ok(Field {
            service: cluster("FORGE_SERVICE")?,
            cell,
            password: get("FORGE_PASSWORD")?,
            log,
            employed: Mutex::default(),
            restarting: RwLock::default(),
        })
    }

    /// Opens a superuser's session at the real service.
    pub fn at_service(&self) -> Result<Session> {
        Session::connect(&self.service.0, self.service.1, "postgres", "postgres")
    }

    fn at_cell(&self, database: &str, role: &str) -> Result<Session> {
        Session::connect(&self.cell.0, self.cell.1, database, role)
    }

    /// Creates what all cases share.
    pub fn prepare(&self) -> Result<()> {
        let (service, cell) = (self.at_service()?, self.at_cell("postgres", "postgres")?);
        service.value("CREATE EXTENSION claims")?;
        service.value(&format!("SELECT claims.register_cell({RIVAL}, 'postgres', 'rival')"))?;
        let record = serde_json::json!([{"bucket": {"type": "ROUTES", "value": TAKEN}, "subject": {"type": "GROUP", "id": 1},
                                         "source": {"type": "RAILS_TABLE_ROUTES", "id": 1}}]);
        service.value(&format!("SELECT claims.commit_update({RIVAL}, claims.begin_update({RIVAL}, '{record}'))"))?;
        service.value("SELECT claims.add_id_space('forged', 'a campaign')")?;
        let (first, last) = RIVALS_IDS;
        service.value(&format!("SELECT claims.lease_id_range({RIVAL}, 'forged', {})", last - first + 1))?;
        cell.value("CREATE ROLE app LOGIN")?;
        Ok(())
    }

    /// Starts or stops the worker of a database.
    pub fn employ(&self, database: &str, is_wanted: bool) -> Result<()> {
        let mut employed = self.employed.lock().unwrap_or_else(PoisonError::into_inner);
        employed.retain(|other| other != database);
        if is_wanted {
            employed.push(database.to_owned());
        }
        let cell = self.at_cell("postgres", "postgres")?;
        cell.value(&format!("ALTER SYSTEM SET claims.databases = '{}'", employed.join(", ")))?;
        cell.value("SELECT pg_reload_conf()").map(drop)
    }

    /// Does work that a restart of the cell's server would disturb.
    pub fn while_up<T>(&self, work: impl FnOnce() -> T) -> T {
        let _up = self.restarting.read().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    /// Kills a process of the cell's server, which restarts because of that. Waits until nobody else uses it.
    pub fn kill(&self, pid: i32) -> Result<()> {
        let _down = self.restarting.write().unwrap_or_else(PoisonError::into_inner);
        if process::is_there(pid) {
            let crashes = self.log.crashes()?.len();
            process::signal(pid, Signal::KILL);
            let since = Instant::now();
            while self.log.crashes()?.len() == crashes && since.elapsed() < HONEST_LIMIT {
                thread::sleep(Duration::from_millis(50));
            }
        }
        self.wait_for_cell()
    }

    /// Waits until the cell's server accepts connections again, after a crash.
    pub fn wait_for_cell(&self) -> Result<()> {
        let since = Instant::now();
        loop {
            match self.at_cell("postgres", "postgres") {
                Ok(_) => return Ok(()),
                Err(error) if since.elapsed() > HONEST_LIMIT => {
                    return Err(error.context("the cell does not come back"));
                }
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

/// A database with a cell and a forged service.
pub struct Home<'f> {
    pub field: &'f Field,
    pub cell: usize,
    pub database: String,
    pub forge: Forge,
}

impl<'f> Home<'f> {
    /// Creates the database of a cell.
    pub fn make(field: &'f Field, cell: usize) -> Result<Home<'f>> {
        let database = format!("forge_{cell}");
        let forge = Forge::start(field.service.1)?;
        let home = Home { field, cell, database, forge };
        let Field { password, .. } = field;
        let service = field.at_service()?;
        service.value(&format!("CREATE ROLE cell{cell} LOGIN PASSWORD '{password}'"))?;
        service.value(&format!("SELECT claims.register_cell({cell}, 'cell{cell}', 'cell {cell}')"))?;
        field
            .at_cell("postgres", "postgres")?
            .value(&format!("CREATE DATABASE {} TEMPLATE template0", home.database))?;
        home.admin()?.value(
            &home.with_cell(&SETUP.replace("{port}", &home.forge.port.to_string()).replace("{password}", password)),
        )?;
        Ok(home)
    }

    /// Opens a superuser's session in the database.
    pub fn admin(&self) -> Result<Session> {
        self.field.at_cell(&self.database, "postgres")
    }

    /// Opens a session of the application.
    pub fn app(&self) -> Result<Session> {
        self.field.at_cell(&self.database, "app")
    }

    /// Returns a statement with `{cell}` filled in.
    pub fn with_cell(&self, sql: &str) -> String {
        sql.replace("{cell}", &self.cell.to_string())
    }
}

/// The setup of the database. The breaker is off, because it would prevent lies.
const SETUP: &str = "
    CREATE EXTENSION claims;
    ALTER DATABASE forge_{cell} SET claims.breaker_failures = 0;
    SELECT claims.register_cell({cell}, 'app');
    CREATE SERVER service FOREIGN DATA WRAPPER claims_service
      OPTIONS (host '127.0.0.1', port '{port}', dbname 'postgres', connect_timeout '1');
    CREATE USER MAPPING FOR postgres SERVER service OPTIONS (user 'cell{cell}', password '{password}');
    CREATE TABLE routes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE);
    GRANT SELECT, INSERT, UPDATE, DELETE ON routes TO app;
    CREATE SEQUENCE forged_ids;
    ALTER SEQUENCE forged_ids OWNER TO app;
    CREATE TABLE drawn (id bigint PRIMARY KEY);
    SET ROLE app;
    SELECT claims.use_id_space('forged_ids', 'forged');
    RESET ROLE;
    SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id');
    SELECT claims.automatic({cell}, 'service')";
