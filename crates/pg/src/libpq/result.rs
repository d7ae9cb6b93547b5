//! Results, and the errors in them.

use std::ffi::{CStr, c_int};

use super::bindings::*;
use super::mismatch::Mismatch;

/// The length to which an error's message and hint are cut, in bytes.
const MESSAGE_BYTES: usize = 8 * 1024;
/// The length to which an error's detail is cut, in bytes. It may have a conflict for each record of a batch.
const DETAIL_BYTES: usize = 32 * 1024 * 1024;

/// A row of an answer: texts or NULL.
pub type AnswerRow = Vec<Option<String>>;

/// An error of the other server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteError {
    pub sqlstate: [u8; 5],
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// The foreign server that raised it. The caller fills it in.
    pub server: String,
}

/// A result, which is freed when this value is dropped. It may be NULL.
pub(super) struct Received(pub(super) *mut PgResult);

impl Received {
    /// Returns the status, or `None` if there is no result, or no further one of a statement.
    pub(super) fn status(&self) -> Option<c_int> {
        // SAFETY: a result of libpq.
        (!self.0.is_null()).then(|| unsafe { PQresultStatus(self.0) })
    }

    /// Returns the bytes that libpq has allocated for it.
    pub(super) fn bytes(&self) -> usize {
        // SAFETY: a result of libpq; NULL has no memory.
        unsafe { PQresultMemorySize(self.0) }
    }

    pub(super) fn columns(&self) -> usize {
        // SAFETY: a result of libpq; NULL has no columns.
        usize::try_from(unsafe { PQnfields(self.0) }).unwrap_or(0)
    }

    /// Returns the rows. A value that is no valid text of PostgreSQL is a mismatch.
    pub(super) fn rows(&self) -> impl Iterator<Item = Result<AnswerRow, Mismatch>> {
        // SAFETY: a result of libpq; NULL has no rows.
        let (rows, columns) = unsafe { (PQntuples(self.0), PQnfields(self.0)) };
        (0..rows).map(move |row| (0..columns).map(|column| self.value(row, column)).collect())
    }

    /// Returns a value. Row and column must be within the result.
    fn value(&self, row: c_int, column: c_int) -> Result<Option<String>, Mismatch> {
        // SAFETY: row and column are within the result, and libpq returns the length of the value.
        let bytes = unsafe {
            if PQgetisnull(self.0, row, column) != 0 {
                return Ok(None);
            }
            let length = usize::try_from(PQgetlength(self.0, row, column)).unwrap_or(0);
            std::slice::from_raw_parts(PQgetvalue(self.0, row, column).cast::<u8>(), length)
        };
        match std::str::from_utf8(bytes) {
            Ok(text) if !bytes.contains(&0) => Ok(Some(text.to_owned())),
            _ => Err(Mismatch::NoText),
        }
    }

    /// Returns the error of the other server. Returns `None` for an error of libpq itself, and for one without a
    /// SQLSTATE of an error. A caller would take an error of the classes 00, 01 and 02 for success, a warning or the
    /// end of data.
    pub(super) fn error(&self) -> Option<RemoteError> {
        const NOT_OF_ERRORS: [&[u8]; 3] = [b"00", b"01", b"02"];
        let sqlstate: [u8; 5] = self.field(FIELD_SQLSTATE, 6)?.into_bytes().try_into().ok()?;
        let is_error_code = sqlstate.iter().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase())
            && !NOT_OF_ERRORS.contains(&&sqlstate[..2]);
        is_error_code.then(|| RemoteError {
            sqlstate,
            message: self.message().unwrap_or_default(),
            detail: self.field(FIELD_DETAIL, DETAIL_BYTES),
            hint: self.field(FIELD_HINT, MESSAGE_BYTES),
            server: String::new(),
        })
    }

    pub(super) fn message(&self) -> Option<String> {
        self.field(FIELD_MESSAGE, MESSAGE_BYTES)
    }

    /// Returns the message of an error of libpq itself.
    pub(super) fn libpq_error(&self) -> String {
        // SAFETY: NULL, or a C string that lives as long as the result.
        let text = unsafe { text_from_c(PQresultErrorMessage(self.0), MESSAGE_BYTES) };
        text.unwrap_or_default().trim_end().to_owned()
    }

    /// Returns a field of an error, cut to `most` bytes.
    fn field(&self, field: c_int, most: usize) -> Option<String> {
        // SAFETY: NULL, or a C string that lives as long as the result.
        unsafe { text_from_c(PQresultErrorField(self.0, field), most) }
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        // SAFETY: made by libpq, and freed once; NULL is allowed.
        unsafe { PQclear(self.0) };
    }
}

/// Returns the text of a notice that libpq itself has raised. Returns `None` if the other server has sent the notice.
///
/// # Safety
/// libpq has passed the notice to its receiver.
pub(super) unsafe fn libpq_notice(notice: *const PgResult) -> Option<String> {
    // SAFETY: guaranteed by the caller; its fields are NULL or C strings.
    unsafe {
        let is_of_server = !PQresultErrorField(notice, FIELD_SQLSTATE).is_null();
        if is_of_server { None } else { text_from_c(PQresultErrorField(notice, FIELD_MESSAGE), MESSAGE_BYTES) }
    }
}

/// Returns a text of libpq, cut to `most` bytes, or `None` if it is NULL.
///
/// # Safety
/// The text is NULL or a C string.
unsafe fn text_from_c(text: *const std::ffi::c_char, most: usize) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: guaranteed by the caller.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    Some(String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned())
}

impl RemoteError {
    /// Returns whether another transaction holds a lock.
    pub fn is_lock_not_available(&self) -> bool {
        &self.sqlstate == b"55P03"
    }

    /// Returns whether the other server is not in the state that the call needs.
    pub fn is_wrong_state(&self) -> bool {
        &self.sqlstate == b"55000"
    }

    /// Returns whether a prepared statement does not exist, or exists already.
    pub fn is_prepared_statement_error(&self) -> bool {
        matches!(&self.sqlstate, b"26000" | b"42P05")
    }

    /// Returns whether nothing can be written there, for example on a standby.
    pub fn is_read_only(&self) -> bool {
        &self.sqlstate == b"25006"
    }

    /// Returns whether the connection failed or was lost.
    pub fn is_connection_error(&self) -> bool {
        self.sqlstate.starts_with(b"08")
            || matches!(&self.sqlstate, b"57P01" | b"57P02" | b"57P03" | b"57P04" | b"57P05")
    }
}
