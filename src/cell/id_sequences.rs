//! Statements on the sequences that draw from ranges of ids.
//!
//! A sequence draws between its limits, and PostgreSQL enforces them. Where the next range follows the last one, only the maximum
//! grows, in the catalog: ALTER SEQUENCE would wait for every transaction that has called nextval(), and block the others.

use claims_model::ids::Ids;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;

use pg::lock::{self, Strength};
use pg::owner::{as_role, as_superuser};
use pg::query::{Answer, query, record};
use pg::settings::LockWaits;
use pg::spi::Connection;
use pg::subtransaction::subtransaction;

record! {
    /// A relation. Its parameters are NULL if it is not a sequence.
    struct SequenceRow {
        name: String,
        owner: Oid,
        persistence: String,
        first: Option<i64>,
        last: Option<i64>,
        increment: Option<i64>,
        cycles: Option<bool>,
        least_of_type: i64,
        greatest_of_type: i64,
    }

    /// A declared sequence.
    struct DeclaredRow {
        oid: Oid,
        id_space: String,
        low_water: i64,
        first: Option<i64>,
        last: Option<i64>,
        next_first: Option<i64>,
        next_last: Option<i64>,
        is_unconfirmed: bool,
    }

    struct RangeRow {
        first: i64,
        last: i64,
    }

    /// The last value of a sequence, and whether it was drawn.
    #[derive(Default)]
    struct Position {
        last_value: i64,
        is_called: bool,
    }
}

query! {
    fn relation(oid: Oid) -> Option<SequenceRow> = [Latest]
        "SELECT c.oid::regclass::text AS name, c.relowner AS owner, c.relpersistence::text AS persistence,
                q.seqmin AS first, q.seqmax AS last, q.seqincrement AS increment, q.seqcycle AS cycles,
                CASE q.seqtypid WHEN 'int2'::regtype THEN -32768 WHEN 'int4'::regtype THEN -2147483648 ELSE -9223372036854775808 END AS least_of_type,
                CASE q.seqtypid WHEN 'int2'::regtype THEN 32767 WHEN 'int4'::regtype THEN 2147483647 ELSE 9223372036854775807 END AS greatest_of_type
           FROM pg_class c LEFT JOIN pg_sequence q ON q.seqrelid = c.oid WHERE c.oid = :oid";
    /// Declares a sequence, which has no ranges yet.
    pub fn declare(sequence: Oid, id_space: &str, low_water: i64) = [Statement]
        "INSERT INTO claims.id_sequences (sequence_name, id_space, low_water) VALUES (:sequence::regclass, :id_space, :low_water)";
    /// Changes the low-water mark of a sequence. Returns false if the sequence does not use this space.
    pub fn set_low_water(sequence: Oid, id_space: &str, low_water: i64) -> bool = [Statement]
        "UPDATE claims.id_sequences i SET low_water = :low_water WHERE i.sequence_name = :sequence::regclass AND i.id_space = :id_space";
    /// Forgets a sequence. Returns whether it was declared.
    pub fn forget(sequence: Oid) -> bool = [Statement] "DELETE FROM claims.id_sequences i WHERE i.sequence_name = :sequence::regclass";
    pub fn forget_dropped() = [LatestToWrite]
        "DELETE FROM claims.id_sequences i WHERE NOT EXISTS (SELECT FROM pg_sequence q WHERE q.seqrelid = i.sequence_name)";
    /// Returns the sequences of a cell, and those of no cell yet. The service should be asked about those that it was last asked about more
    /// than `confirmed_for` seconds ago.
    fn declared_of(cell_id: i64, confirmed_for: i64) -> Vec<DeclaredRow> = [Latest]
        "SELECT i.sequence_name::oid AS oid, i.id_space, i.low_water, lower(i.id_range) AS first, upper(i.id_range) - 1 AS last,
                lower(i.next_range) AS next_first, upper(i.next_range) - 1 AS next_last,
                coalesce(i.confirmed_at < clock_timestamp() - make_interval(secs => :confirmed_for), true) AS is_unconfirmed
           FROM claims.id_sequences i WHERE i.cell_id = :cell_id OR i.cell_id IS NULL ORDER BY i.sequence_name::oid";
    /// Returns the ranges of this database in a space, of all cells and sequences.
    fn all_ranges(id_space: &str) -> Vec<RangeRow> = [Latest]
        "SELECT lower(r.id_range) AS first, upper(r.id_range) - 1 AS last
           FROM claims.id_sequences i CROSS JOIN LATERAL (VALUES (i.id_range), (i.next_range)) AS r (id_range)
          WHERE i.id_space = :id_space AND r.id_range IS NOT NULL";
    fn lock_declared(sequence: Oid) -> Option<DeclaredRow> = [LatestToWrite]
        "SELECT i.sequence_name::oid AS oid, i.id_space, i.low_water, lower(i.id_range) AS first, upper(i.id_range) - 1 AS last,
                lower(i.next_range) AS next_first, upper(i.next_range) - 1 AS next_last, false AS is_unconfirmed
           FROM claims.id_sequences i WHERE i.sequence_name = :sequence::regclass FOR UPDATE SKIP LOCKED";
    fn set_ranges(sequence: Oid, cell_id: i64, first: Option<i64>, last: Option<i64>, next_first: Option<i64>, next_last: Option<i64>)
        = [LatestToWrite]
        "UPDATE claims.id_sequences i
            SET cell_id = :cell_id, id_range = CASE WHEN :first IS NOT NULL THEN int8range(:first, :last, '[]') END,
                next_range = CASE WHEN :next_first IS NOT NULL THEN int8range(:next_first, :next_last, '[]') END
          WHERE i.sequence_name = :sequence::regclass";
    /// Notes that the service has confirmed the ranges of a sequence.
    pub fn confirmed(sequence: Oid) = [LatestToWrite]
        "UPDATE claims.id_sequences i SET confirmed_at = clock_timestamp() WHERE i.sequence_name = :sequence::regclass";
    fn set_drawn(sequence: Oid, last: i64) = [Statement] "SELECT pg_catalog.setval(:sequence::pg_catalog.regclass, :last, true)";
    fn set_maximum(sequence: Oid, before: i64, maximum: i64) -> bool = [LatestToWrite]
        "UPDATE pg_sequence q SET seqmax = :maximum WHERE q.seqrelid = :sequence AND q.seqmax = :before";
}

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
    pub limits: Option<SequenceLimits>,
}

