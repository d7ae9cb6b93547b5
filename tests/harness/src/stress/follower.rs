//! A reader of the change feed, who follows it during the run. Sometimes he forgets a page, like a reader who dies
//! before he has stored his cursor, and reads it again.

use super::ROUTER;
use super::board::Board;
use super::service::Service;
use crate::history::FeedChange;
use anyhow::{Result, bail};
use postgres::{Client, Row};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::thread;
use std::time::{Duration, Instant};

/// How long transactions may hold back the end of the feed, on a busy machine.
const WAIT_LIMIT: Duration = Duration::from_secs(120);

#[derive(Default)]
pub struct Follower {
    after: Option<String>,
    pub changes: Vec<FeedChange>,
    pub pages: usize,
    pub forgotten: usize,
}

impl Follower {
    /// Reads until the run ends.
    pub fn follow(board: &Board) -> Result<Self> {
        let mut rng = StdRng::seed_from_u64(board.seed ^ 0xfeed);
        let mut client = connect(&board.service)?;
        let mut follower = Follower::default();
        while !board.is_over() {
            let limit = [1, 7, 50, 1000][rng.random_range(0..4)];
            let page = follower.page(&mut client, limit)?;
            if rng.random_bool(0.1) {
                follower.forgotten += 1;
                client = connect(&board.service)?;
            } else {
                follower.keep(page);
            }
            thread::sleep(Duration::from_millis(rng.random_range(0..20)));
        }
        Ok(follower)
    }

    /// Reads the rest, until every committed change was read.
    pub fn finish(&mut self, service: &Service) -> Result<()> {
        let mut client = connect(service)?;
        let mut admin = service.admin()?;
        let begun = Instant::now();
        loop {
            let page = self.page(&mut client, 1000)?;
            if !page.is_empty() {
                self.keep(page);
                continue;
            }
            let late =
                "SELECT EXISTS (SELECT FROM claims.change_sets WHERE xid >= pg_snapshot_xmin(pg_current_snapshot()))";
            if !admin.query_one(late, &[])?.get::<_, bool>(0) && self.page(&mut client, 1)?.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > WAIT_LIMIT {
                bail!("a transaction keeps the end of the change feed from its readers");
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn page(&self, client: &mut Client, limit: i32) -> Result<Vec<(FeedChange, String)>> {
        let list =
            "SELECT xid::text, id, op, bucket_value, old_cell_id, new_cell_id, cursor FROM claims.list_changes($1, $2)";
        let rows = client.query(list, &[&self.after, &limit])?;
        rows.iter().map(|row| Ok((change(row)?, row.get(6)))).collect()
    }

    fn keep(&mut self, page: Vec<(FeedChange, String)>) {
        self.pages += 1;
        for (change, cursor) in page {
            self.changes.push(change);
            self.after = Some(cursor);
        }
    }
}

fn connect(service: &Service) -> Result<Client> {
    Ok(service.nodes()[0].connect(&service.database, ROUTER)?)
}

/// Returns the whole feed, as it is stored.
pub fn stored(service: &Service) -> Result<Vec<FeedChange>> {
    let all = "SELECT xid::text, id, op, bucket_value, old_cell_id, new_cell_id FROM claims.changes";
    service.admin()?.query(all, &[])?.iter().map(change).collect()
}

fn change(row: &Row) -> Result<FeedChange> {
    Ok(FeedChange {
        xid: row.get::<_, String>(0).parse()?,
        id: row.get(1),
        op: row.get(2),
        bucket: row.get(3),
        old: row.get(4),
        new: row.get(5),
    })
}
