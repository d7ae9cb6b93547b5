//! The options, which `scripts/failover` sets.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::process::User;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As the operations manual says; nothing may be lost.
    Synchronous,
    /// The control: the same faults, and something is lost.
    Asynchronous,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub mode: Mode,
    pub rounds: usize,
    /// No round begins later.
    pub minutes: u64,
    pub seed: u64,
    /// The etcd API that Patroni uses, 2 or 3.
    pub etcd_api: u64,
    /// Patroni's ttl: how long a silent leader is waited for.
    pub ttl: u64,
    /// The directory of everything. The script creates the nodes' directories.
    pub dir: PathBuf,
    /// The directory of PostgreSQL's programs, with the extension installed.
    pub bin: PathBuf,
    pub patroni: PathBuf,
    pub etcd: PathBuf,
    pub password: String,
    pub user: Option<User>,
    /// Whether WAL of each node has a file system of its own.
    pub has_disks: bool,
}

impl Options {
    pub fn from_env() -> Result<Self> {
        let get = |name: &str| env::var(name).with_context(|| format!("{name} is not set"));
        let number = |name: &str, default: u64| match env::var(name) {
            Ok(value) if !value.is_empty() => value.parse().with_context(|| format!("{name}={value} is not a number")),
            _ => Ok(default),
        };
        let mode = match env::var("MODE").as_deref() {
            Ok("synchronous" | "") | Err(_) => Mode::Synchronous,
            Ok("asynchronous") => Mode::Asynchronous,
            Ok(other) => bail!("MODE={other}: synchronous or asynchronous"),
        };
        let user = match (env::var("FAILOVER_UID"), env::var("FAILOVER_GID")) {
            (Ok(uid), Ok(gid)) => Some(User { uid: uid.parse()?, gid: gid.parse()? }),
            _ => None,
        };
        Ok(Self {
            mode,
            rounds: usize::try_from(number("ROUNDS", 200)?)?,
            minutes: number("MINUTES", u64::MAX / 60)?,
            seed: number("SEED", rand::random_range(0..1_000_000))?,
            etcd_api: number("ETCD_API", 3)?,
            ttl: number("TTL", 20)?,
            dir: get("FAILOVER_DIR")?.into(),
            bin: get("CLAIMS_BINDIR")?.into(),
            patroni: get("FAILOVER_PATRONI")?.into(),
            etcd: get("FAILOVER_ETCD")?.into(),
            password: get("FAILOVER_PASSWORD")?,
            user,
            has_disks: env::var("FAILOVER_DISKS").is_ok_and(|v| v == "yes"),
        })
    }

    /// Returns the name of etcd's section in Patroni's configuration.
    pub fn etcd_section(&self) -> &'static str {
        if self.etcd_api == 2 { "etcd" } else { "etcd3" }
    }
}
