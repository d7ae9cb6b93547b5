//! Three nodes under Patroni, and etcd.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use postgres::{Client, Config, NoTls};

use super::board::CELLS;
use super::node::Node;
use super::options::{Mode, Options};
use super::relay::free_port;
use super::rest::{self, Member};
use super::{process, role};

const TICK: Duration = Duration::from_millis(500);
const NAMES: [&str; 3] = ["a", "b", "c"];

pub struct Cluster {
    pub options: Options,
    pub nodes: Vec<Node>,
    etcd: i32,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.iter().for_each(Node::kill);
        process::signal(self.etcd, rustix::process::Signal::KILL);
        process::await_end(&[self.etcd], Duration::from_secs(5));
    }
}

impl Cluster {
    /// Starts everything, and waits until the cluster is complete.
    pub fn start(options: Options) -> Result<Self> {
        let (client_port, peer_port) = (free_port()?, free_port()?);
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let (clients, peers) = (url(client_port), url(peer_port));
        let mut args = vec![
            format!("--data-dir={}", options.dir.join("etcd").join("data").display()),
            format!("--listen-client-urls={clients}"),
            format!("--advertise-client-urls={clients}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=default={peers}"),
            "--log-level=warn".to_string(),
            "--logger=zap".to_string(),
        ];
        if options.etcd_api == 2 {
            args.push("--enable-v2=true".to_string());
        }
        let etcd = process::start(&options.etcd, &args, &options, &options.dir.join("etcd").join("log"))?;
        let nodes = NAMES.iter().map(|name| Node::new(&options, name, client_port)).collect::<Result<_>>()?;
        let cluster = Self { options, nodes, etcd };
        let until = Instant::now() + Duration::from_secs(30);
        while rest::request(client_port, "GET", "/health", None, Duration::from_secs(1)).is_err() {
            if Instant::now() > until || !process::runs(etcd) {
                bail!("etcd does not start");
            }
            thread::sleep(TICK);
        }
        for node in &cluster.nodes {
            node.start(&cluster.options)?;
        }
        cluster.await_whole(Duration::from_secs(180)).context("the cluster does not come up")?;
        Ok(cluster)
    }

    pub fn node(&self, name: &str) -> Result<&Node> {
        self.nodes.iter().find(|node| node.name == name).with_context(|| format!("there is no node {name}"))
    }

    /// Returns the members that Patroni knows, from any node except one.
    fn members(&self, except: Option<&str>) -> Vec<Member> {
        let others = self.nodes.iter().filter(|node| Some(node.name) != except);
        others.filter_map(|node| rest::members(node.rest_port).ok()).find(|m| !m.is_empty()).unwrap_or_default()
    }

    /// Returns the holder of the leader lock, as all nodes except one know it.
    pub fn leader(&self, except: Option<&str>) -> Option<&Node> {
        let leader = self.members(except).into_iter().find(|m| m.role == "leader")?;
        self.node(&leader.name).ok()
    }

    /// Connects as a superuser, without the relays.
    pub fn admin(&self, node: &Node) -> Result<Client> {
        let mut config = Config::new();
        config.host("127.0.0.1").port(node.port).user("postgres").password(&self.options.password).dbname("postgres");
        config
            .connect_timeout(Duration::from_secs(5))
            .application_name("failover admin")
            .options("-c statement_timeout=60s");
        Ok(config.connect(NoTls)?)
    }

    /// Waits until there is a leader with two standbys, one of which is synchronous if required. A node that falls
    /// behind is copied again. Returns how long it took.
    pub fn await_whole(&self, limit: Duration) -> Result<Duration> {
        let began = Instant::now();
        let mut next_check = limit / 2;
        loop {
            let missing = match self.missing_part() {
                Ok(None) => return Ok(began.elapsed()),
                Ok(Some(missing)) => missing,
                Err(error) => format!("{error:#}"),
            };
            if began.elapsed() > limit {
                self.nodes.iter().for_each(|n| eprintln!("---- the last of node {}:\n{}", n.name, n.last_words(15)));
                bail!("after {:.0} s {missing}", began.elapsed().as_secs_f64());
            }
            if began.elapsed() > next_check {
                next_check += limit / 8;
                self.copy_stragglers();
            }
            thread::sleep(TICK);
        }
    }

    fn missing_part(&self) -> Result<Option<String>> {
        let members = self.members(None);
        let Some(leader) = members.iter().find(|m| m.role == "leader") else { return Ok(Some("nobody leads".into())) };
        let follows = |m: &&Member| {
            m.role != "leader" && m.timeline == leader.timeline && matches!(&*m.state, "running" | "streaming")
        };
        if leader.state != "running" || members.iter().filter(follows).count() != 2 {
            return Ok(Some(format!("the nodes are {members:?}")));
        }
        let synchronous = self.options.mode == Mode::Synchronous;
        if synchronous && !members.iter().any(|m| m.role == "sync_standby") {
            return Ok(Some("no standby is synchronous".into()));
        }
        let row = self.admin(self.node(&leader.name)?)?.query_one(
            "SELECT count(*) FILTER (WHERE state = 'streaming'), count(*) FILTER (WHERE sync_state = 'sync') FROM pg_stat_replication
              WHERE application_name IN ('a', 'b', 'c') AND NOT pg_is_in_recovery()",
            &[],
        )?;
        let (streaming, sync): (i64, i64) = (row.get(0), row.get(1));
        if streaming != 2 || (synchronous && sync != 1) {
            return Ok(Some(format!("{streaming} standbys follow, {sync} of them synchronously")));
        }
        Ok(None)
    }

    fn copy_stragglers(&self) {
        let members = self.members(None);
        let timeline = members.iter().find(|m| m.role == "leader").and_then(|m| m.timeline);
        let healthy =
            |name: &str| members.iter().any(|m| m.name == name && m.timeline.is_some() && m.timeline == timeline);
        for node in self.nodes.iter().filter(|node| !healthy(node.name)) {
            eprintln!("     node {} stays behind: it is copied anew", node.name);
            if let Err(error) = rest::reinitialize(node.rest_port) {
                eprintln!("     {error:#}");
            }
        }
    }

    /// Creates the extension, and the cells with their roles.
    pub fn install(&self) -> Result<()> {
        let mut admin = self.admin(self.leader(None).context("nobody leads")?)?;
        admin.batch_execute("CREATE EXTENSION claims")?;
        for cell in 1..=CELLS {
            let role = role(cell);
            // Abandoned calls continue to wait for a standby, each with a connection of its own.
            let password = &self.options.password;
            admin.batch_execute(&format!("CREATE ROLE {role} LOGIN CONNECTION LIMIT 4 PASSWORD '{password}'"))?;
            crate::server::register_cell(&mut admin, cell, &role, &format!("cell {cell}"))?;
        }
        Ok(())
    }
}
