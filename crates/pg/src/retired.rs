//! Symbols of functions that this version no longer has. The SQL functions of released versions call them until ALTER
//! EXTENSION has run. CREATE FUNCTION looks them up when the scripts of those versions run, also in pg_upgrade.
//!
//! The compatibility check refuses such a call, or waits until the extension has been updated. After the wait the calling SQL function
//! does not exist any more. If one of the same name takes its arguments, that one is called in its place. Other sessions see a commit before they
//! get word that their caches are out of date. So the call first waits for the end of the transaction that has dropped the function: until then
//! the name can lead to it again, and on without end.

use std::ffi::CStr;
use std::sync::OnceLock;

use pgrx::pg_sys;

use super::text::c_text;
use super::{compatibility, row_set};

/// Defines the symbols: `retired! { name_wrapper, pg_finfo_name_wrapper; … }`. One with `=> "name"` has a successor: the SQL function of
/// that name takes the same arguments, perhaps further ones with defaults, and returns the same columns, perhaps further ones.
macro_rules! retired {
    ($($symbol:ident, $information:ident $(=> $successor:literal)?;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $information() -> &'static pgrx::pg_sys::Pg_finfo_record {
                static API: pgrx::pg_sys::Pg_finfo_record = pgrx::pg_sys::Pg_finfo_record { api_version: 1 };
                &API
            }

            /// # Safety
            /// Called by PostgreSQL.
            #[pgrx::pg_guard]
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $symbol(call: pgrx::pg_sys::FunctionCallInfo) -> pgrx::pg_sys::Datum {
                compatibility::require();
                // SAFETY: called by PostgreSQL, which looks at the function.
                unsafe { wait_for_drop((*(*call).flinfo).fn_oid) };
                let successor: &[&str] = &[$($successor)?];
                match successor.first() {
                    // SAFETY: called by PostgreSQL.
                    Some(name) => unsafe { call_successor(call, name) },
                    None => refuse(),
                }
            }
        )*
    };
}

retired! {
    require_owner_wrapper, pg_finfo_require_owner_wrapper;
    require_role_wrapper, pg_finfo_require_role_wrapper;
    require_service_wrapper, pg_finfo_require_service_wrapper;
    get_record_wrapper, pg_finfo_get_record_wrapper => "get_record";
    get_records_wrapper, pg_finfo_get_records_wrapper => "get_records";
    list_records_wrapper, pg_finfo_list_records_wrapper;
    list_discrepancies_wrapper, pg_finfo_list_discrepancies_wrapper => "list_discrepancies";
    declare_attribute_wrapper, pg_finfo_declare_attribute_wrapper;
    unclaim_attribute_wrapper, pg_finfo_unclaim_attribute_wrapper => "unclaim_attribute";
    release_records_wrapper, pg_finfo_release_records_wrapper => "release_records";
    set_cell_limits_wrapper, pg_finfo_set_cell_limits_wrapper => "set_cell_limits";
    begin_update_wrapper, pg_finfo_begin_update_wrapper => "begin_update";
    begin_update_text_wrapper, pg_finfo_begin_update_text_wrapper => "begin_update_text";
    try_begin_update_wrapper, pg_finfo_try_begin_update_wrapper => "try_begin_update";
    begin_first_wrapper, pg_finfo_begin_first_wrapper => "begin_first";
    get_records_2_wrapper, pg_finfo_get_records_2_wrapper => "get_records";
    list_leases_wrapper, pg_finfo_list_leases_wrapper => "list_leases";
    lease_details_wrapper, pg_finfo_lease_details_wrapper => "lease_details";
    list_changes_wrapper, pg_finfo_list_changes_wrapper => "list_changes";
    bucket_history_wrapper, pg_finfo_bucket_history_wrapper => "bucket_history";
    present_epoch_wrapper, pg_finfo_present_epoch_wrapper => "present_epoch";
    capture_requests_wrapper, pg_finfo_capture_requests_wrapper => "capture_requests";
}

static REFUSE: OnceLock<fn()> = OnceLock::new();

