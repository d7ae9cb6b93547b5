//! The functions and constants of libpq that this crate uses.
//!
//! They are written by hand. The crates that bind libpq generate hundreds of functions with a bindgen run of their own,
//! or bring another libpq. The functions have not changed since PostgreSQL 14.

use std::ffi::{c_char, c_int, c_void};

use pgrx::pg_sys;

#[repr(C)]
pub(super) struct PgConn([u8; 0]);
#[repr(C)]
pub(super) struct PgResult([u8; 0]);

#[repr(C)]
pub(super) struct ConninfoOption {
    pub(super) keyword: *const c_char,
    pub(super) envvar: *const c_char,
    pub(super) compiled: *const c_char,
    pub(super) val: *const c_char,
    pub(super) label: *const c_char,
    pub(super) dispchar: *const c_char,
    dispsize: c_int,
}

#[link(name = "pq")]
unsafe extern "C" {
    pub(super) fn PQconndefaults() -> *mut ConninfoOption;
    pub(super) fn PQconninfoFree(options: *mut ConninfoOption);
    pub(super) fn PQconnectStartParams(
        keywords: *const *const c_char,
        values: *const *const c_char,
        expand: c_int,
    ) -> *mut PgConn;
    pub(super) fn PQconnectPoll(conn: *mut PgConn) -> c_int;
    pub(super) fn PQfinish(conn: *mut PgConn);
    pub(super) fn PQstatus(conn: *const PgConn) -> c_int;
    pub(super) fn PQtransactionStatus(conn: *const PgConn) -> c_int;
    pub(super) fn PQsocket(conn: *const PgConn) -> c_int;
    pub(super) fn PQerrorMessage(conn: *const PgConn) -> *const c_char;
    pub(super) fn PQconnectionUsedPassword(conn: *const PgConn) -> c_int;
    pub(super) fn PQsetnonblocking(conn: *mut PgConn, on: c_int) -> c_int;
    pub(super) fn PQsetNoticeReceiver(
        conn: *mut PgConn,
        receiver: Option<unsafe extern "C" fn(*mut c_void, *const PgResult)>,
        argument: *mut c_void,
    ) -> *mut c_void;
    pub(super) fn PQsetErrorVerbosity(conn: *mut PgConn, verbosity: c_int) -> c_int;
    pub(super) fn PQsendQueryParams(
        conn: *mut PgConn,
        command: *const c_char,
        count: c_int,
        types: *const pg_sys::Oid,
        values: *const *const c_char,
        lengths: *const c_int,
        formats: *const c_int,
        result_format: c_int,
    ) -> c_int;
    pub(super) fn PQsendPrepare(
        conn: *mut PgConn,
        name: *const c_char,
        command: *const c_char,
        count: c_int,
        types: *const pg_sys::Oid,
    ) -> c_int;
    pub(super) fn PQsendQueryPrepared(
        conn: *mut PgConn,
        name: *const c_char,
        count: c_int,
        values: *const *const c_char,
        lengths: *const c_int,
        formats: *const c_int,
        result_format: c_int,
    ) -> c_int;
    pub(super) fn PQsetSingleRowMode(conn: *mut PgConn) -> c_int;
    pub(super) fn PQnotifies(conn: *mut PgConn) -> *mut c_void;
    pub(super) fn PQfreemem(memory: *mut c_void);
    pub(super) fn PQbackendPID(conn: *const PgConn) -> c_int;
    pub(super) fn PQenterPipelineMode(conn: *mut PgConn) -> c_int;
    pub(super) fn PQpipelineSync(conn: *mut PgConn) -> c_int;
    pub(super) fn PQflush(conn: *mut PgConn) -> c_int;
    pub(super) fn PQconsumeInput(conn: *mut PgConn) -> c_int;
    pub(super) fn PQisBusy(conn: *mut PgConn) -> c_int;
    pub(super) fn PQgetResult(conn: *mut PgConn) -> *mut PgResult;
    pub(super) fn PQclear(result: *mut PgResult);
    pub(super) fn PQresultStatus(result: *const PgResult) -> c_int;
    pub(super) fn PQresultMemorySize(result: *const PgResult) -> usize;
    pub(super) fn PQresultErrorMessage(result: *const PgResult) -> *const c_char;
    pub(super) fn PQresultErrorField(result: *const PgResult, field: c_int) -> *const c_char;
    pub(super) fn PQntuples(result: *const PgResult) -> c_int;
    pub(super) fn PQnfields(result: *const PgResult) -> c_int;
    pub(super) fn PQgetvalue(result: *const PgResult, row: c_int, column: c_int) -> *const c_char;
    pub(super) fn PQgetlength(result: *const PgResult, row: c_int, column: c_int) -> c_int;
    pub(super) fn PQgetisnull(result: *const PgResult, row: c_int, column: c_int) -> c_int;
}

pub(super) const CONNECTION_BAD: c_int = 1;
pub(super) const CONNECTION_AUTH_OK: c_int = 5;
pub(super) const POLLING_FAILED: c_int = 0;
pub(super) const POLLING_WRITING: c_int = 2;
pub(super) const POLLING_OK: c_int = 3;
pub(super) const TRANSACTION_IDLE: c_int = 0;
pub(super) const IN_TRANSACTION: c_int = 2;
pub(super) const IN_FAILED_TRANSACTION: c_int = 3;
pub(super) const EMPTY_QUERY: c_int = 0;
pub(super) const COMMAND_OK: c_int = 1;
pub(super) const TUPLES_OK: c_int = 2;
pub(super) const COPY_OUT: c_int = 3;
pub(super) const COPY_IN: c_int = 4;
pub(super) const FATAL_ERROR: c_int = 7;
pub(super) const COPY_BOTH: c_int = 8;
pub(super) const SINGLE_TUPLE: c_int = 9;
pub(super) const PIPELINE_SYNC: c_int = 10;
pub(super) const PIPELINE_ABORTED: c_int = 11;
pub(super) const ERRORS_DEFAULT: c_int = 1;
pub(super) const ERRORS_VERBOSE: c_int = 2;
pub(super) const FIELD_SQLSTATE: c_int = b'C' as c_int;
pub(super) const FIELD_MESSAGE: c_int = b'M' as c_int;
pub(super) const FIELD_DETAIL: c_int = b'D' as c_int;
pub(super) const FIELD_HINT: c_int = b'H' as c_int;
