//! A call to the service: a statement with named parameters, and the values that it sends.

use std::ffi::{CStr, CString};
use std::ops::RangeInclusive;
use std::time::Duration;

use claims_model::attribution::Attribution;
use pgrx::datum::Interval;
use pgrx::pg_sys::{self, Oid};
use uuid::Uuid;

use super::answer::FromRow;
use crate::kernel::attribution;
use pg::libpq::{Command, ExpectedRows};
use pg::xid8::Xid8;

/// The texts of a statement's parameters; `None` is NULL.
pub type Values = Vec<Option<CString>>;

/// A value that a call sends, as one parameter or several.
pub trait Parameter {
    /// The types of the parameters, by oids that are equal on every server.
    const TYPES: &'static [Oid];

    fn add_to(&self, values: &mut Values);
}

macro_rules! parameters {
    ($($rust:ty: $oid:ident, |$value:ident| $text:expr;)*) => { $(
        impl Parameter for $rust {
            const TYPES: &'static [Oid] = &[pg_sys::$oid];

            fn add_to(&self, values: &mut Values) {
                let $value = self;
                values.push(Some(c_string($text)));
            }
        }
    )* };
}

parameters! {
    bool: BOOLOID, |value| value.to_string();
    i32: INT4OID, |value| value.to_string();
    i64: INT8OID, |value| value.to_string();
    f64: FLOAT8OID, |value| format!("{value:.6}");
    &str: TEXTOID, |value| (*value).to_owned();
    String: TEXTOID, |value| value.clone();
    Uuid: UUIDOID, |value| value.to_string();
    Xid8: XID8OID, |value| value.0.to_string();
    Json<'_>: JSONBOID, |value| value.0.to_owned();
    &[Uuid]: UUIDARRAYOID, |value| array(value.iter().map(Uuid::to_string));
    Vec<String>: TEXTARRAYOID, |value| array(value.iter().map(|text| quoted(text)));
    Vec<&str>: TEXTARRAYOID, |value| array(value.iter().map(|text| quoted(text)));
}

/// A jsonb, as a text.
pub struct Json<'j>(pub &'j str);

impl<T: Parameter> Parameter for &T {
    const TYPES: &'static [Oid] = T::TYPES;

    fn add_to(&self, values: &mut Values) {
        (*self).add_to(values);
    }
}

impl<T: Parameter> Parameter for Option<T> {
    const TYPES: &'static [Oid] = T::TYPES;

    fn add_to(&self, values: &mut Values) {
        match self {
            Some(value) => value.add_to(values),
            None => values.extend(T::TYPES.iter().map(|_| None)),
        }
    }
}

/// Returns months, days and seconds. As one text, each server would read it by its own settings.
pub fn interval(interval: Interval) -> (i32, i32, f64) {
    (interval.months(), interval.days(), interval.micros() as f64 / 1e6)
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn array(elements: impl Iterator<Item = String>) -> String {
    format!("{{{}}}", elements.collect::<Vec<_>>().join(","))
}

// PostgreSQL's statements and values contain no zero bytes.
pub fn c_string(text: String) -> CString {
    CString::new(text).unwrap_or_default()
}

/// A statement with the values that it sends.
#[derive(Default)]
pub struct Question {
    pub name: Option<&'static CStr>,
    pub text: &'static CStr,
    types: Vec<Oid>,
    values: Values,
    is_limited: bool,
    attribution: Option<Attribution>,
}

/// Declares a call where it is made, with its parameters by name: `question! { "SELECT claims.batch_limit({cell_id})", cell_id }`. A frequent call
/// has `prepared` and a name before the text, and is prepared under that name if no pooler is between cell and service.
macro_rules! question {
    (@value $name:ident) => { $name };
    (@value $name:ident = $value:expr) => { $value };
    ($(prepared $prepared:literal:)? $text:literal $(, $name:ident $(= $value:expr)?)*) => {{
        static TEXT: std::sync::OnceLock<std::ffi::CString> = std::sync::OnceLock::new();
        let mut question = $crate::cell::client::question::Question::default();
        $( question.name = Some($prepared); )?
        $( let $name = question.add(&question!(@value $name $(= $value)?)); )*
        let text = || format!(concat!($text), $($name = $crate::cell::client::question::in_sql($name)),*);
        question.text = TEXT.get_or_init(|| $crate::cell::client::question::c_string(text()));
        question
    }};
}
pub(super) use question;

/// Returns the parameters with these numbers, from 1, as a list in a statement.
pub fn in_sql(numbers: RangeInclusive<usize>) -> String {
    numbers.map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}

impl Question {
    /// Adds a value. Returns the numbers of its parameters.
    pub fn add<P: Parameter>(&mut self, value: &P) -> RangeInclusive<usize> {
        let first = self.types.len() + 1;
        self.types.extend(P::TYPES);
        value.add_to(&mut self.values);
        first..=self.types.len()
    }

    /// Has the service cancel the statement by itself somewhat before the timeout, so that it changes nothing after the cell has released
    /// its row locks.
    pub fn limited(self) -> Self {
        Question { is_limited: true, ..self }
    }

    /// Like [`Question::limited`], and tells the service what this session says about who acts, for statements without a lease.
    pub fn attributed(self) -> Self {
        Question { attribution: Some(attribution::of_cell()), ..self.limited() }
    }

    /// Returns the commands for an answer of so many rows.
    pub fn commands<R: FromRow>(mut self, rows: RangeInclusive<usize>, timeout: Duration) -> Vec<Command> {
        let attribution = self.attribution.take().map(attribute);
        let limit = self.is_limited.then(|| limit(timeout.saturating_sub(CANCEL_MARGIN)));
        attribution.into_iter().chain(limit).chain([self.command::<R>(rows)]).collect()
    }

    /// Returns the command for an answer of so many rows.
    pub fn command<R: FromRow>(self, rows: RangeInclusive<usize>) -> Command {
        let Question { name, text, types, values, .. } = self;
        Command { name, text, types, values, expected: ExpectedRows::rows(rows, R::COLUMNS) }
    }

    /// Returns about how many bytes a command sends.
    pub fn bytes(command: &Command) -> usize {
        command.text.count_bytes() + command.values.iter().flatten().map(|value| value.count_bytes()).sum::<usize>()
    }
}

/// The service cancels a statement this much earlier than the cell gives up.
const CANCEL_MARGIN: Duration = Duration::from_millis(500);

/// Returns the command that says who acts in the next statement.
fn attribute(Attribution { context, cell_role }: Attribution) -> Command {
    let (context, cell_role) = (context.unwrap_or_default(), cell_role.unwrap_or_default());
    let said = question! {
        "SELECT pg_catalog.set_config('claims.context', {context}, true), pg_catalog.set_config('claims.cell_role', {cell_role}, true)",
        context = &*context, cell_role = &*cell_role
    };
    said.command::<(String, String)>(1..=1)
}

/// Returns the command that sets statement_timeout for the next statement.
fn limit(limit: Duration) -> Command {
    let limit = limit.as_millis().to_string();
    question! { "SELECT pg_catalog.set_config('statement_timeout', {limit}, true)", limit }.command::<(String,)>(1..=1)
}
