//! Results, and the errors in them.

use std::ffi::{CStr, c_int};

use super::bindings::*;

/// An error that the other server has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteError {
    pub sqlstate: [u8; 5],
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
}

/// A result, freed with this value; may be NULL.
pub(super) struct Received(pub(super) *mut PgResult);

impl Received {
    pub(super) fn rows(&self) -> Vec<Vec<Option<String>>> {
        // SAFETY: rows and columns are within the result's bounds; a value has as many bytes as libpq says.
        unsafe {
            let value = |row, column| {
                let length = usize::try_from(PQgetlength(self.0, row, column)).unwrap_or(0);
                let bytes = || std::slice::from_raw_parts(PQgetvalue(self.0, row, column).cast::<u8>(), length);
                (PQgetisnull(self.0, row, column) == 0).then(|| String::from_utf8_lossy(bytes()).into_owned())
            };
            let columns = PQnfields(self.0);
            (0..PQntuples(self.0)).map(|row| (0..columns).map(|column| value(row, column)).collect()).collect()
        }
    }

    /// `otherwise`: of an error that libpq has raised by itself.
    pub(super) fn error(&self, otherwise: impl FnOnce() -> String) -> RemoteError {
        let mut sqlstate = *b"08006";
        if let Some(text) = self.field(FIELD_SQLSTATE).and_then(|text| text.into_bytes().try_into().ok()) {
            sqlstate = text;
        }
        let message = self.field(FIELD_MESSAGE).unwrap_or_else(otherwise);
        RemoteError { sqlstate, message, detail: self.field(FIELD_DETAIL), hint: self.field(FIELD_HINT) }
    }

    fn field(&self, field: c_int) -> Option<String> {
        // SAFETY: NULL, or a C string that lives as long as the result.
        unsafe {
            let text = PQresultErrorField(self.0, field);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        // SAFETY: made by libpq, freed once; NULL is nothing to it.
        unsafe { PQclear(self.0) };
    }
}

impl RemoteError {
    /// It says that another transaction is in the way.
    pub fn is_lock_not_available(&self) -> bool {
        &self.sqlstate == b"55P03"
    }

    /// It says that a prepared statement is not there, or is there already.
    pub fn is_of_prepared(&self) -> bool {
        matches!(&self.sqlstate, b"26000" | b"42P05")
    }

    /// It says that the connection could not be made, or is gone.
    pub fn is_of_connection(&self) -> bool {
        self.sqlstate.starts_with(b"08")
            || matches!(&self.sqlstate, b"57P01" | b"57P02" | b"57P03" | b"57P04" | b"57P05")
    }
}
