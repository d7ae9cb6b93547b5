//! Statements as functions: [`query!`] declares a statement with named parameters and the function that executes it.
//!
//! A parameter stands in the text as `:name`, and is passed by the function's argument of that name. The compiler checks
//! that text and arguments name the same parameters. A row is read into a [`Record`], whose fields have the names of
//! the columns.

use super::rows::{Row, Rows};
#[doc(hidden)]
pub use super::value::Argument;
use super::value::Column;

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
/// where the rows are, unless they are in this database ([`Reach`](crate::statement::Reach)).
#[macro_export]
macro_rules! query {
    ($($(#[$meta:meta])*
       $vis:vis fn $name:ident($($parameter:ident: $type:ty),* $(,)?) $(-> $answer:ty)? = [$view:ident $($reach:ident)?] $text:expr;)*) => {$(
        $(#[$meta])*
        $vis fn $name(connection: &$crate::spi::Connection, $($parameter: $type),*) $(-> $answer)? {
            $crate::named_statement! { ($($parameter: $type),*) $($reach)?, $text }
            let values: [$crate::spi::Value; NAMES.len()] = [$($parameter.into()),*];
            let rows = connection.run(&STATEMENT, $crate::spi::View::$view, values);
            $crate::query::Answer::of(&rows)
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
            $crate::named_statement! { ($($parameter: $type),*) $($reach)?, $text }
            let values: [$crate::spi::Value; NAMES.len()] = [$($parameter.into()),*];
            let as_caller = matches!($crate::spi::View::$view, $crate::spi::View::Caller);
            connection.walk(&STATEMENT, values, as_caller, |row| each($crate::query::Record::read(&row)));
        }
    )*};
}

/// Declares a statement and the names of its parameters.
#[doc(hidden)]
#[macro_export]
macro_rules! named_statement {
    (($($parameter:ident: $type:ty),*) $($reach:ident)?, $text:expr) => {
        const NAMES: &[&str] = &[$(stringify!($parameter)),*];
        const NAMED: &str = $text;
        const NUMBERED: ([u8; NAMED.len()], usize) = $crate::query::number(NAMED, NAMES);
        ::std::thread_local! {
            static STATEMENT: $crate::statement::Statement = const {
                $crate::statement::Statement::new(
                    $crate::query::numbered(&NUMBERED),
                    &[$(<$type as $crate::query::Argument>::TYPE),*],
                    $crate::reach!($($reach)?),
                )
            };
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! reach {
    () => {
        $crate::statement::Reach::Here
    };
    ($reach:ident) => {
        $crate::statement::Reach::$reach
    };
}

pub use {query, record, walk};

/// Replaces the named parameters of a statement by `$1`, `$2` … in the order of `names`. Returns the bytes and their
/// number. Panics, when the statement is compiled, about a name that is not a parameter and a parameter that is not
/// named.
#[doc(hidden)]
pub const fn number<const SIZE: usize>(text: &str, names: &[&str]) -> ([u8; SIZE], usize) {
    let (text, mut numbered) = (text.as_bytes(), [b' '; SIZE]);
    let (mut from, mut to, mut is_quoted, mut used) = (0, 0, false, 0_u64);
    assert!(names.len() < 64, "a statement has at most 63 parameters");
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
    assert!(used == (1 << names.len()) - 1, "a parameter is not used in the statement");
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

const fn index_of(name: &[u8], names: &[&str]) -> usize {
    let mut index = 0;
    while index < names.len() {
        if is_equal(names[index].as_bytes(), name) {
            return index;
        }
        index += 1;
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
    const NUMBERED: ([u8; TEXT.len()], usize) = number(TEXT, &["a", "a_2", "b", "ab"]);
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