/// The parameters of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceLimits {
    pub range: Ids,
    pub increment: i64,
    pub cycles: bool,
    /// The ids that its type can have.
    pub of_type: Ids,
}

impl SequenceLimits {
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
    let found = relation(connection, oid)?;
    let range = found.first.zip(found.last);
    let limits = range.zip(found.increment).zip(found.cycles);
    Some(Sequence {
        oid,
        name: found.name,
        owner: found.owner,
        is_permanent: found.persistence == "p",
        limits: limits.map(|((range, increment), cycles)| SequenceLimits {
            range,
            increment,
            cycles,
            of_type: (found.least_of_type, found.greatest_of_type),
        }),
    })
}

impl Sequence {
    fn position(&self, connection: &Connection) -> Position {
        let text = format!("SELECT s.last_value, s.is_called FROM {} s", self.name);
        as_superuser(|| Option::of(&connection.run_text_now(&text, []))).unwrap_or_default()
    }

    /// Returns how many ids are left below the maximum.
    pub fn remaining(&self, connection: &Connection) -> i64 {
        let Some(limits) = self.limits else { return 0 };
        let position = self.position(connection);
        let left = i128::from(limits.range.1) - i128::from(position.last_value);
        let steps = left.div_euclid(i128::from(limits.increment.max(1))) + i128::from(!position.is_called);
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
                as_superuser(|| set_drawn(connection, self.oid, at));
            }
            Ok::<_, ()>(())
        });
        altered.is_ok()
    }

    /// Raises the maximum, without a lock that nextval() would wait for. Returns false if somebody has altered the sequence.
    pub fn raise_maximum(&self, connection: &Connection, from: i64, to: i64) -> bool {
        lock::table(self.oid, Strength::AgainstAlter);
        as_superuser(|| set_maximum(connection, self.oid, from, to))
    }
}

/// Returns the sequences of a cell. Those that the service was asked about within so many seconds need not be confirmed.
pub fn of_cell(connection: &Connection, cell_id: i64, confirmed_for: i64) -> Vec<IdSequence> {
    declared_of(connection, cell_id, confirmed_for).into_iter().map(IdSequence::from).collect()
}

/// Returns the ranges of this database in a space.
pub fn ranges(connection: &Connection, id_space: &str) -> Vec<Ids> {
    all_ranges(connection, id_space).into_iter().map(|range| (range.first, range.last)).collect()
}

/// Locks the row of a sequence and returns it, unless another session has locked it or it is gone.
pub fn lock(connection: &Connection, sequence: Oid) -> Option<IdSequence> {
    lock_declared(connection, sequence).map(IdSequence::from)
}

impl From<DeclaredRow> for IdSequence {
    fn from(row: DeclaredRow) -> Self {
        IdSequence {
            oid: row.oid,
            id_space: row.id_space,
            low_water: row.low_water,
            current: row.first.zip(row.last),
            next: row.next_first.zip(row.next_last),
            is_unconfirmed: row.is_unconfirmed,
        }
    }
}

/// Stores the ranges of a sequence.
pub fn record(connection: &Connection, sequence: &IdSequence, cell_id: i64) {
    let (first, last) = sequence.current.unzip();
    let (next_first, next_last) = sequence.next.unzip();
    set_ranges(connection, sequence.oid, cell_id, first, last, next_first, next_last);
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
