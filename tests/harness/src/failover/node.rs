//! A node: PostgreSQL under Patroni, behind relays, with a disk for WAL that can be full.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Result, bail};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::options::{Mode, Options};
use super::process;
use super::relay::{Flow, Relay, free_port};

pub struct Node {
    pub name: &'static str,
    /// The ports of PostgreSQL and of Patroni's REST API, without the relays.
    pub port: u16,
    pub rest_port: u16,
    /// The relay that cells connect to.
    pub clients: Relay,
    /// The relay that other nodes replicate from.
    pub peers: Relay,
    rest: Relay,
    /// The relay to etcd.
    etcd: Relay,
    dir: PathBuf,
    patroni: Mutex<Option<i32>>,
}

impl Node {
    pub fn new(options: &Options, name: &'static str, etcd_port: u16) -> Result<Self> {
        let (port, rest_port) = (free_port()?, free_port()?);
        let node = Self {
            name,
            port,
            rest_port,
            clients: Relay::start(port)?,
            peers: Relay::start(port)?,
            rest: Relay::start(rest_port)?,
            etcd: Relay::start(etcd_port)?,
            dir: options.dir.join(name),
            patroni: Mutex::new(None),
        };
        if !node.dir.is_dir() {
            bail!("there is no directory {}", node.dir.display());
        }
        fs::write(node.file("patroni.yml"), serde_json::to_string_pretty(&node.configuration(options))?)?;
        Ok(node)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn log(&self) -> PathBuf {
        self.file("log")
    }

    /// Returns the directory of WAL. It is a file system of its own, if the script could create one.
    fn wal_disk(&self) -> PathBuf {
        self.file("wal")
    }

    /// Returns Patroni's configuration. It is YAML, and so may be JSON.
    fn configuration(&self, options: &Options) -> Value {
        let synchronous = options.mode == Mode::Synchronous;
        let wal = self.wal_disk().join("pg_wal").display().to_string();
        let directory = self.dir.display().to_string();
        let local = |port: u16| format!("127.0.0.1:{port}");
        json!({
            // The directory's name, so that two campaigns do not share their nodes.
            "scope": options.dir.file_name().map(|name| name.to_string_lossy()),
            "name": self.name,
            "restapi": {"listen": local(self.rest_port), "connect_address": local(self.rest.port)},
            // A proxy is used as configured. The other endpoints, which etcd reports, would bypass the relay.
            options.etcd_section(): {"proxy": format!("http://127.0.0.1:{}", self.etcd.port)},
            "bootstrap": {
                "dcs": {
                    "ttl": options.ttl, "loop_wait": 1, "retry_timeout": 3,
                    "primary_start_timeout": 0,
                    "synchronous_mode": synchronous, "synchronous_mode_strict": synchronous,
                    "maximum_lag_on_failover": 1 << 30,
                    "postgresql": {"use_pg_rewind": true, "use_slots": false, "parameters": parameters(options)},
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, {"wal-segsize": "1"}, "no-sync", {"waldir": wal}],
            },
            "postgresql": {
                "listen": local(self.port),
                "connect_address": local(self.peers.port),
                "data_dir": self.file("data"),
                "bin_dir": options.bin,
                "authentication": {
                    "superuser": {"username": "postgres", "password": options.password},
                    "replication": {"username": "replicator", "password": options.password},
                },
                "parameters": {"unix_socket_directories": directory},
                "pgpass": self.file("pgpass"),
                "pg_hba": [
                    "local all all trust",
                    "host replication replicator 127.0.0.1/32 scram-sha-256",
                    "host all all 127.0.0.1/32 scram-sha-256",
                ],
                "basebackup": [{"checkpoint": "fast"}, "no-sync", {"waldir": wal}],
                "remove_data_directory_on_rewind_failure": true,
                "remove_data_directory_on_diverged_timelines": true,
            },
        })
    }

    pub fn start(&self, options: &Options) -> Result<()> {
        let args = [self.file("patroni.yml").display().to_string()];
        let pid = process::start(&options.patroni, &args, options, &self.log())?;
        *self.patroni.lock().unwrap() = Some(pid);
        Ok(())
    }

    fn patroni(&self) -> Option<i32> {
        self.patroni.lock().unwrap().filter(|pid| process::runs(*pid))
    }

    pub fn postmaster(&self) -> Option<i32> {
        let file = fs::read_to_string(self.file("data").join("postmaster.pid")).ok()?;
        file.lines().next()?.trim().parse().ok().filter(|pid| process::runs(*pid))
    }

    fn processes(&self) -> Vec<i32> {
        self.postmaster().into_iter().chain(self.patroni()).collect()
    }

    pub fn freeze(&self) {
        process::signal_family(&self.processes(), Signal::STOP);
    }

    pub fn thaw(&self) {
        process::signal_family(&self.processes(), Signal::CONT);
    }

    /// Kills all processes of PostgreSQL.
    pub fn kill_postgres(&self) {
        process::signal_family(&self.postmaster().into_iter().collect::<Vec<_>>(), Signal::KILL);
    }

    /// Kills everything, Patroni first.
    pub fn kill(&self) {
        let roots: Vec<i32> = self.patroni().into_iter().chain(self.postmaster()).collect();
        let all = process::family(&roots);
        process::signal_family(&roots, Signal::KILL);
        process::await_end(&all, Duration::from_secs(5));
    }

    /// Sets the flow of all connections to and from the node.
    pub fn set_network(&self, flow: Flow) {
        [&self.clients, &self.peers, &self.rest, &self.etcd].into_iter().for_each(|relay| relay.set(flow));
    }

    /// Fills the disk of WAL.
    pub fn fill_disk(&self) -> Result<()> {
        let mut file = File::options().create(true).append(true).open(self.ballast())?;
        for size in [1 << 20, 4096] {
            let block = vec![0; size];
            while file.write_all(&block).is_ok() {}
        }
        Ok(())
    }

    pub fn free_disk(&self) {
        let _ = fs::remove_file(self.ballast());
    }

    fn ballast(&self) -> PathBuf {
        self.wal_disk().join("ballast")
    }

    /// Returns the last lines of the output of Patroni and PostgreSQL.
    pub fn last_words(&self, lines: usize) -> String {
        last_lines(&self.log(), lines)
    }
}

/// Returns the parameters. Without fsync, commits survive the death of processes, but not of the machine.
fn parameters(options: &Options) -> Value {
    json!({
        "shared_preload_libraries": "claims",
        "claims.require_synchronous": if options.mode == Mode::Synchronous { "on" } else { "off" },
        "fsync": "off",
        "lc_messages": "C",
        "log_min_messages": "fatal",
        "log_line_prefix": "%m [%p] %q%u@%d ",
        "shared_buffers": "32MB",
        "max_connections": 80,
        "max_wal_senders": 8,
        "wal_level": "replica",
        "wal_log_hints": "on",
        "hot_standby": "on",
        "wal_keep_size": "48MB",
        "max_wal_size": "32MB",
        "min_wal_size": "2MB",
        // Every segment is a new file, so a full disk is noticed at the next segment.
        "wal_recycle": "off",
        "wal_sender_timeout": "5s",
        "wal_receiver_timeout": "5s",
        "wal_retrieve_retry_interval": "500ms",
    })
}

fn last_lines(file: &Path, lines: usize) -> String {
    let text = fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
