//! `import_unique`: claims the values that tables had before `add_unique(..., import => false)`, beside sessions that write them.
//!
//! It is a procedure in SQL: only a procedure can commit. It calls `begin_unique_import`, and `import_unique_step` for each portion, in transactions of
//! their own. A portion is a few blocks of one table. Its rows are locked until their values are claimed: a row that goes meanwhile would give up a
//! value that is not claimed yet, and leave the claim behind. It waits for no other transaction while it holds these locks, neither for rows nor for
//! values, so no session gets into a deadlock with it. Rows that a portion misses are found by comparing the whole table with its claims in one
//! snapshot, after which the table counts as claimed. So a crash, or a row that moves to a block that was read before, costs another round and no
//! value.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use pgrx::PgSqlErrorCode as Code;

use super::compare;
use super::declare::constraint_name;
use super::duplicates;
use super::errors::UniqueError;
use super::existing;
use super::table_values::{Canonical, UniqueTable};
use crate::cell::capture::declare::must_own;
use crate::cell::capture::errors::CaptureError;
use crate::cell::claimed::declared;
use crate::cell::claimed::unique_tables::{self, Generation, UniqueRow};
use crate::cell::import::errors::{ImportError, ImportProgress, notice_of_import, rows_a_second};
use crate::cell::import::statements::{self, BatchCounts, ImportKey, ImportState};
use crate::kernel::access;
use crate::kernel::admin_action::AdminAction;
use crate::kernel::call::answer;
use crate::kernel::error::ClaimsError;
use crate::service::claims::CONTENTION_SQLSTATES;
use crate::triggers::{self, Purpose};
use pg::lock::{self, Strength};
use pg::prelude::*;
use pg::settings::LockWaits;
use pg::spi::{self, Connection};
use pg::stored::BoundedText;
use pg::subtransaction::subtransaction;
use pg::xact;

/// Number of blocks of a table that a portion reads.
const BLOCKS: i64 = 16;
/// Milliseconds to wait for a lock while rows are locked: long enough for a table that is being extended.
const LOCK_TIMEOUT_MS: i64 = 5;
/// Interval between notices.
const NOTICE_INTERVAL: Duration = Duration::from_secs(10);
/// Pause before a portion is read again whose rows or values other transactions hold.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// Time for which a table's last portions are tried again without success. Then the import fails.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of times that all tables are read without finding a value twice. Rows that move are missed in the first ones.
const ROUNDS: usize = 5;

/// The service of an import that claims in this database.
const HERE: &str = "";

/// An import that this session has begun.
struct UniqueImport {
    key: ImportKey,
    unique: UniqueRow,
    began: Instant,
    noticed: Instant,
    /// Number of rows read by this call.
    rows: i64,
    /// The first blocks of portions of the current table whose rows or values other transactions held.
    open: VecDeque<i64>,
    /// When the current table was read to its end, or a portion was tried again with success after that.
    read_at: Option<Instant>,
    /// Number of times that all tables were read.
    rounds: usize,
}

thread_local! {
    static CALL: RefCell<Option<UniqueImport>> = const { RefCell::new(None) };
}

/// Where an import continues: a table, and its first block that is not read.
#[derive(Clone, Copy, Default)]
struct ImportPosition {
    generation: i64,
    block: i64,
}

impl ImportPosition {
    fn of(stored: Option<&str>) -> Self {
        let numbers = stored.and_then(|stored| stored.split_once(' '));
        let parsed = numbers.and_then(|(generation, block)| Some((generation.parse().ok()?, block.parse().ok()?)));
        parsed.map_or_else(ImportPosition::default, |(generation, block)| ImportPosition { generation, block })
    }

    fn to_text(self) -> String {
        format!("{} {}", self.generation, self.block)
    }
}

