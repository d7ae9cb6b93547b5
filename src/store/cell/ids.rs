//! Statements on the sequences that draw from ranges of ids.
//!
//! A sequence draws between its limits, and PostgreSQL enforces them. Where the next range follows the last one, only the maximum
//! grows, in the catalog: ALTER SEQUENCE would wait for every transaction that has called nextval(), and block the others.

use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;

use pg::lock::{self, Strength};
use pg::owner::{as_role, as_superuser};
use pg::settings::LockWaits;
use pg::spi::{Connection, View};
use pg::statement::statement;
use pg::subtransaction::subtransaction;

statement! {
    /// Returns relation $1, which need not be a sequence.
    SEQUENCE(OIDOID) =
        "SELECT c.oid::regclass::text, c.relowner, c.relpersistence::text, q.seqrelid IS NOT NULL, q.seqmin, q.seqmax, q.seqincrement,
                q.seqcycle, CASE q.seqtypid WHEN 'int2'::regtype THEN 32767 WHEN 'int4'::regtype THEN 2147483647 ELSE 9223372036854775807 END,
                CASE q.seqtypid WHEN 'int2'::regtype THEN -32768 WHEN 'int4'::regtype THEN -2147483648 ELSE -9223372036854775808 END
           FROM pg_class c LEFT JOIN pg_sequence q ON q.seqrelid = c.oid WHERE c.oid = $1";
    DECLARE(OIDOID, TEXTOID, INT8OID) =
        "INSERT INTO claims.id_sequences (sequence_name, id_space, low_water) VALUES ($1::regclass, $2, $3)";
    LOWER(OIDOID, TEXTOID, INT8OID) =
        "UPDATE claims.id_sequences i SET low_water = $3 WHERE i.sequence_name = $1::regclass AND i.id_space = $2";
    FORGET(OIDOID) = "DELETE FROM claims.id_sequences i WHERE i.sequence_name = $1::regclass";
    FORGET_DROPPED() =
        "DELETE FROM claims.id_sequences i WHERE NOT EXISTS (SELECT FROM pg_sequence q WHERE q.seqrelid = i.sequence_name)";
    /// Returns the sequences of cell $1, and those of no cell yet. The last column says whether the service should be asked: it was
    /// last asked more than $2 seconds ago.
    OF_CELL(INT8OID, INT8OID) =
        "SELECT i.sequence_name::oid, i.id_space, i.low_water, lower(i.id_range), upper(i.id_range) - 1, lower(i.next_range),
                upper(i.next_range) - 1, coalesce(i.confirmed_at < clock_timestamp() - make_interval(secs => $2), true)
           FROM claims.id_sequences i WHERE i.cell_id = $1 OR i.cell_id IS NULL ORDER BY i.sequence_name::oid";
    /// Returns the ranges of this database in space $1, of all cells and sequences.
    RANGES(TEXTOID) =
        "SELECT lower(r.id_range), upper(r.id_range) - 1
           FROM claims.id_sequences i CROSS JOIN LATERAL (VALUES (i.id_range), (i.next_range)) AS r (id_range)
          WHERE i.id_space = $1 AND r.id_range IS NOT NULL";
    LOCK(OIDOID) =
        "SELECT i.sequence_name::oid, i.id_space, i.low_water, lower(i.id_range), upper(i.id_range) - 1, lower(i.next_range),
                upper(i.next_range) - 1, false
           FROM claims.id_sequences i WHERE i.sequence_name = $1::regclass FOR UPDATE SKIP LOCKED";
    RECORD(OIDOID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID) =
        "UPDATE claims.id_sequences i
            SET cell_id = $2, id_range = CASE WHEN $3 IS NOT NULL THEN int8range($3, $4, '[]') END,
                next_range = CASE WHEN $5 IS NOT NULL THEN int8range($5, $6, '[]') END
          WHERE i.sequence_name = $1::regclass";
    CONFIRMED(OIDOID) = "UPDATE claims.id_sequences i SET confirmed_at = clock_timestamp() WHERE i.sequence_name = $1::regclass";
    RAISE_MAXIMUM(OIDOID, INT8OID, INT8OID) = "UPDATE pg_sequence q SET seqmax = $3 WHERE q.seqrelid = $1 AND q.seqmax = $2";
}

