//! Answers of the service: rows of texts. A malformed answer is a [`Mismatch`].

use std::collections::HashSet;
use std::str::FromStr;

use uuid::Uuid;

use pg::libpq::{Mismatch, Row};
use pg::xid8::Xid8;

/// The rows of an answer. Their number and their columns are as the call expects.
pub struct Answer(pub(super) Vec<Row>);

impl Answer {
    pub fn map<T>(self, convert: impl Fn(&AnswerRow) -> Result<T, Mismatch>) -> Result<Vec<T>, Mismatch> {
        self.0.into_iter().map(|columns| convert(&AnswerRow(columns))).collect()
    }

    pub fn first<T>(self, convert: impl Fn(&AnswerRow) -> Result<T, Mismatch>) -> Result<Option<T>, Mismatch> {
        self.0.into_iter().next().map(|columns| convert(&AnswerRow(columns))).transpose()
    }

    pub fn only<T>(self, convert: impl Fn(&AnswerRow) -> Result<T, Mismatch>) -> Result<T, Mismatch> {
        self.first(convert)?.ok_or(Mismatch::Rows { got: 0, wanted: 1..=1 })
    }
}

/// A row of an answer; columns count from 1.
pub struct AnswerRow(Row);

impl AnswerRow {
    /// Returns the text of a column; `None` is NULL.
    pub fn text(&self, column: usize) -> Option<&str> {
        self.0.get(column - 1)?.as_deref()
    }

    /// Returns the text of a column that is never NULL.
    pub fn must(&self, column: usize) -> Result<&str, Mismatch> {
        self.text(column).ok_or_else(|| Mismatch::Value("null".into()))
    }

    pub fn number(&self, column: usize) -> Result<i64, Mismatch> {
        parsed(self.must(column)?)
    }

    pub fn uuid(&self, column: usize) -> Result<Uuid, Mismatch> {
        parsed(self.must(column)?)
    }

    pub fn uuid_or_null(&self, column: usize) -> Result<Option<Uuid>, Mismatch> {
        self.text(column).map(parsed).transpose()
    }

    /// One of some words, or NULL.
    pub fn word_or_null(&self, column: usize, words: &[&str]) -> Result<Option<&str>, Mismatch> {
        match self.text(column) {
            Some(word) if !words.contains(&word) => Err(Mismatch::Value(word.to_owned())),
            word => Ok(word),
        }
    }

    pub fn xid8_or_null(&self, column: usize) -> Result<Option<Xid8>, Mismatch> {
        Ok(self.text(column).map(parsed).transpose()?.map(Xid8))
    }

    pub fn boolean(&self, column: usize) -> Result<bool, Mismatch> {
        match self.must(column)? {
            "t" => Ok(true),
            "f" => Ok(false),
            other => Err(Mismatch::Value(other.to_owned())),
        }
    }
}

/// Returns the rows of an answer, if each lease occurs once.
pub fn each_once<T>(rows: Vec<T>, lease: impl Fn(&T) -> Uuid) -> Result<Vec<T>, Mismatch> {
    let mut seen = HashSet::with_capacity(rows.len());
    match rows.iter().map(lease).find(|lease| !seen.insert(*lease)) {
        Some(lease) => Err(Mismatch::Value(lease.to_string())),
        None => Ok(rows),
    }
}

/// Returns the rows of an answer, if each lease that was asked for occurs once, and no other.
pub fn each_asked<T>(asked: &[Uuid], rows: Vec<T>, lease: impl Fn(&T) -> Uuid) -> Result<Vec<T>, Mismatch> {
    let mut missing: HashSet<_> = asked.iter().copied().collect();
    match rows.iter().map(lease).find(|lease| !missing.remove(lease)) {
        Some(lease) => Err(Mismatch::Value(lease.to_string())),
        None if !missing.is_empty() => Err(Mismatch::Rows { got: rows.len(), wanted: asked.len()..=asked.len() }),
        None => Ok(rows),
    }
}

fn parsed<T: FromStr>(text: &str) -> Result<T, Mismatch> {
    text.parse().map_err(|_| Mismatch::Value(text.to_owned()))
}
