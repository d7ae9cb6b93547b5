//! One connection of one cell: random calls, each a transaction of its own.

use super::board::{Board, Target};
use super::law::Allows;
use super::notes::Notes;
use super::script::{self, Stop};
use super::{CELLS, role};
use crate::cell::Cell;
use crate::failure::Failure;
use crate::history::Window;
use anyhow::{Result, bail};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::thread;
use std::time::Duration;

/// A cell with so many leases open settles some before it begins more.
const MANY: usize = 8;

pub struct Worker<'a> {
    pub board: &'a Board,
    pub number: usize,
    pub cell: i64,
    pub rng: StdRng,
    pub notes: Notes,
    pub conn: Cell,
    /// REPEATABLE READ or SERIALIZABLE is this connection's default.
    pub strict: bool,
    pub lost: bool,
}

/// Works until the board says that it is over.
pub fn work(board: &Board, number: usize) -> Result<Notes> {
    let cell = (number % CELLS) as i64 + 1;
    let mut rng = StdRng::seed_from_u64(board.seed.wrapping_mul(1009).wrapping_add(number as u64));
    let (conn, strict) = connect(board, number, cell, &mut rng)?;
    let mut worker = Worker { board, number, cell, rng, notes: Notes::default(), conn, strict, lost: false };
    while !board.is_over() {
        if worker.lost {
            worker.reconnect()?;
        }
        worker.step();
    }
    *board.target(number) = None;
    Ok(worker.notes)
}

/// Connects under a random default isolation level and patience; the saboteur may hit this, too.
fn connect(board: &Board, number: usize, cell: i64, rng: &mut StdRng) -> Result<(Cell, bool)> {
    let level = ["read committed", "read committed", "read committed", "repeatable read", "serializable"]
        [rng.random_range(0..if board.service.is_spread() { 3 } else { 5 })];
    for _ in 0..if board.service.is_spread() { 2000 } else { 100 } {
        let node = board.service.any(rng);
        let patience = if rng.random_bool(0.25) { rng.random_range(5..50) } else { 0 };
        let setting =
            format!("SET default_transaction_isolation = '{level}'; SET claims.wait_timeout = '{patience}ms'");
        let tried = Cell::connect(&board.service.nodes()[node], &board.service.database, cell, &role(cell));
        match tried.and_then(|mut conn| conn.run(&setting).map(|()| conn)) {
            Ok(conn) => {
                *board.target(number) = Some(Target { node, pid: conn.pid, token: conn.cancel_token() });
                return Ok((conn, level != "read committed"));
            }
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
    bail!("cell {cell} cannot connect any more")
}

impl Worker<'_> {
    /// A new connection after the old one was killed, then what its loss left open.
    fn reconnect(&mut self) -> Result<()> {
        *self.board.target(self.number) = None;
        let (conn, strict) = connect(self.board, self.number, self.cell, &mut self.rng)?;
        (self.conn, self.strict, self.lost) = (conn, strict, false);
        if !self.board.is_dark() {
            self.resolve();
            self.adopt();
        }
        Ok(())
    }

    fn step(&mut self) {
        let many = self.board.book(self.cell).outstanding.len() >= MANY;
        match self.rng.random_range(0..100) {
            0..30 if !many => self.begin_something(),
            0..62 => self.settle_one(),
            62..72 => self.repeat_something(),
            72..77 => self.settle_many(),
            77..81 => self.look(),
            81..86 => self.trespass(),
            _ => script::run(self),
        }
    }

    /// Makes a call, takes its time, and counts how it ended.
    pub fn call<T>(
        &mut self,
        kind: &'static str,
        call: impl FnOnce(&mut Cell) -> Result<T, Failure>,
    ) -> (Result<T, Failure>, Window) {
        let lo = self.board.now();
        let answer = call(&mut self.conn).map_err(|failure| self.board.service.failure(failure));
        let at = Window::new(lo, self.board.now());
        // Nobody promises how long a call takes to find a node dead.
        if !self.board.was_dark(at) {
            self.notes.took(kind, at);
        }
        if let Err(failure) = &answer {
            self.notes.refused(kind, failure.code());
            self.lost |= matches!(failure, Failure::Lost(_));
        }
        (answer, at)
    }

    /// Notes a refusal that the circumstances do not allow.
    pub fn check(&mut self, what: &str, failure: &Failure, allows: Allows) {
        if let Failure::Refused(refusal) = failure
            && !allows.permits(refusal)
        {
            self.notes.problem(format!("{what}: unexpected {failure} (DETAIL {:?})", refusal.detail));
        }
    }

    /// Plain SQL for transaction control.
    pub fn sql(&mut self, sql: &str) -> Result<(), Stop> {
        let (answer, _) = self.call("transaction control", |c| c.run(sql));
        if let Err(failure) = &answer {
            self.check(sql, failure, Allows { serialization: true, ..Allows::default() });
        }
        Ok(answer?)
    }
}
