//! Import: claims the names that rows had before their columns were declared.
//!
//! `import_claims` is a procedure in SQL: only a procedure can commit. It calls `begin_import`, and `import_step` for each batch, in
//! transactions of their own. Between them the row of claims.import_runs has the position, and this session's memory the pace.

mod batch;
mod doubles;
pub mod errors;
pub mod preview;
mod rows;
pub mod statements;

use std::cell::RefCell;
use std::time::{Duration, Instant};

use claims_model::rate::{self, BatchPace};
use claims_model::source_range::SourceRange;
use claims_model::{BadInput, Problem};

use self::batch::ImportBatch;
use self::errors::{ImportError, ImportProgress, notice_of_import, rows_a_second};
use self::statements::{BatchCounts, ImportKey, ImportState};
use super::client::{Service, unreachable};
use super::verify::begin::must_be_claimed;
use super::verify::expected::Expected;
use super::{epoch, reading};
use crate::kernel::error::ClaimsError;
use crate::kernel::{access, arguments, catalog};
use pg::prelude::*;
use pg::spi::{self, Connection};
use pg::{wait, xact};

::pgrx::extension_sql_file!(
    "../../../sql/install/cell/import.sql",
    name = "import",
    requires = [
        cell::verify::unclaimed::unclaimed_rows,
        "verify",
        cell::import::begin_import,
        cell::import::import_step,
        cell::import::wait_for_import,
        cell::import::import_cursor,
        cell::import::preview::preview_import,
        service::verify::import::import_records
    ]
);

/// Interval between notices.
const NOTICE_INTERVAL: Duration = Duration::from_secs(10);
/// Interval between attempts to import rows that other transactions hold.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// Time after all rows were read for which an import tries rows that other transactions hold. Then they count as collisions.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause after the service has refused a batch because of the cell's rate.
const LIMIT_INTERVAL: Duration = Duration::from_millis(500);
/// How long an import continues that the cell's limits let send nothing. Then it ends with the error, and can be continued.
const LIMITED_TIMEOUT: Duration = Duration::from_secs(300);
/// Timeout of the question for the cell's limit.
const LIMIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest pause between two batches.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// An import that this session has begun.
struct ImportCall {
    key: ImportKey,
    /// Number of rows in a batch.
    batch: i64,
    pace: BatchPace,
    /// Number of records in a call to the service.
    per_call: usize,
    began: Instant,
    deadline: Option<Instant>,
    /// Number of rows done by this call.
    rows: i64,
    noticed: Instant,
    retried: Instant,
    /// The source id up to which leftovers were tried in this round.
    retried_up_to: String,
    /// When the service last refused a batch because of the cell's rate.
    refused_at: Option<Instant>,
    /// Since when it has refused each batch by a limit of the cell.
    limited_since: Option<Instant>,
    /// When the last row was read, or a leftover was imported after that.
    read_at: Option<Instant>,
}

