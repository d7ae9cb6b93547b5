//! The faults of the primary.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::cluster::Cluster;
use super::node::Node;
use super::options::{Mode, Options};
use super::relay::Flow;
use super::rest;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// SIGKILL for PostgreSQL.
    KillPostgres,
    /// SIGSTOP for all processes of the node, and SIGCONT when another one leads.
    Freeze,
    /// A planned switchover.
    Switchover,
    /// No space for WAL.
    DiskFull,
    /// Nothing reaches the node, and it reaches nothing.
    Cut,
    /// SIGKILL for PostgreSQL and Patroni. Patroni is started when another node leads.
    KillNode,
}

impl Kind {
    pub const ALL: [Self; 6] =
        [Self::KillPostgres, Self::Freeze, Self::Switchover, Self::DiskFull, Self::Cut, Self::KillNode];

    pub fn name(self) -> &'static str {
        match self {
            Self::KillPostgres => "kill postgres",
            Self::Freeze => "freeze",
            Self::Switchover => "switchover",
            Self::DiskFull => "disk full",
            Self::Cut => "network cut",
            Self::KillNode => "kill node",
        }
    }
}

/// Returns every kind once, and then all of them repeatedly in random order. The control begins with the death of a
/// node, after which the old primary cannot lead again at once and keep what it alone has.
pub fn schedule(options: &Options, rng: &mut StdRng) -> Vec<Kind> {
    let Options { mode, rounds, has_disks, .. } = *options;
    let mut kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| has_disks || *kind != Kind::DiskFull).collect();
    if mode == Mode::Asynchronous {
        kinds.sort_by_key(|kind| *kind != Kind::KillNode);
    }
    let mut planned = Vec::new();
    while planned.len() < rounds {
        planned.extend(&kinds);
        kinds.shuffle(rng);
    }
    planned.truncate(rounds);
    planned
}

/// A fault that lasts until it is ended.
pub struct Fault<'a> {
    kind: Kind,
    cluster: &'a Cluster,
    node: &'a Node,
}

impl<'a> Fault<'a> {
    pub fn strike(cluster: &'a Cluster, node: &'a Node, kind: Kind, rng: &mut StdRng) -> Result<Self> {
        match kind {
            Kind::KillPostgres => node.kill_postgres(),
            Kind::KillNode => node.kill(),
            Kind::Freeze => node.freeze(),
            Kind::Switchover => rest::switch_over(node.rest_port, node.name)?,
            Kind::DiskFull => node.fill_disk()?,
            Kind::Cut => node.set_network(if rng.random_bool(0.5) { Flow::Held } else { Flow::Broken }),
        }
        Ok(Self { kind, cluster, node })
    }

    /// Takes space that the disk has freed meanwhile.
    pub fn keep_up(&self) -> Result<()> {
        if self.kind == Kind::DiskFull { self.node.fill_disk() } else { Ok(()) }
    }

    /// Restores the node, except for what it missed. It may still believe that it leads.
    pub fn end(&self, rng: &mut StdRng) -> Result<()> {
        if matches!(self.kind, Kind::Freeze | Kind::Cut) {
            thread::sleep(Duration::from_millis(rng.random_range(0..2000)));
        }
        match self.kind {
            Kind::KillPostgres | Kind::Switchover => {}
            Kind::KillNode => self.node.start(&self.cluster.options)?,
            Kind::Freeze => self.node.thaw(),
            Kind::DiskFull => self.node.free_disk(),
            Kind::Cut => self.node.set_network(Flow::Open),
        }
        Ok(())
    }
}
