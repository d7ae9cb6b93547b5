//! The clusters, and connections to them under different roles.

use anyhow::{Context, Result};
use postgres::{Client, Config, NoTls};
use std::env;
use std::time::Duration;

/// A cluster, which the environment variables of libpq name.
#[derive(Clone, Debug)]
pub struct Server {
    config: Config,
    maintenance: String,
}

impl Server {
    /// Reads `PGHOST`, `PGPORT`, `PGUSER` and `PGDATABASE`.
    pub fn from_env() -> Result<Self> {
        let get = |key: &str, default: &str| env::var(key).unwrap_or_else(|_| default.to_string());
        let maintenance = get("PGDATABASE", "postgres");
        let port = get("PGPORT", "5432");
        let mut config = Config::new();
        config
            .host(&get("PGHOST", "/var/run/postgresql"))
            .port(port.parse().with_context(|| format!("PGPORT is not a port: {port}"))?)
            .user(&get("PGUSER", "postgres"))
            .connect_timeout(Duration::from_secs(10));
        Ok(Self { config, maintenance })
    }

    /// Returns another cluster, from a variable with its socket directory and port: `/tmp/dir:5432`.
    pub fn named(variable: &str) -> Result<Self> {
        let place = env::var(variable).with_context(|| format!("{variable} is not set"))?;
        Self::at(&place).with_context(|| format!("{variable} does not lead to a cluster"))
    }

    /// Returns the cluster with this socket directory and port: `/tmp/dir:5432`.
    pub fn at(place: &str) -> Result<Self> {
        let (directory, port) = place.rsplit_once(':').with_context(|| format!("{place} is no DIRECTORY:PORT"))?;
        let mut config = Config::new();
        config.host(directory).port(port.parse()?).user("postgres").connect_timeout(Duration::from_secs(10));
        Ok(Self { config, maintenance: "postgres".to_string() })
    }

    /// Returns the database of the environment.
    pub fn database(&self) -> &str {
        &self.maintenance
    }

    pub fn port(&self) -> u16 {
        self.config.get_ports().first().copied().unwrap_or(5432)
    }

    /// Connects as `role`. The throwaway clusters use trust authentication.
    pub fn connect(&self, database: &str, role: &str) -> Result<Client, postgres::Error> {
        let mut config = self.config.clone();
        config.dbname(database).user(role).application_name("claims-harness");
        config.connect(NoTls)
    }

    /// Connects as the superuser of the environment.
    pub fn admin(&self, database: &str) -> Result<Client> {
        let mut config = self.config.clone();
        config.dbname(database).application_name("claims-harness admin");
        config.connect(NoTls).context("cannot connect to the cluster (PGHOST, PGPORT, PGUSER)")
    }

    /// Creates an empty UTF-8 database with this name. Returns a superuser's connection to it.
    pub fn fresh_database(&self, name: &str) -> Result<Client> {
        self.drop_database(name)?;
        let create = format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'");
        self.admin(&self.maintenance)?.batch_execute(&create)?;
        self.admin(name)
    }

    /// Makes the server run a background worker for one database, and for no other.
    pub fn employ_worker(&self, database: &str) -> Result<()> {
        let mut admin = self.admin(&self.maintenance)?;
        admin.batch_execute(&format!("ALTER SYSTEM SET claims.databases = '{database}'"))?;
        Ok(admin.batch_execute("SELECT pg_reload_conf()")?)
    }

    /// Drops the database and ends its connections.
    pub fn drop_database(&self, name: &str) -> Result<()> {
        let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
        Ok(self.admin(&self.maintenance)?.batch_execute(&drop)?)
    }

    /// Drops login roles that `fresh_role` created. Their grants were dropped with the database.
    pub fn drop_roles<'a>(&self, roles: impl IntoIterator<Item = &'a str>) -> Result<()> {
        let mut admin = self.admin(&self.maintenance)?;
        for role in roles {
            admin.batch_execute(&format!("DROP ROLE IF EXISTS {role}"))?;
        }
        Ok(())
    }
}

/// Creates a login role without any privilege.
pub fn fresh_role(admin: &mut Client, role: &str) -> Result<()> {
    admin.batch_execute(&format!("DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN"))?;
    Ok(())
}

/// Registers a cell with its role, as an administrator does.
pub fn register_cell(admin: &mut Client, cell: i64, role: &str, name: &str) -> Result<()> {
    admin.execute("SELECT claims.register_cell($1, ($2::text)::name, $3)", &[&cell, &role, &name])?;
    Ok(())
}
