//! Statements as functions: [`query!`] declares a statement with named parameters and the function that executes it.
//!
//! A parameter stands in the text as `:name`, and is passed by the function's argument of that name. The compiler checks
//! that text and arguments name the same parameters. A row is read into a [`Record`], whose fields have the names of
//! the columns.

use std::cell::RefCell;
use std::collections::HashMap;

use pgrx::pg_sys;

use super::rows::{Row, Rows};
use super::statement::{Reach, Statement};
#[doc(hidden)]
pub use super::value::Argument;
use super::value::{Column, Value};

/// A row of a statement's answer: a struct that [`record!`] declares, or the value of the only column.
pub trait Record: Sized {
    fn read(row: &Row) -> Self;
}

impl<T: Column> Record for T {
    fn read(row: &Row) -> Self {
        row.must(1)
    }
}

/// The only column, where it can be NULL.
impl<T: Column> Record for Option<T> {
    fn read(row: &Row) -> Self {
        row.get(1)
    }
}

/// A result of the function of a statement, or of a statement whose text is made at run time.
pub trait Answer {
    fn of(rows: &Rows) -> Self;
}

impl Answer for () {
    fn of(_: &Rows) {}
}

/// The number of rows that were returned or written.
impl Answer for usize {
    fn of(rows: &Rows) -> Self {
        rows.count()
    }
}

/// The value of the only column; without columns, whether any row was found or written.
impl Answer for bool {
    fn of(rows: &Rows) -> Self {
        if rows.width() == 0 { rows.count() > 0 } else { rows.first(|row| row.must(1)).unwrap_or(false) }
    }
}

/// The value of the only column; 0 without a row.
impl Answer for i64 {
    fn of(rows: &Rows) -> Self {
        rows.first(|row| row.must(1)).unwrap_or(0)
    }
}

/// All rows.
impl<T: Record> Answer for Vec<T> {
    fn of(rows: &Rows) -> Self {
        rows.map(|row| T::read(&row))
    }
}

/// The first row, if there is one.
impl<T: Record> Answer for Option<T> {
    fn of(rows: &Rows) -> Self {
        rows.first(|row| T::read(&row))
    }
}

/// Declares structs as which rows are read. Each field is the column of its name, and an `Option` where that can be
/// NULL.
#[macro_export]
macro_rules! record {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$about:meta])* $access:vis $field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$meta])*
        $vis struct $name { $($(#[$about])* $access $field: $type),* }

        impl $crate::query::Record for $name {
            fn read(row: &$crate::spi::Row) -> Self {
                let mut columns = 1..;
                $name { $($field: row.field(stringify!($field), &mut columns)),* }
            }
        }
    )*};
}

