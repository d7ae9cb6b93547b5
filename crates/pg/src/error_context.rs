//! Adds two things to an error that pgrx cannot set: a CONTEXT, and a SQLSTATE for which pgrx has no name.
//!
//! pgrx raises an error where a function of this extension returns to PostgreSQL, after all frames of Rust are gone. At
//! that moment PostgreSQL calls its stack of context callbacks. So this module pushes a callback that belongs to no
//! frame when it creates the error. The callback completes the error and removes itself. Whatever happens
//! to the error, PostgreSQL drops the callback together with the C frames below it.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null_mut;

use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{self, ErrorContextCallback};

/// An error that is about to be raised.
struct Raised {
    /// The code with which pgrx raises it.
    code: PgSqlErrorCode,
    /// The code that it should have, in PostgreSQL's encoding.
    sqlstate: c_int,
    context: CString,
}

thread_local! {
    static RAISED: RefCell<Option<Raised>> = const { RefCell::new(None) };
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
}

/// Adds a context and another SQLSTATE to the error that is raised next, with `code`. The caller must raise it at once.
pub fn complete_next(code: PgSqlErrorCode, sqlstate: [u8; 5], context: String) {
    let Ok(context) = CString::new(context) else { return };
    RAISED.set(Some(Raised { code, sqlstate: encoded(sqlstate), context }));
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

/// Completes the error. Called for every message while it is on the stack.
unsafe extern "C-unwind" fn complete(_argument: *mut c_void) {
    let is_meant = |raised: &Raised| unsafe { geterrcode() } == raised.code as c_int;
    let raised = RAISED.with(|raised| raised.try_borrow_mut().ok()?.take_if(|raised| is_meant(raised)));
    let Some(Raised { sqlstate, context, .. }) = raised else { return };
    // SAFETY: called while PostgreSQL builds a message; the format takes one C string.
    unsafe {
        errcode(sqlstate);
        errcontext_msg(c"%s".as_ptr(), context.as_ptr());
        CALLBACK.with(|callback| {
            if pg_sys::error_context_stack == *callback {
                pg_sys::error_context_stack = (**callback).previous;
            }
        });
    }
}
