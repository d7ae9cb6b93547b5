//! Answers of the service: rows of texts.

use std::str::FromStr;

use uuid::Uuid;

use crate::error::{CellError, ClaimsError};
use crate::pg::xid8::Xid8;

/// The rows of an answer.
pub struct Answer(pub(super) Vec<Vec<Option<String>>>);

impl Answer {
    /// All rows, converted.
    pub fn map<T>(self, convert: impl Fn(&AnswerRow) -> Result<T, ClaimsError>) -> Result<Vec<T>, ClaimsError> {
        self.0.into_iter().map(|columns| convert(&AnswerRow(columns))).collect()
    }

    /// The first row, converted.
    pub fn first<T>(self, convert: impl Fn(&AnswerRow) -> Result<T, ClaimsError>) -> Result<Option<T>, ClaimsError> {
        self.0.into_iter().next().map(|columns| convert(&AnswerRow(columns))).transpose()
    }
}

/// A row of an answer; columns count from 1.
pub struct AnswerRow(Vec<Option<String>>);

impl AnswerRow {
    /// `None` is NULL.
    pub fn text(&self, column: usize) -> Option<&str> {
        self.0.get(column - 1)?.as_deref()
    }

    /// A column that is never NULL.
    pub fn must(&self, column: usize) -> Result<&str, ClaimsError> {
        self.text(column).ok_or_else(|| strange("null"))
    }

    pub fn number(&self, column: usize) -> Result<i64, ClaimsError> {
        parsed(self.must(column)?)
    }

    pub fn uuid(&self, column: usize) -> Result<Uuid, ClaimsError> {
        parsed(self.must(column)?)
    }

    pub fn uuid_or_null(&self, column: usize) -> Result<Option<Uuid>, ClaimsError> {
        self.text(column).map(parsed).transpose()
    }

    pub fn xid8_or_null(&self, column: usize) -> Result<Option<Xid8>, ClaimsError> {
        Ok(self.text(column).map(parsed).transpose()?.map(Xid8))
    }

    /// NULL is false.
    pub fn is_true(&self, column: usize) -> bool {
        self.text(column) == Some("t")
    }
}

fn parsed<T: FromStr>(text: &str) -> Result<T, ClaimsError> {
    text.parse().map_err(|_| strange(text))
}

/// The error for an answer that this version does not understand.
pub fn strange(what: &str) -> ClaimsError {
    CellError::StrangeAnswer { what: format!("\"{what}\"") }.into()
}