thread_local! {
    static CALL: RefCell<Option<ImportCall>> = const { RefCell::new(None) };
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn begin_import(
    cell_id: Option<i64>,
    service: Option<String>,
    source_type: Option<String>,
    rows_per_second: Option<i32>,
    batch_size: Option<i32>,
    max_runtime: Option<Interval>,
) -> Result<(), ErrorReport> {
    xact::must_be_writable(c"claims.import_claims()");
    let began = Instant::now();
    CALL.set(None);
    let call = spi::connect(|connection| {
        arguments::require!(cell_id, service, source_type, batch_size);
        let source_type = reading::source_type_of(connection, cell_id, &source_type)?;
        let batch = arguments::batch_size(batch_size)?;
        let in_range = |rows| arguments::in_range(rows, i32::MAX, "rows_per_second", "1 to 2147483647");
        let pace = rows_per_second.map(in_range).transpose()?;
        let deadline = arguments::end_of_runtime(max_runtime, began)?;
        if xact::uses_transaction_snapshot() {
            return Err(ImportError::OldSnapshot.into());
        }
        let key = ImportKey { cell_id, source_type, service };
        begin(connection, &key)?;
        // At most a second's rows at once, so that no pause is long.
        let batch = pace.map_or(batch, |pace| batch.min(pace));
        let (pace, retried_up_to) = (BatchPace::new(pace.map(|pace| pace as f64)), String::new());
        let (noticed, retried) = (began, began);
        Ok::<_, ClaimsError>(ImportCall {
            key,
            batch,
            pace,
            per_call: batch::PER_CALL,
            began,
            deadline,
            rows: 0,
            noticed,
            retried,
            retried_up_to,
            refused_at: None,
            limited_since: None,
            read_at: None,
        })
    })?;
    CALL.set(Some(call));
    Ok(())
}

fn begin(connection: &Connection, key: &ImportKey) -> Result<(), ClaimsError> {
    let expected = Expected::at(connection, &key.source_type, &key.service);
    must_have_columns(&expected, key)?;
    if let Some(pid) = statements::running(connection, key.cell_id, &key.source_type) {
        return Err(ImportError::Running { source_type: key.source_type.clone(), pid }.into());
    }
    let service = Service::new(connection, &key.service, key.cell_id)?;
    epoch::act_as(connection, &service).map_err(unreachable)?;
    key.begin(connection, expected.estimated_rows());
    Ok(())
}

/// Raises an error if no column of the source type has names for the service.
pub fn must_have_columns(expected: &Expected, key: &ImportKey) -> Result<(), ClaimsError> {
    must_be_claimed(expected, &key.source_type)?;
    if expected.is_elsewhere() {
        let ImportKey { source_type, service, .. } = key.clone();
        return Err(ImportError::OtherService { source_type, service }.into());
    }
    Ok(())
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn import_step(
    cell_id: Option<i64>,
    source_type: Option<String>,
) -> Result<TableIterator<'static, (name!(is_over, bool), name!(pause, f64))>, ErrorReport> {
    xact::must_be_writable(c"claims.import_claims()");
    // An error ends the call.
    let call = CALL.take();
    let (mut call, state, is_finished) = spi::connect(|connection| {
        arguments::require!(cell_id, source_type);
        let first_name = reading::source_type_of(connection, cell_id, &source_type)?;
        let is_of = |call: &ImportCall| (call.key.cell_id, &call.key.source_type) == (cell_id, &first_name);
        let mut call = call.filter(is_of).ok_or(ImportError::NotBegun { source_type: source_type.clone() })?;
        if xact::uses_transaction_snapshot() {
            return Err(ImportError::OldSnapshot.into());
        }
        // A wait can end early.
        if !call.pace.pause(call.began.elapsed()).is_zero() {
            return Ok::<_, ClaimsError>((call, None, false));
        }
        let (state, is_finished) = call.step(connection).map_err(unreachable)?;
        Ok((call, Some(state), is_finished))
    })?;
    let is_over = is_finished || call.deadline.is_some_and(|deadline| Instant::now() >= deadline);
    if let Some(state) = &state
        && (is_over || call.noticed.elapsed() >= NOTICE_INTERVAL)
    {
        call.noticed = Instant::now();
        let rate = rows_a_second(call.rows, call.began);
        notice_of_import(&ImportProgress::of(&call.key, state, rate, is_finished));
    }
    let pause = call.pause(state.as_ref()).as_secs_f64();
    if !is_over {
        CALL.set(Some(call));
    }
    Ok(TableIterator::once((is_over, pause)))
}

impl ImportCall {
    /// Imports a batch, and tries leftovers again. Returns the state after that, and whether nothing is left.
    fn step(&mut self, connection: &Connection) -> Result<(ImportState, bool), ClaimsError> {
        let key = self.key.clone();
        let not_begun = || ImportError::NotBegun { source_type: key.source_type.clone() };
        let mut state = key.lock(connection).ok_or_else(not_begun)?;
        let expected = Expected::at(connection, &key.source_type, &key.service);
        must_have_columns(&expected, &key)?;
        let service = Service::new(connection, &key.service, key.cell_id)?;
        let began = self.began.elapsed();
        let mut batch = ImportBatch::new(connection, &expected, &service, &key, self.per_call);
        let before = (state.is_read, state.source_id.clone());
        let has_leftovers = match self.import_next(connection, &expected, &mut batch, &mut state) {
            Err(error) if error.is_remote_limit() && self.may_be_limited() => {
                // Nothing was written here. What the service has claimed already, it finds again.
                (state.is_read, state.source_id) = before;
                self.slow_down(&service, expected.attributes().len())?;
                return Ok((state, false));
            }
            done => done?,
        };
        self.limited_since = None;
        self.pace.add(began, batch.sent);
        self.rows += batch.counts.rows;
        let (rate, is_finished) =
            (rows_a_second(self.rows, self.began).round() as i64, state.is_read && !has_leftovers);
        let counts = BatchCounts { rate, is_finished, ..batch.counts };
        key.advance(connection, &state, &counts);
        state.rows_done += counts.rows;
        state.collisions += counts.collisions;
        Ok((state, is_finished))
    }

    /// Imports the next range, and tries leftovers. Returns whether some are left.
    fn import_next(
        &mut self,
        connection: &Connection,
        expected: &Expected,
        batch: &mut ImportBatch,
        state: &mut ImportState,
    ) -> Result<bool, ClaimsError> {
        let has_range = !state.is_read;
        if has_range {
            let mut range = SourceRange { above: state.source_id.take(), up_to: None };
            range.up_to = expected.end_of(&range, self.batch);
            batch.import_range(&range)?;
            state.is_read = range.up_to.is_none();
            state.source_id = range.up_to;
            self.read_at = state.is_read.then(Instant::now);
        }
        match self.retry(connection, batch, state.is_read) {
            // The range is imported. The next step finds the limit again.
            Err(error) if has_range && error.is_remote_limit() => Ok(true),
            done => done,
        }
    }

    /// Returns whether the import continues although the service has refused the last batches by a limit of the cell.
    fn may_be_limited(&mut self) -> bool {
        self.limited_since.get_or_insert_with(Instant::now).elapsed() < LIMITED_TIMEOUT
    }

    /// Sends smaller batches from now on, and the next one in a while: the service has refused one by a limit of the cell.
    fn slow_down(&mut self, service: &Service, columns: usize) -> Result<(), ClaimsError> {
        let most = service.batch_limit(LIMIT_TIMEOUT)?.clamp(1, rate::RECORDS as usize);
        let was_smaller = self.per_call <= most;
        self.per_call = self.per_call.min(most);
        // Each row can have a name in each column.
        self.batch = self.batch.min((most / columns.max(1)).max(1) as i64);
        self.refused_at = was_smaller.then(Instant::now);
        // Leftovers have their time again.
        self.read_at = self.read_at.map(|_| Instant::now());
        Ok(())
    }

    /// Tries rows again that other transactions held. Returns whether some are left.
    fn retry(&mut self, connection: &Connection, batch: &mut ImportBatch, is_read: bool) -> Result<bool, ClaimsError> {
        if self.retried_up_to.is_empty() && self.retried.elapsed() < RETRY_INTERVAL && !is_read {
            return Ok(true);
        }
        let ids = self.key.leftovers(connection, &self.retried_up_to, self.batch);
        if ids.is_empty() {
            let was_first = self.retried_up_to.is_empty();
            self.retried_up_to.clear();
            self.retried = Instant::now();
            return Ok(!was_first);
        }
        let read_at = *self.read_at.get_or_insert_with(Instant::now);
        let is_last = is_read && read_at.elapsed() >= RETRY_TIMEOUT;
        let done = batch.import_leftovers(&ids, is_last)?;
        if is_read && done > 0 && !is_last {
            self.read_at = Some(Instant::now());
        }
        self.retried = Instant::now();
        self.retried_up_to = ids.last().cloned().unwrap_or_default();
        Ok(true)
    }

    /// Returns how long to wait before the next batch.
    fn pause(&mut self, state: Option<&ImportState>) -> Duration {
        let of_leftovers = state.filter(|state| state.is_read).map_or(Duration::ZERO, |_| RETRY_INTERVAL);
        let of_limit = self.refused_at.take().map_or(Duration::ZERO, |_| LIMIT_INTERVAL);
        self.pace.pause(self.began.elapsed()).max(of_leftovers).max(of_limit).min(MAX_PAUSE)
    }
}

#[pg_extern(schema = "claims")]
fn wait_for_import(seconds: Option<f64>) -> Result<(), ErrorReport> {
    let seconds = arguments::required(seconds, "seconds")?;
    let pause = at_most_a_second(seconds);
    if !pause.is_zero() {
        wait::sleep(pause);
    }
    Ok(())
}

/// Returns a pause between 0 and [MAX_PAUSE]. NaN is no pause.
fn at_most_a_second(seconds: f64) -> Duration {
    let seconds = if seconds.is_nan() { 0.0 } else { seconds };
    Duration::from_secs_f64(seconds.clamp(0.0, MAX_PAUSE.as_secs_f64()))
}

/// Checks the arguments of claims.import_collisions(). Returns the position in its cursor.
#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn import_cursor(cell_id: Option<i64>, after: Option<String>, max_results: Option<i32>) -> Result<i64, ErrorReport> {
    let position = spi::connect(|connection| {
        arguments::require!(cell_id, max_results);
        access::act_here_for(&catalog::current(connection), cell_id)?;
        arguments::page_size(max_results)?;
        let Some(after) = after else { return Ok::<_, ClaimsError>(0) };
        let position = after.parse::<i64>().ok().filter(|position| *position >= 0);
        position.ok_or_else(|| BadInput::new("after", Problem::BadCursor).into())
    })?;
    Ok(position)
}