/// Declares functions that execute one statement each, on tables of this database:
///
/// ```ignore
/// query! {
///     /// Returns the status of a request.
///     pub fn status(queue: &str, id: i64) -> Option<String> = [Latest]
///         "SELECT status FROM claims.requests WHERE queue = :queue AND id = :id";
/// }
/// ```
///
/// The first argument of the function is the connection. In brackets stands the [`View`](crate::spi::View), and then
/// where the rows are, unless they are in this database ([`Reach`](crate::statement::Reach)). With `[Statement Node]` no part of the
/// statement goes to other nodes. With `(queue: &str; view)` and `[view]` the caller passes the view, as the last argument. With
/// `(at: Moment; ..new: Claim)` the fields of a struct that [`arguments!`] declares are further parameters.
#[macro_export]
macro_rules! query {
    ($($(#[$meta:meta])*
       $vis:vis fn $name:ident($($parameter:ident: $type:ty),* $(,)? $(; ..$group:ident: $struct:ty)? $(; $passed:ident)?) $(-> $answer:ty)?
           = [$view:ident $($reach:ident)?] $text:expr;)*) => {$(
        $(#[$meta])*
        $vis fn $name(connection: &$crate::spi::Connection, $($parameter: $type,)* $($group: $struct,)? $($passed: $crate::spi::View)?)
        $(-> $answer)? {
            $crate::named_statement! { ($($parameter: $type),*) ($($struct)?) $($reach)?, $text }
            #[allow(unused_mut)]
            let mut values: ::std::vec::Vec<$crate::spi::Value> = ::std::vec![$($parameter.into()),*];
            $(values.extend($crate::query::Arguments::values($group));)?
            #[allow(unused_imports)]
            use $crate::spi::View::*;
            $crate::query::Answer::of(&connection.run(&STATEMENT, $view, values))
        }
    )*};
}

/// Like [`query!`], for answers of any size: the function calls its last argument for every row, until that returns
/// Break. Only one row is in memory at a time. The views are Statement and Caller.
#[macro_export]
macro_rules! walk {
    ($($(#[$meta:meta])*
       $vis:vis fn $name:ident($($parameter:ident: $type:ty),* $(,)?) -> $row:ty = [$view:ident $($reach:ident)?] $text:expr;)*) => {$(
        $(#[$meta])*
        $vis fn $name(
            connection: &$crate::spi::Connection,
            $($parameter: $type,)*
            mut each: impl FnMut($row) -> ::std::ops::ControlFlow<()>,
        ) {
            $crate::named_statement! { ($($parameter: $type),*) () $($reach)?, $text }
            let values: ::std::vec::Vec<$crate::spi::Value> = ::std::vec![$($parameter.into()),*];
            let as_caller = matches!($crate::spi::View::$view, $crate::spi::View::Caller);
            connection.walk(&STATEMENT, values, as_caller, |row| each($crate::query::Record::read(&row)));
        }
    )*};
}

/// Like [`walk!`], for reading much of a table: the statement is planned with the values of each call, a thousand rows are in memory at
/// a time, and the function reads to the end. The view is Statement or Caller.
#[macro_export]
macro_rules! scan {
    ($($(#[$meta:meta])*
       $vis:vis fn $name:ident($($parameter:ident: $type:ty),* $(,)?) -> $row:ty = [$view:ident] $text:expr;)*) => {$(
        $(#[$meta])*
        $vis fn $name(connection: &$crate::spi::Connection, $($parameter: $type,)* each: &mut dyn FnMut($row)) {
            const NAMED: &str = $text;
            const NUMBERED: ([u8; NAMED.len()], usize) = $crate::query::number(NAMED, &[&[$(stringify!($parameter)),*]]);
            let values: ::std::vec::Vec<$crate::spi::Value> = ::std::vec![$($parameter.into()),*];
            let as_caller = matches!($crate::spi::View::$view, $crate::spi::View::Caller);
            connection.stream($crate::query::numbered(&NUMBERED), values, as_caller, |row| each($crate::query::Record::read(&row)));
        }
    )*};
}

/// Like [`query!`], for the tables of one shard on its node. The first argument after the connection is the number of the shard, which
/// replaces SHARD in the text. No part of a statement goes to other nodes.
#[macro_export]
macro_rules! shard_query {
    ($($(#[$meta:meta])*
       $vis:vis fn $name:ident($($parameter:ident: $type:ty),* $(,)? $(; ..$group:ident: $struct:ty)?) $(-> $answer:ty)? = [Shard] $text:expr;)*) => {$(
        $(#[$meta])*
        $vis fn $name(connection: &$crate::spi::Connection, shard: i64, $($parameter: $type,)* $($group: $struct)?) $(-> $answer)? {
            $crate::named! { ($($parameter: $type),*) ($($struct)?) $text }
            ::std::thread_local! {
                static STATEMENTS: $crate::query::OfShards = ::std::default::Default::default();
            }
            let statement = STATEMENTS.with(|all| all.of(shard, $crate::query::numbered(&NUMBERED), TYPES));
            #[allow(unused_mut)]
            let mut values: ::std::vec::Vec<$crate::spi::Value> = ::std::vec![$($parameter.into()),*];
            $(values.extend($crate::query::Arguments::values($group));)?
            $crate::query::Answer::of(&connection.run_leaked(statement, $crate::spi::View::Statement, values))
        }
    )*};
}

/// The statements of one text for the shards of this node. They are kept for the session.
#[doc(hidden)]
#[derive(Default)]
pub struct OfShards(RefCell<HashMap<i64, &'static Statement>>);

impl OfShards {
    pub fn of(&self, shard: i64, text: &str, types: &'static [&'static [pg_sys::Oid]]) -> &'static Statement {
        let new = || Statement::leaked(text.replace("SHARD", &shard.to_string()), types, Reach::Node);
        self.0.borrow_mut().entry(shard).or_insert_with(new)
    }
}

/// Declares a struct whose fields are parameters of statements.
#[macro_export]
macro_rules! arguments {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident<$life:lifetime> { $($access:vis $field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$meta])*
        $vis struct $name<$life> { $($access $field: $type),* }

        impl<$life> $crate::query::Arguments for $name<$life> {
            const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];
            const TYPES: &'static [::pgrx::pg_sys::Oid] = &[$(<$type as $crate::query::Argument>::TYPE),*];

            fn values(self) -> ::std::vec::Vec<$crate::spi::Value> {
                ::std::vec![$(self.$field.into()),*]
            }
        }
    )*};
}

/// A struct that [`arguments!`] declares.
pub trait Arguments: Sized {
    #[doc(hidden)]
    const NAMES: &'static [&'static str];
    #[doc(hidden)]
    const TYPES: &'static [pg_sys::Oid];
    /// Returns the values of the fields, in their order.
    fn values(self) -> Vec<Value>;
}

/// Numbers the parameters of a text, and declares their types.
#[doc(hidden)]
#[macro_export]
macro_rules! named {
    (($($parameter:ident: $type:ty),*) ($($struct:ty)?) $text:expr) => {
        const NAMED: &str = $text;
        const NUMBERED: ([u8; NAMED.len()], usize) = $crate::query::number(
            NAMED,
            &[&[$(stringify!($parameter)),*] $(, <$struct as $crate::query::Arguments>::NAMES)?],
        );
        const TYPES: &[&[::pgrx::pg_sys::Oid]] =
            &[&[$(<$type as $crate::query::Argument>::TYPE),*] $(, <$struct as $crate::query::Arguments>::TYPES)?];
    };
}

/// Declares a statement.
#[doc(hidden)]
#[macro_export]
macro_rules! named_statement {
    (($($parameter:ident: $type:ty),*) ($($struct:ty)?) $($reach:ident)?, $text:expr) => {
        $crate::named! { ($($parameter: $type),*) ($($struct)?) $text }
        ::std::thread_local! {
            static STATEMENT: $crate::statement::Statement = const {
                $crate::statement::Statement::new(
                    $crate::query::numbered(&NUMBERED),
                    TYPES,
                    *[$crate::statement::Reach::Here $(, $crate::statement::Reach::$reach)?].last().unwrap(),
                )
            };
        }
    };
}

pub use {arguments, query, record, scan, shard_query, walk};

/// Replaces the named parameters of a statement by `$1`, `$2` … in the order of `names`. Returns the bytes and their
/// number. Panics, when the statement is compiled, about a name that is not a parameter and a parameter that is not
/// named.
#[doc(hidden)]
pub const fn number<const SIZE: usize>(text: &str, names: &[&[&str]]) -> ([u8; SIZE], usize) {
    let (text, mut numbered) = (text.as_bytes(), [b' '; SIZE]);
    let (mut from, mut to, mut is_quoted, mut used) = (0, 0, false, 0_u64);
    while from < text.len() {
        let is_parameter = text[from] == b':' && !is_quoted && from + 1 < text.len() && is_letter(text[from + 1]);
        if is_parameter && (from == 0 || text[from - 1] != b':') {
            let end = end_of_name(text, from + 1);
            let index = index_of(text.split_at(end).0.split_at(from + 1).1, names);
            used |= 1 << index;
            let number = index + 1;
            numbered[to] = b'$';
            to += 1;
            if number > 9 {
                numbered[to] = b'0' + (number / 10) as u8;
                to += 1;
            }
            numbered[to] = b'0' + (number % 10) as u8;
            to += 1;
            from = end;
        } else {
            if text[from] == b'\'' {
                is_quoted = !is_quoted;
            }
            numbered[to] = text[from];
            to += 1;
            from += 1;
        }
    }
    assert!(used.count_ones() as usize == count(names), "a parameter is not used in the statement");
    (numbered, to)
}

const fn is_letter(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte == b'_'
}

const fn end_of_name(text: &[u8], mut at: usize) -> usize {
    while at < text.len() && (is_letter(text[at]) || text[at].is_ascii_digit()) {
        at += 1;
    }
    at
}

const fn count(names: &[&[&str]]) -> usize {
    let (mut count, mut list) = (0, 0);
    while list < names.len() {
        count += names[list].len();
        list += 1;
    }
    count
}

const fn index_of(name: &[u8], names: &[&[&str]]) -> usize {
    let (mut before, mut list) = (0, 0);
    while list < names.len() {
        let mut index = 0;
        while index < names[list].len() {
            if is_equal(names[list][index].as_bytes(), name) {
                return before + index;
            }
            index += 1;
        }
        before += index;
        list += 1;
    }
    panic!("the statement names a parameter that the function does not have")
}

#[doc(hidden)]
pub const fn numbered<const SIZE: usize>(numbered: &'static ([u8; SIZE], usize)) -> &'static str {
    match std::str::from_utf8(numbered.0.split_at(numbered.1).0) {
        Ok(text) => text,
        Err(_) => panic!("a statement is UTF-8"),
    }
}

/// Checked when this is compiled: casts, quoted texts and names that begin with other names.
const _: () = {
    const TEXT: &str = "SELECT :b::text, ':a', x[:a_2], 'it''s :b', :a, :ab WHERE :b = $$";
    const NUMBERED: ([u8; TEXT.len()], usize) = number(TEXT, &[&["a", "a_2"], &["b", "ab"]]);
    let (found, expected) = (numbered(&NUMBERED), "SELECT $3::text, ':a', x[$2], 'it''s :b', $1, $4 WHERE $3 = $$");
    assert!(is_equal(found.as_bytes(), expected.as_bytes()));
};

const fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}