/// The result of one portion.
#[derive(Default)]
struct ImportedPortion {
    rows: i64,
    /// Number of values that stand elsewhere.
    refused: i64,
    /// Whether other transactions hold some of the rows or values.
    is_open: bool,
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn begin_unique_import(name: Option<String>) -> Result<(), ErrorReport> {
    xact::must_be_writable(c"claims.import_unique()");
    CALL.set(None);
    answer(|| {
        let action = AdminAction::without_reason("import_unique")?;
        let name = constraint_name(name)?;
        if xact::uses_transaction_snapshot() {
            return Err(ImportError::OldSnapshot.into());
        }
        let call = action.with("name", name.as_str()).perform(|call| begin(call.connection, name))?;
        CALL.set(Some(call));
        Ok(())
    })
}

fn begin(connection: &Connection, name: String) -> Result<UniqueImport, ClaimsError> {
    let unique = unique_tables::named(connection, &name).ok_or_else(|| UniqueError::Unknown { name: name.clone() })?;
    let members = unique_tables::members(connection, unique.type_id);
    for table in &members {
        let found = declared::table(connection, *table).ok_or(CaptureError::NoTable { table: *table })?;
        must_own(&found.name, found.owner)?;
    }
    if let Some(pid) = statements::running(connection, unique.cell_id, &name) {
        return Err(UniqueError::Importing { name, pid }.into());
    }
    // Partitions that came or went while the event triggers were disabled.
    for table in &members {
        triggers::complete_tables(connection, *table, *table, &Purpose::Unique);
        existing::leave_to_import(connection, unique.type_id, *table);
    }
    unique_tables::end_generations_of_others(connection, unique.type_id);
    let key = ImportKey { cell_id: unique.cell_id, source_type: name, service: HERE.to_owned() };
    key.begin(connection, unique_tables::estimated_rows(connection, unique.type_id).unwrap_or_default());
    let began = Instant::now();
    Ok(UniqueImport { key, unique, began, noticed: began, rows: 0, open: VecDeque::new(), read_at: None, rounds: 0 })
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn import_unique_step(
    name: Option<String>,
) -> Result<TableIterator<'static, (name!(is_over, bool), name!(pause, f64))>, ErrorReport> {
    xact::must_be_writable(c"claims.import_unique()");
    // An error ends the call.
    let call = CALL.take();
    let (mut call, state, step) = spi::connect(|connection| {
        access::administer()?;
        let name = constraint_name(name)?;
        let not_begun = || UniqueError::NotBegun { name: name.clone() };
        let mut call = call.filter(|call| call.key.source_type == name).ok_or_else(not_begun)?;
        if xact::uses_transaction_snapshot() {
            return Err(ImportError::OldSnapshot.into());
        }
        let (state, step) = call.step(connection)?;
        Ok::<_, ClaimsError>((call, state, step))
    })?;
    if step.is_over || call.noticed.elapsed() >= NOTICE_INTERVAL {
        call.noticed = Instant::now();
        let rate = rows_a_second(call.rows, call.began);
        notice_of_import(&ImportProgress::of(&call.key, &state, rate, step.is_over));
    }
    if !step.is_over {
        CALL.set(Some(call));
    }
    Ok(TableIterator::once((step.is_over, step.pause.as_secs_f64())))
}

/// The result of one step.
#[derive(Default)]
struct ImportStep {
    is_over: bool,
    /// How long to wait before the next one.
    pause: Duration,
    portion: ImportedPortion,
}

impl UniqueImport {
    fn step(&mut self, connection: &Connection) -> Result<(ImportState, ImportStep), ClaimsError> {
        let unknown = || UniqueError::Unknown { name: self.key.source_type.clone() };
        // Its row goes with the unique.
        let mut state = self.key.lock(connection).ok_or_else(unknown)?;
        let position = ImportPosition::of(state.source_id.as_deref());
        let is_at_start = position.generation == 0;
        if is_at_start && self.rounds > 0 {
            self.must_have_no_duplicates(connection)?;
        }
        let next = unique_tables::next_incomplete(connection, self.unique.type_id, position.generation);
        let (position, step) = match next {
            Some(leaf) => self.step_in(connection, &leaf, position)?,
            None => (ImportPosition::default(), self.end_round(connection)),
        };
        let is_new_round = position.generation == 0 && !step.is_over;
        self.rows += step.portion.rows;
        let mut counts = BatchCounts {
            rows: step.portion.rows,
            collisions: step.portion.refused,
            rate: rows_a_second(self.rows, self.began).round() as i64,
            is_finished: step.is_over,
            ..BatchCounts::default()
        };
        if is_new_round {
            (counts.rows, counts.collisions) = (-state.rows_done, -state.collisions);
        }
        state.source_id = Some(position.to_text());
        self.key.advance(connection, &state, &counts);
        state.rows_done += counts.rows;
        state.collisions += counts.collisions;
        Ok((state, step))
    }

    /// Ends a round. Tables that are not complete then are read once more.
    fn end_round(&mut self, connection: &Connection) -> ImportStep {
        self.rounds += 1;
        let is_over = unique_tables::next_incomplete(connection, self.unique.type_id, 0).is_none();
        ImportStep { is_over, ..ImportStep::default() }
    }

    /// Imports a portion of a table, or compares the table if all of it is read. Returns the position after that.
    fn step_in(
        &mut self,
        connection: &Connection,
        leaf: &Generation,
        position: ImportPosition,
    ) -> Result<(ImportPosition, ImportStep), ClaimsError> {
        let Generation { table_name, generation } = *leaf;
        let next = ImportPosition { generation: generation + 1, block: 0 };
        let block = if position.generation == generation { position.block } else { 0 };
        // From here on the table is neither truncated, detached nor rewritten.
        lock::table(table_name, Strength::AsReader);
        let is_still = unique_tables::next_incomplete(connection, self.unique.type_id, generation);
        let is_still = is_still.is_some_and(|still| still.generation == generation);
        let table = UniqueTable::of(connection, (self.unique.type_id, generation), table_name)?;
        let Some(table) = table.filter(|_| is_still) else {
            self.leave_table();
            return Ok((next, ImportStep::default()));
        };
        if block < unique_tables::blocks(connection, table_name) {
            let portion = import_blocks(connection, &table, block)?;
            self.open.extend(portion.is_open.then_some(block));
            let position = ImportPosition { generation, block: block + BLOCKS };
            return Ok((position, ImportStep { portion, ..ImportStep::default() }));
        }
        if let Some(open) = self.open.pop_front() {
            let portion = import_blocks(connection, &table, open)?;
            let pause = self.after_retry(open, &portion, &table)?;
            return Ok((ImportPosition { generation, block }, ImportStep { pause, portion, is_over: false }));
        }
        if compare::is_claimed(connection, self.unique.cell_id, &table) {
            unique_tables::complete(connection, generation);
        }
        self.leave_table();
        Ok((next, ImportStep::default()))
    }