/// The first and the last id of a range.
pub type Ids = (i64, i64);

const SET_DRAWN: &str = "SELECT pg_catalog.setval($1::pg_catalog.regclass, $2, true)";

/// How long an ALTER SEQUENCE waits for transactions that have called nextval(), while others wait behind it.
pub const LOCK_TIMEOUT_MS: i64 = 50;

/// A relation that should be a sequence.
pub struct Sequence {
    pub oid: Oid,
    /// Its qualified name, quoted.
    pub name: String,
    pub owner: Oid,
    pub is_permanent: bool,
    /// `None` if it is another kind of relation.
    pub limits: Option<Limits>,
}

/// The parameters of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub range: Ids,
    pub increment: i64,
    pub cycles: bool,
    /// The ids that its type can have.
    pub of_type: Ids,
}

impl Limits {
    /// Returns whether a sequence with these parameters draws only ids of a range, each once.
    pub fn fit(&self, range: Ids) -> bool {
        self.range == range && self.increment > 0 && !self.cycles
    }
}

/// A declared sequence and its ranges.
#[derive(Debug, Clone)]
pub struct IdSequence {
    pub oid: Oid,
    pub id_space: String,
    pub low_water: i64,
    pub current: Option<Ids>,
    pub next: Option<Ids>,
    /// Whether the service was last asked long ago.
    pub is_unconfirmed: bool,
}

pub fn sequence(connection: &Connection, oid: Oid) -> Option<Sequence> {
    connection.run(&SEQUENCE, View::Latest, [oid.into()]).first(|row| Sequence {
        oid,
        name: row.must(1),
        owner: row.must(2),
        is_permanent: row.must::<String>(3) == "p",
        limits: row.must::<bool>(4).then(|| Limits {
            range: (row.must(5), row.must(6)),
            increment: row.must(7),
            cycles: row.must(8),
            of_type: (row.must(10), row.must(9)),
        }),
    })
}

impl Sequence {
    /// Returns the last value, and whether it was drawn.
    fn position(&self, connection: &Connection) -> (i64, bool) {
        let text = format!("SELECT s.last_value, s.is_called FROM {} s", self.name);
        let row = as_superuser(|| connection.run_text_now(&text, []).first(|row| (row.must(1), row.must(2))));
        row.unwrap_or((0, false))
    }

    /// Returns how many ids are left below the maximum.
    pub fn remaining(&self, connection: &Connection) -> i64 {
        let Some(limits) = self.limits else { return 0 };
        let (last, is_called) = self.position(connection);
        let left = i128::from(limits.range.1) - i128::from(last);
        let steps = left.div_euclid(i128::from(limits.increment.max(1))) + i128::from(!is_called);
        i64::try_from(steps.max(0)).unwrap_or(i64::MAX)
    }

    /// Has nextval() of this sequence fail with 2200H. Returns false if the sequence could not be locked in time. Without a limit it
    /// waits for the caller's `lock_timeout`.
    pub fn exhaust(&self, connection: &Connection, limit_ms: Option<i64>) -> bool {
        let Some(limits) = self.limits else { return true };
        // A sequence has at least two values. These are the least ones of its type, and both are drawn.
        let first = limits.of_type.0;
        self.alter(connection, (first, first + 1), true, limit_ms)
    }

    /// Has the sequence draw from a range, from its beginning. Returns false if the sequence could not be locked in time.
    pub fn continue_with(&self, connection: &Connection, range: Ids) -> bool {
        self.alter(connection, range, false, Some(LOCK_TIMEOUT_MS))
    }

    fn alter(&self, connection: &Connection, (first, last): Ids, drawn: bool, limit_ms: Option<i64>) -> bool {
        let name = &self.name;
        let at = if drawn { last } else { first };
        let alter = format!("ALTER SEQUENCE {name} MINVALUE {first} MAXVALUE {last} START {at} RESTART {at} NO CYCLE");
        let _waits = limit_ms.map(LockWaits::limit);
        let altered = subtransaction(&[PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE], || {
            as_role(self.owner, || connection.run_text(&alter, []).count());
            if drawn {
                // The sequence is locked, and its file is new: a rollback undoes this, too.
                as_superuser(|| connection.run_text(SET_DRAWN, [self.oid.into(), at.into()]).count());
            }
            Ok::<_, ()>(())
        });
        altered.is_ok()
    }

