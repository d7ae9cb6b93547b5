//! One connection of one cell: random calls, each in a transaction of its own.

use super::board::{Board, Target};
use super::law::Allows;
use super::notes::Notes;
use super::script::{self, Stop};
use super::{CELLS, MAX_PRIORITY, role};
use crate::cell::Cell;
use crate::failure::{Failure, Refusal};
use crate::history::Window;
use anyhow::{Result, bail};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::thread;
use std::time::Duration;

/// The number of outstanding leases from which a cell settles some before it begins more.
const MANY: usize = 8;

pub struct Worker<'a> {
    pub board: &'a Board,
    pub number: usize,
    pub cell: i64,
    pub rng: StdRng,
    pub notes: Notes,
    pub conn: Cell,
    /// Whether REPEATABLE READ or SERIALIZABLE is the default of this connection.
    pub strict: bool,
    /// The priority of this connection, if it waits for names.
    pub priority: Option<i32>,
    pub lost: bool,
    /// Within a transaction of several steps: whether a call of it was canceled.
    pub canceled: Option<bool>,
}

/// Works until the run ends.
pub fn work(board: &Board, number: usize) -> Result<Notes> {
    let cell = (number % CELLS) as i64 + 1;
    let mut rng = StdRng::seed_from_u64(board.seed.wrapping_mul(1009).wrapping_add(number as u64));
    let Connected { conn, strict, priority } = connect(board, number, cell, &mut rng)?;
    let notes = Notes::default();
    let mut worker = Worker { board, number, cell, rng, notes, conn, strict, priority, lost: false, canceled: None };
    while !board.is_over() {
        if worker.lost {
            worker.reconnect()?;
        }
        worker.step();
    }
    *board.target(number) = None;
    Ok(worker.notes)
}

/// A new connection, and its settings that the worker has to know.
struct Connected {
    conn: Cell,
    strict: bool,
    priority: Option<i32>,
}

/// Connects with a random default isolation level, `wait_timeout`, `lease_wait` and priority. The saboteur may hit this,
/// too.
fn connect(board: &Board, number: usize, cell: i64, rng: &mut StdRng) -> Result<Connected> {
    let level = ["read committed", "read committed", "read committed", "repeatable read", "serializable"]
        [rng.random_range(0..if board.service.is_distributed() { 3 } else { 5 })];
    for _ in 0..if board.service.is_distributed() { 2000 } else { 100 } {
        let node = board.service.any(rng);
        let wait_timeout_ms = if rng.random_bool(0.25) { rng.random_range(5..50) } else { 0 };
        let waits = rng.random_bool(0.6);
        let lease_wait_ms = if waits { rng.random_range(20..400) } else { 0 };
        let priority = if board.service.is_distributed() { 0 } else { rng.random_range(-1..=MAX_PRIORITY) };
        let setting = format!(
            "SET default_transaction_isolation = '{level}'; SET claims.wait_timeout = '{wait_timeout_ms}ms'; \
             SET claims.lease_wait = '{lease_wait_ms}ms'; SET claims.lease_priority = {priority}"
        );
        let tried = Cell::connect(&board.service.nodes()[node], &board.service.database, cell, &role(cell));
        match tried.and_then(|mut conn| conn.run(&setting).map(|()| conn)) {
            Ok(conn) => {
                *board.target(number) = Some(Target { node, pid: conn.pid, token: conn.cancel_token() });
                let priority = waits.then_some(priority);
                return Ok(Connected { conn, strict: level != "read committed", priority });
            }
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
    bail!("cell {cell} cannot connect any more")
}

impl Worker<'_> {
    /// Connects again after the connection was killed, and resolves the interrupted calls.
    fn reconnect(&mut self) -> Result<()> {
        *self.board.target(self.number) = None;
        let Connected { conn, strict, priority } = connect(self.board, self.number, self.cell, &mut self.rng)?;
        (self.conn, self.strict, self.priority, self.lost) = (conn, strict, priority, false);
        if !self.board.is_dark() {
            self.resolve();
            self.adopt();
        }
        Ok(())
    }

    fn step(&mut self) {
        let many = self.board.book(self.cell).outstanding.len() >= MANY;
        match self.rng.random_range(0..100) {
            0..30 => self.take_hot(),
            30..45 if !many => self.begin_something(),
            30..62 => self.settle_one(),
            62..72 => self.repeat_something(),
            72..77 => self.settle_many(),
            77..81 => self.read_something(),
            81..86 => self.trespass(),
            _ => script::run(self),
        }
    }

    /// Makes a call, measures its time, and counts its result.
    pub fn call<T>(
        &mut self,
        kind: &'static str,
        call: impl FnOnce(&mut Cell) -> Result<T, Failure>,
    ) -> (Result<T, Failure>, Window) {
        let lo = self.board.now();
        let answer = call(&mut self.conn).map_err(|failure| self.board.service.failure(failure));
        let at = Window::new(lo, self.board.now());
        // The time in which a call notices a dead node is not limited.
        if !self.board.was_dark(at) {
            self.notes.took(kind, at);
        }
        if let Err(failure) = &answer {
            self.notes.refused(kind, failure.code());
            self.lost |= matches!(failure, Failure::Lost(_));
            self.canceled = self.canceled.map(|before| before || failure.code() == "57014");
        }
        (answer, at)
    }

    /// Records a refusal that the circumstances do not allow.
    pub fn check(&mut self, what: &str, failure: &Failure, allows: Allows) {
        if let Failure::Refused(refusal) = failure
            && !allows.permits(refusal)
            && !self.has_lost_a_part(refusal)
        {
            self.notes.problem(format!("{what}: unexpected {failure} (DETAIL {:?})", refusal.detail));
        }
    }

    /// Returns whether Citus has lost a node's part of the transaction. If a call is canceled within a savepoint, Citus does not send
    /// ROLLBACK TO SAVEPOINT to a node for which it remembers a younger savepoint, even if that has ended. All later calls of the
    /// transaction that need the node are refused, the first one sometimes by Citus itself.
    fn has_lost_a_part(&self, refusal: &Refusal) -> bool {
        let is_refused = match refusal.code.as_str() {
            "25P02" => true,
            "XX000" => refusal.message.contains("unable to recover from inconsistent state"),
            _ => false,
        };
        is_refused && self.canceled == Some(true) && self.board.service.is_distributed()
    }

    /// Runs transaction control.
    pub fn sql(&mut self, sql: &str) -> Result<(), Stop> {
        let (answer, _) = self.call("transaction control", |c| c.run(sql));
        if let Err(failure) = &answer {
            self.check(sql, failure, Allows { serialization: true, ..Allows::default() });
        }
        Ok(answer?)
    }
}