    fn leave_table(&mut self) {
        self.open.clear();
        self.read_at = None;
    }

    /// Keeps a portion that other transactions still hold for later. Returns how long to wait.
    fn after_retry(
        &mut self,
        block: i64,
        portion: &ImportedPortion,
        table: &UniqueTable,
    ) -> Result<Duration, ClaimsError> {
        let read_at = *self.read_at.get_or_insert_with(Instant::now);
        if !portion.is_open {
            self.read_at = Some(Instant::now());
            return Ok(Duration::ZERO);
        }
        if read_at.elapsed() >= RETRY_TIMEOUT {
            let (name, table) = (self.key.source_type.clone(), table.column.root_name.clone());
            return Err(UniqueError::RowsLocked { name, table }.into());
        }
        self.open.push_back(block);
        Ok(RETRY_INTERVAL)
    }

    /// Raises an error if a value stands more than once, or if the tables could not be claimed for other reasons.
    fn must_have_no_duplicates(&self, connection: &Connection) -> Result<(), ClaimsError> {
        let (type_id, name) = (self.unique.type_id, self.key.source_type.clone());
        let members = unique_tables::member_columns(connection, type_id);
        let column = members.first().map(|member| member.column_name.clone()).unwrap_or_default();
        let found = xact::with_snapshot(|| duplicates::of_members(connection, &name, &members))?;
        match found.into_iter().next() {
            Some((value, ..)) => Err(UniqueError::NotValid { name, column, value }.into()),
            None if self.rounds >= ROUNDS => Err(UniqueError::NotClaimed { name, rounds: ROUNDS }.into()),
            None => Ok(()),
        }
    }
}

/// Claims the values of some blocks of a table.
fn import_blocks(connection: &Connection, table: &UniqueTable, block: i64) -> Result<ImportedPortion, ClaimsError> {
    let (values, is_open) = locked_values(table, block);
    let mut portion = ImportedPortion { rows: values.len() as i64, refused: 0, is_open };
    // Of equal values one is claimed.
    let values = values.into_iter().map(|value| table.canonical(value)).collect::<Result<BTreeMap<_, _>, _>>()?;
    let texts: Vec<&str> = values.keys().map(String::as_str).collect();
    let claimed = unique_tables::claimed_for(connection, table.column.type_id, table.generation, &texts);
    let claimed: HashSet<String> = claimed.into_iter().collect();
    let missing: Vec<Canonical> = values.into_iter().filter(|(value, _)| !claimed.contains(value)).collect();
    if !missing.is_empty() {
        claim_at_once(table, &missing, &mut portion);
    }
    Ok(portion)
}

/// Reads the values of some blocks of a table, and locks their rows. Returns whether other transactions have locked some of them.
fn locked_values(table: &UniqueTable, block: i64) -> (Vec<BoundedText>, bool) {
    let read = |waiting: &str| {
        let mut values = Vec::new();
        let of_rows = format!("WHERE ctid >= '({block},0)' AND ctid < '({},0)' FOR SHARE {waiting}", block + BLOCKS);
        table.read(&table.query(&of_rows), false, |value| values.push(value));
        values
    };
    match subtransaction(&[Code::ERRCODE_LOCK_NOT_AVAILABLE], || Ok::<_, ()>(read("NOWAIT"))) {
        Ok(values) => (values, false),
        Err(_) => (read("SKIP LOCKED"), true),
    }
}

/// Claims values that no other transaction is changing. Those that stand elsewhere are found again when the tables are compared.
fn claim_at_once(table: &UniqueTable, values: &[Canonical], portion: &mut ImportedPortion) {
    let claim = || {
        let _waits = LockWaits::limit(LOCK_TIMEOUT_MS);
        Ok::<_, ()>(table.claim(values))
    };
    match subtransaction(&CONTENTION_SQLSTATES, claim) {
        Ok(taken) => portion.refused += taken.len() as i64,
        Err(_) if values.len() == 1 => portion.is_open = true,
        Err(_) => {
            let (some, others) = values.split_at(values.len() / 2);
            claim_at_once(table, some, portion);
            claim_at_once(table, others, portion);
        }
    }
}
