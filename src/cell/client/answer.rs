//! Answers of the service: rows of texts. A malformed answer is a [`Mismatch`].

use std::collections::HashSet;
use std::str::FromStr;

use uuid::Uuid;

use pg::clock::Moment;
use pg::libpq::{AnswerRow, Mismatch};
use pg::xid8::Xid8;

/// The rows of an answer. Their number and their columns are as the call expects.
pub struct Answer(pub(super) Vec<AnswerRow>);

impl Answer {
    pub fn rows<R: FromRow>(self) -> Result<Vec<R>, Mismatch> {
        self.0.into_iter().map(|columns| R::read(&mut columns.into_iter())).collect()
    }

    pub fn only<R: FromRow>(self) -> Result<R, Mismatch> {
        self.rows()?.pop().ok_or(Mismatch::Rows { got: 0, wanted: 1..=1 })
    }
}

/// A row of an answer: a tuple, or a struct that [`row!`] declares, with the columns in the order of the statement.
pub trait FromRow: Sized {
    const COLUMNS: usize;

    fn read(columns: &mut impl Iterator<Item = Option<String>>) -> Result<Self, Mismatch>;
}

/// A column of an answer; `None` is NULL.
pub trait AnswerColumn: Sized {
    fn read(text: Option<String>) -> Result<Self, Mismatch>;
}

/// Declares a struct of the columns of a row.
macro_rules! row {
    ($(#[$doc:meta])* pub struct $row:ident { $($(#[$of_column:meta])* pub $column:ident: $type:ty,)* }) => {
        $(#[$doc])*
        pub struct $row { $($(#[$of_column])* pub $column: $type,)* }

        impl $crate::cell::client::answer::FromRow for $row {
            const COLUMNS: usize = [$(stringify!($column)),*].len();

            fn read(columns: &mut impl Iterator<Item = Option<String>>) -> Result<Self, pg::libpq::Mismatch> {
                Ok($row { $($column: $crate::cell::client::answer::AnswerColumn::read(columns.next().flatten())?,)* })
            }
        }
    };
}
pub(super) use row;

macro_rules! tuples {
    ($($($column:ident)*;)*) => { $(
        impl<$($column: AnswerColumn),*> FromRow for ($($column,)*) {
            const COLUMNS: usize = [$(stringify!($column)),*].len();

            fn read(columns: &mut impl Iterator<Item = Option<String>>) -> Result<Self, Mismatch> {
                Ok(($($column::read(columns.next().flatten())?,)*))
            }
        }
    )* };
}

tuples! { A; A B; A B C; A B C D; A B C D E; A B C D E F G H; }

impl<T: AnswerColumn> AnswerColumn for Option<T> {
    fn read(text: Option<String>) -> Result<Self, Mismatch> {
        text.map(|text| T::read(Some(text))).transpose()
    }
}

macro_rules! columns {
    ($($type:ty: |$text:ident| $read:expr;)*) => { $(
        impl AnswerColumn for $type {
            fn read(text: Option<String>) -> Result<Self, Mismatch> {
                let $text = text.ok_or_else(|| wrong("null"))?;
                $read
            }
        }
    )* };
}

columns! {
    String: |text| Ok(text);
    i32: |text| parsed(&text);
    i64: |text| parsed(&text);
    Uuid: |text| parsed(&text);
    Xid8: |text| parsed(&text).map(Xid8);
    Moment: |text| parsed(&text).map(Moment);
    bool: |text| match text.as_str() {
        "t" => Ok(true),
        "f" => Ok(false),
        other => Err(wrong(other)),
    };
}

fn parsed<T: FromStr>(text: &str) -> Result<T, Mismatch> {
    text.parse().map_err(|_| wrong(text))
}

/// Returns the error for a value that cannot be the answer.
pub fn wrong(value: impl ToString) -> Mismatch {
    Mismatch::Value(value.to_string())
}

/// Returns a word if it is one of some words, or NULL.
pub fn one_of<W: AsRef<str>>(word: Option<W>, words: &[&str]) -> Result<Option<W>, Mismatch> {
    match word {
        Some(word) if !words.contains(&word.as_ref()) => Err(wrong(word.as_ref())),
        word => Ok(word),
    }
}

/// Returns the rows of an answer, if each lease occurs once.
pub fn each_once<T>(rows: Vec<T>, lease: impl Fn(&T) -> Uuid) -> Result<Vec<T>, Mismatch> {
    let mut seen = HashSet::with_capacity(rows.len());
    match rows.iter().map(lease).find(|lease| !seen.insert(*lease)) {
        Some(lease) => Err(wrong(lease)),
        None => Ok(rows),
    }
}

/// Returns the rows of an answer, if each lease that was asked for occurs once, and no other.
pub fn each_asked<T>(asked: &[Uuid], rows: Vec<T>, lease: impl Fn(&T) -> Uuid) -> Result<Vec<T>, Mismatch> {
    let mut missing: HashSet<_> = asked.iter().copied().collect();
    match rows.iter().map(lease).find(|lease| !missing.remove(lease)) {
        Some(lease) => Err(wrong(lease)),
        None if !missing.is_empty() => Err(Mismatch::Rows { got: rows.len(), wanted: asked.len()..=asked.len() }),
        None => Ok(rows),
    }
}