    /// Raises the maximum, without a lock that nextval() would wait for. Returns false if somebody has altered the sequence.
    pub fn raise_maximum(&self, connection: &Connection, from: i64, to: i64) -> bool {
        lock::table(self.oid, Strength::AgainstAlter);
        let values = [self.oid.into(), from.into(), to.into()];
        as_superuser(|| connection.run(&RAISE_MAXIMUM, View::LatestToWrite, values).count() == 1)
    }
}

/// Declares a sequence, which has no ranges yet.
pub fn declare(connection: &Connection, sequence: Oid, id_space: &str, low_water: i64) {
    connection.run(&DECLARE, View::Statement, [sequence.into(), id_space.into(), low_water.into()]);
}

/// Changes the low-water mark of a sequence. Returns false if the sequence does not use this space.
pub fn set_low_water(connection: &Connection, sequence: Oid, id_space: &str, low_water: i64) -> bool {
    connection.run(&LOWER, View::Statement, [sequence.into(), id_space.into(), low_water.into()]).count() == 1
}

/// Forgets a sequence. Returns whether it was declared.
pub fn forget(connection: &Connection, sequence: Oid) -> bool {
    connection.run(&FORGET, View::Statement, [sequence.into()]).count() == 1
}

pub fn forget_dropped(connection: &Connection) {
    connection.run(&FORGET_DROPPED, View::LatestToWrite, []);
}

/// Returns the sequences of a cell. Those that the service was asked about within so many seconds need not be confirmed.
pub fn of_cell(connection: &Connection, cell_id: i64, confirmed_for: i64) -> Vec<IdSequence> {
    connection.run(&OF_CELL, View::Latest, [cell_id.into(), confirmed_for.into()]).map(|row| of_row(&row))
}

/// Returns the ranges of this database in a space.
pub fn ranges(connection: &Connection, id_space: &str) -> Vec<Ids> {
    connection.run(&RANGES, View::Latest, [id_space.into()]).map(|row| (row.must(1), row.must(2)))
}

/// Locks the row of a sequence and returns it, unless another session has locked it or it is gone.
pub fn lock(connection: &Connection, sequence: Oid) -> Option<IdSequence> {
    connection.run(&LOCK, View::LatestToWrite, [sequence.into()]).first(|row| of_row(&row))
}

fn of_row(row: &pg::spi::Row) -> IdSequence {
    IdSequence {
        oid: row.must(1),
        id_space: row.must(2),
        low_water: row.must(3),
        current: row.get(4).zip(row.get(5)),
        next: row.get(6).zip(row.get(7)),
        is_unconfirmed: row.must(8),
    }
}

/// Stores the ranges of a sequence.
pub fn record(connection: &Connection, sequence: &IdSequence, cell_id: i64) {
    let (first, last) = sequence.current.unzip();
    let (next_first, next_last) = sequence.next.unzip();
    let values = [sequence.oid.into(), cell_id.into(), first.into(), last.into(), next_first.into(), next_last.into()];
    connection.run(&RECORD, View::LatestToWrite, values);
}

/// Notes that the service has confirmed the ranges of a sequence.
pub fn confirmed(connection: &Connection, sequence: Oid) {
    connection.run(&CONFIRMED, View::LatestToWrite, [sequence.into()]);
}

/// Takes the ranges of a cell's sequences away. Returns the name of a sequence that could not be locked in time, for which this did
/// nothing.
pub fn discard(connection: &Connection, cell_id: i64) -> Option<String> {
    for declared in of_cell(connection, cell_id, 0) {
        let Some(sequence) = sequence(connection, declared.oid) else { continue };
        if declared.current.is_some() && !sequence.exhaust(connection, Some(LOCK_TIMEOUT_MS)) {
            return Some(sequence.name);
        }
        record(connection, &IdSequence { current: None, next: None, ..declared }, cell_id);
    }
    None
}
