//! A call to the service: a statement, its parameters, and the rows and columns that it must return.

use std::ffi::{CStr, CString};

use pgrx::pg_sys::Oid;

use super::parameters::Parameter;
use pg::libpq::{Command, Expected};

/// A statement with its parameters, and the expected rows and columns.
pub struct Question<'q> {
    pub text: &'q str,
    pub values: &'q [Parameter],
    pub expected: Expected,
}

impl Question<'_> {
    pub fn command(self) -> Command {
        Command {
            name: None,
            text: c_string(self.text),
            types: &[],
            values: c_strings(self.values),
            expected: self.expected,
        }
    }

    /// Returns a command for a frequent call, which is prepared under a name if no pooler is between cell and service. With separate
    /// parameter types its statement needs no casts.
    pub fn frequent_command(self, name: &'static CStr, types: &'static [Oid]) -> Command {
        Command { name: Some(name), types, ..self.command() }
    }

    /// Returns about how many bytes a command sends.
    pub fn bytes(command: &Command) -> usize {
        command.text.count_bytes() + command.values.iter().flatten().map(|value| value.count_bytes()).sum::<usize>()
    }
}

// PostgreSQL's statements and values contain no zero bytes.
fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

fn c_strings(values: &[Parameter]) -> Vec<Option<CString>> {
    values.iter().map(|value| value.as_deref().map(c_string)).collect()
}
