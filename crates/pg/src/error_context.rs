//! Adds to an error what pgrx cannot set: a CONTEXT, a SQLSTATE for which pgrx has no name, and the names of a table, a column and a
//! constraint.
//!
//! pgrx raises an error where a function of this extension returns to PostgreSQL, after all frames of Rust are gone. At
//! that moment PostgreSQL calls its stack of context callbacks. So this module pushes a callback that belongs to no
//! frame when it creates the error. The callback completes the error and removes itself. Whatever happens
//! to the error, PostgreSQL drops the callback together with the C frames below it.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::AssertUnwindSafe;
use std::ptr::null_mut;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::pg_sys::{self, ErrorContextCallback};
use pgrx::{PgSqlErrorCode, PgTryBuilder};

/// An error that is about to be raised.
#[derive(Clone)]
struct Raised {
    /// The code with which pgrx raises it.
    code: PgSqlErrorCode,
    /// The code that it should have, in PostgreSQL's encoding.
    sqlstate: c_int,
    context: Option<CString>,
    /// Each field's number in the protocol, and its value.
    fields: Vec<(c_int, CString)>,
}

/// The names that an error can have in fields of their own.
#[derive(Debug, Clone, Default)]
pub struct ErrorFields {
    pub schema: String,
    pub table: String,
    pub column: String,
    pub constraint: String,
}

thread_local! {
    static RAISED: RefCell<Option<Raised>> = const { RefCell::new(None) };
    /// The error that was completed last, which may lose its completion on its way through Rust.
    static COMPLETED: RefCell<Option<Raised>> = const { RefCell::new(None) };
    /// One callback per process, which is never freed.
    static CALLBACK: *mut ErrorContextCallback = Box::into_raw(Box::new(ErrorContextCallback {
        previous: null_mut(),
        callback: Some(complete),
        arg: null_mut(),
    }));
}

// The bindings of pgrx do not have these functions.
unsafe extern "C-unwind" {
    fn geterrcode() -> c_int;
    fn errcode(sqlstate: c_int) -> c_int;
    fn errcontext_msg(format: *const c_char, ...) -> c_int;
    fn err_generic_string(field: c_int, text: *const c_char) -> c_int;
}

/// Adds a context, another SQLSTATE and fields to the error that is raised next, with `code`. The caller must raise it at once.
pub fn complete_next(code: PgSqlErrorCode, sqlstate: [u8; 5], context: Option<String>, fields: Option<ErrorFields>) {
    let context = context.and_then(|context| CString::new(context).ok());
    let fields = fields.map_or_else(Vec::new, |ErrorFields { schema, table, column, constraint }| {
        let fields = [('s', schema), ('t', table), ('c', column), ('n', constraint)];
        fields.into_iter().filter_map(|(field, value)| Some((field as c_int, CString::new(value).ok()?))).collect()
    });
    push(Raised { code, sqlstate: encoded(sqlstate), context, fields });
}

/// Runs `body`, which executes a statement through SPI. An error that passes through Rust loses what [`complete_next`] has added to
/// it: it is added again.
pub fn keeping_completion<T>(body: impl FnOnce() -> T) -> T {
    COMPLETED.set(None);
    let again = |error: CaughtError| {
        if let CaughtError::PostgresError(report) = &error
            && let Some(completed) = COMPLETED.take()
        {
            push(Raised { code: report.sql_error_code(), ..completed });
        }
        error.rethrow()
    };
    PgTryBuilder::new(AssertUnwindSafe(body)).catch_others(again).execute()
}

fn push(raised: Raised) {
    RAISED.set(Some(raised));
    CALLBACK.with(|callback| {
        // SAFETY: the stack is a list of live callbacks that ends with NULL. This callback is removed first, if an
        // earlier error was not raised.
        unsafe {
            let mut link = &raw mut pg_sys::error_context_stack;
            while !(*link).is_null() {
                if *link == *callback {
                    *link = (**link).previous;
                } else {
                    link = &raw mut (**link).previous;
                }
            }
            (**callback).previous = pg_sys::error_context_stack;
            pg_sys::error_context_stack = *callback;
        }
    });
}

/// Encodes a SQLSTATE as PostgreSQL does, in five groups of six bits.
fn encoded(sqlstate: [u8; 5]) -> c_int {
    sqlstate.iter().rev().fold(0, |number, c| number << 6 | (c_int::from(*c) - c_int::from(b'0')) & 0x3F)
}

/// Returns the code of a SQLSTATE, or `None` if pgrx has no name for it.
pub fn known_code(sqlstate: [u8; 5]) -> Option<PgSqlErrorCode> {
    match PgSqlErrorCode::from(encoded(sqlstate)) {
        PgSqlErrorCode::ERRCODE_INTERNAL_ERROR if &sqlstate != b"XX000" => None,
        code => Some(code),
    }
}

/// Returns the SQLSTATE of a code.
pub fn sqlstate(code: PgSqlErrorCode) -> [u8; 5] {
    // PostgreSQL encodes each character in six bits, the first one in the lowest.
    std::array::from_fn(|at| b'0' + ((code as i32 >> (6 * at)) & 0x3f) as u8)
}

/// Completes the error. Called for every message while it is on the stack.
unsafe extern "C-unwind" fn complete(_argument: *mut c_void) {
    let is_meant = |raised: &Raised| unsafe { geterrcode() } == raised.code as c_int;
    let raised = RAISED.with(|raised| raised.try_borrow_mut().ok()?.take_if(|raised| is_meant(raised)));
    let Some(raised) = raised else { return };
    // SAFETY: called while PostgreSQL builds a message; the format takes one C string, and PostgreSQL copies the fields.
    unsafe {
        errcode(raised.sqlstate);
        if let Some(context) = &raised.context {
            errcontext_msg(c"%s".as_ptr(), context.as_ptr());
        }
        for (field, value) in &raised.fields {
            err_generic_string(*field, value.as_ptr());
        }
        CALLBACK.with(|callback| {
            if pg_sys::error_context_stack == *callback {
                pg_sys::error_context_stack = (**callback).previous;
            }
        });
    }
    let _ = COMPLETED.try_with(|completed| completed.replace(Some(raised)));
}