/// Sets the function that raises the error for a call of a function that was dropped while the call waited. Called once per process.
pub fn register(refuse: fn()) {
    let _ = REFUSE.set(refuse);
}

fn refuse() -> ! {
    if let Some(refuse) = REFUSE.get() {
        refuse();
    }
    panic!("a function of this version does not exist");
}

/// Waits for the transaction that drops a function, and for word of the drop.
///
/// # Safety
/// A transaction is open.
unsafe fn wait_for_drop(function: pg_sys::Oid) {
    // SAFETY: any number may be locked. DROP FUNCTION has the conflicting lock until its transaction has told all sessions.
    unsafe { pg_sys::LockDatabaseObject(pg_sys::ProcedureRelationId, function, 0, pg_sys::AccessShareLock as _) };
}

/// Calls the function `claims.name` with the arguments of a call.
///
/// # Safety
/// `call` is the call of an SQL function of this extension that had that name.
unsafe fn call_successor(call: pg_sys::FunctionCallInfo, name: &str) -> pg_sys::Datum {
    // SAFETY: the call has so many arguments, and the caller of a set takes a tuplestore in the memory of the query, or gets an error. The rows
    // are copied before SPI frees them.
    unsafe {
        let count = usize::try_from((*call).nargs).unwrap_or(0);
        let given = (*call).args.as_slice(count);
        let function = (*call).flinfo;
        let mut types: Vec<_> =
            (0..count).map(|at| pg_sys::get_fn_expr_argtype(function, at as std::ffi::c_int)).collect();
        if types.contains(&pg_sys::InvalidOid) {
            refuse();
        }
        let mut values: Vec<_> = given.iter().map(|argument| argument.value).collect();
        let nulls: Vec<std::ffi::c_char> =
            given.iter().map(|argument| if argument.isnull { b'n' } else { b' ' } as std::ffi::c_char).collect();
        let places: Vec<_> = (1..=count).map(|number| format!("${number}")).collect();
        let text = c_text(&format!("SELECT * FROM claims.{name}({})", places.join(", ")));
        pg_sys::SPI_connect();
        execute(&text, &mut types, &mut values, &nulls);
        let rows = &*pg_sys::SPI_tuptable;
        let result = if (*function).fn_retset { row_set::return_rows(call, rows) } else { return_value(call, rows) };
        pg_sys::SPI_finish();
        result
    }
}

/// # Safety
/// SPI is connected, and the arrays have one element for each argument.
unsafe fn execute(text: &CStr, types: &mut [pg_sys::Oid], values: &mut [pg_sys::Datum], nulls: &[std::ffi::c_char]) {
    let count = types.len() as std::ffi::c_int;
    let (types, values, nulls) = (types.as_mut_ptr(), values.as_mut_ptr(), nulls.as_ptr());
    // SAFETY: guaranteed by the caller.
    let status = unsafe { pg_sys::SPI_execute_with_args(text.as_ptr(), count, types, values, nulls, false, 0) };
    assert!(status == pg_sys::SPI_OK_SELECT as std::ffi::c_int, "SPI failed with {status}");
}

/// Returns the first column of an only row, in memory that outlives SPI.
///
/// # Safety
/// The rows are the result of SPI, and its connection is open.
unsafe fn return_value(call: pg_sys::FunctionCallInfo, rows: &pg_sys::SPITupleTable) -> pg_sys::Datum {
    let (mut length, mut is_by_value, mut is_null) = (0, false, true);
    // SAFETY: guaranteed by the caller; a function that returns no set returns one row.
    unsafe {
        assert!(rows.numvals == 1, "a function that returns one value has returned {} rows", rows.numvals);
        let value = pg_sys::SPI_getbinval(*rows.vals, rows.tupdesc, 1, &mut is_null);
        (*call).isnull = is_null;
        if is_null {
            return value;
        }
        pg_sys::get_typlenbyval(pg_sys::SPI_gettypeid(rows.tupdesc, 1), &mut length, &mut is_by_value);
        pg_sys::SPI_datumTransfer(value, is_by_value, length.into())
    }
}
