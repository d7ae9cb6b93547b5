//! Checks the results of a call against the rows and columns that each of its statements must return.
//!
//! The other server may be anything: a forgery, another program, a broken proxy. libpq returns every result as the
//! answer to the next statement. So each statement states how many rows and columns its answer must have, and every
//! result is matched with the statements that were sent.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use super::bindings::*;
use super::mismatch::Mismatch;
use super::result::{AnswerRow, Received, RemoteError};

/// The limit of the memory for the rows of one answer, whatever their number.
const MAX_ANSWER_BYTES: usize = 128 * 1024 * 1024;
/// The limit of the average memory for a row. Cursors are the longest values, with up to 16 KiB.
const MAX_ROW_BYTES: usize = 32 * 1024;
/// The limit of the memory for all rows of an answer that nobody waits for any more. More would delay the next call.
const MAX_ABANDONED_BYTES: usize = 1024 * 1024;

#[derive(Debug, Clone)]
pub struct ExpectedRows {
    columns: usize,
    rows: RangeInclusive<usize>,
}

impl ExpectedRows {
    pub fn rows(rows: RangeInclusive<usize>, columns: usize) -> Self {
        ExpectedRows { columns, rows }
    }
}

/// A result that the other server still has to send for a statement.
pub(super) enum AwaitedResult {
    /// The confirmation that the statement was prepared.
    Preparation,
    Rows(ExpectedRows),
}

/// An incomplete answer: the results of statements that were sent together, and the end of the call.
#[derive(Default)]
pub(super) struct Awaited {
    steps: VecDeque<AwaitedResult>,
    /// Whether the first step has its result. Then libpq reports that there is no further one.
    is_answered: bool,
    /// The rows of the first step, or of the last one.
    rows: Vec<AnswerRow>,
    /// The number of rows that have come, also if they were dropped.
    row_count: usize,
    /// The approximate memory of the rows that have come.
    bytes: usize,
    /// Whether rows are dropped as they come.
    is_abandoned: bool,
    /// The largest memory of one result in libpq.
    largest_result: usize,
    error: Option<RemoteError>,
}

/// The state of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnswerState {
    More,
    Complete,
}

impl Awaited {
    pub(super) fn add(&mut self, step: AwaitedResult) {
        self.steps.push_back(step);
    }

    /// Returns the approximate memory of the rows that are held.
    pub(super) fn bytes(&self) -> usize {
        if self.is_abandoned { 0 } else { self.bytes }
    }

    /// Drops the rows that have come, and those that will come. Their number and columns are still checked.
    pub(super) fn abandon(&mut self) {
        self.is_abandoned = true;
        self.rows = Vec::new();
    }

    /// Returns the largest memory of one result in libpq, in bytes.
    pub(super) fn largest_result(&self) -> usize {
        self.largest_result
    }

    /// Returns the rows of the last statement, or the error.
    pub(super) fn into_answer(self) -> Result<Vec<AnswerRow>, RemoteError> {
        self.error.map_or(Ok(self.rows), Err)
    }

    pub(super) fn take(&mut self, result: &Received) -> Result<AnswerState, Mismatch> {
        self.largest_result = self.largest_result.max(result.bytes());
        match (result.status(), self.steps.front()) {
            (None, _) if self.is_answered => self.next_step(),
            (Some(PIPELINE_SYNC), None) if !self.is_answered => return Ok(AnswerState::Complete),
            (None | Some(PIPELINE_SYNC), _) => return Err(Mismatch::Early),
            _ if self.is_answered => return Err(Mismatch::Surplus),
            // After an error libpq returns results for the other statements itself.
            (Some(PIPELINE_ABORTED), Some(_)) if self.error.is_some() => self.is_answered = true,
            // An error may also follow the last statement: the end of the call ends its transaction, which may fail.
            (Some(FATAL_ERROR), _) if self.error.is_none() => {
                let libpq_says = || Mismatch::Unreadable(result.libpq_error());
                self.error = Some(result.error().ok_or_else(libpq_says)?);
                self.is_answered = true;
            }
            (Some(COMMAND_OK), Some(AwaitedResult::Preparation)) if self.error.is_none() => self.is_answered = true,
            (Some(status @ (SINGLE_TUPLE | TUPLES_OK)), Some(AwaitedResult::Rows(expected)))
                if self.error.is_none() =>
            {
                let expected = expected.clone();
                self.take_rows(result, &expected)?;
                // Rows come one by one, and after them a result without rows.
                if status == TUPLES_OK {
                    if !expected.rows.contains(&self.row_count) {
                        return Err(Mismatch::Rows { got: self.row_count, wanted: expected.rows });
                    }
                    self.is_answered = true;
                }
            }
            (Some(status), _) => return Err(Mismatch::Kind(kind(status))),
        }
        Ok(AnswerState::More)
    }

    fn next_step(&mut self) {
        self.is_answered = false;
        self.steps.pop_front();
        if !self.steps.is_empty() {
            self.rows.clear();
            self.row_count = 0;
            self.bytes = 0;
        }
    }

    fn take_rows(&mut self, result: &Received, expected: &ExpectedRows) -> Result<(), Mismatch> {
        let (got, wanted) = (result.columns(), expected.columns);
        if got != wanted {
            return Err(Mismatch::Columns { got, wanted });
        }
        for row in result.rows() {
            let row = row?;
            if self.row_count == *expected.rows.end() {
                return Err(Mismatch::MoreRows { most: *expected.rows.end() });
            }
            self.row_count += 1;
            self.bytes += footprint(&row);
            let limit = if self.is_abandoned { MAX_ABANDONED_BYTES } else { MAX_ANSWER_BYTES };
            let most = limit.min(MAX_ROW_BYTES.saturating_mul(*expected.rows.end()));
            if self.bytes > most {
                return Err(Mismatch::TooLarge { most });
            }
            if !self.is_abandoned {
                self.rows.push(row);
            }
        }
        Ok(())
    }
}

/// Returns the approximate memory of a row.
fn footprint(row: &AnswerRow) -> usize {
    const ALLOCATION: usize = 16;
    let value =
        |value: &Option<String>| size_of::<Option<String>>() + ALLOCATION + value.as_ref().map_or(0, String::len);
    size_of::<AnswerRow>() + ALLOCATION + row.iter().map(value).sum::<usize>()
}

fn kind(status: std::ffi::c_int) -> &'static str {
    match status {
        EMPTY_QUERY => "the answer to an empty statement",
        COMMAND_OK => "an answer without rows",
        SINGLE_TUPLE | TUPLES_OK => "rows",
        COPY_IN | COPY_OUT | COPY_BOTH => "the beginning of a COPY",
        FATAL_ERROR => "a second error",
        _ => "an answer of an unknown kind",
    }
}
