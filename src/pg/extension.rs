//! The extension as Postgres knows it: the version that is installed in this database, and its scripts.

use std::ffi::CStr;

use pgrx::FromDatum;
use pgrx::pg_sys;

/// The version of an extension of this database, as committed now and as this transaction has left it.
pub fn installed_version(name: &CStr) -> Option<String> {
    const LOCK: pg_sys::LOCKMODE = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    // SAFETY: what is opened here is closed here, or by the end of the (sub)transaction after an error. Name and key outlive
    // the scan, the value is copied before the scan ends, and extversion is a text.
    unsafe {
        let table = pg_sys::table_open(pg_sys::ExtensionRelationId, LOCK);
        let mut wanted = pg_sys::NameData::default();
        pg_sys::namestrcpy(&mut wanted, name.as_ptr());
        let mut key = pg_sys::ScanKeyData::default();
        let (column, equal) = (pg_sys::Anum_pg_extension_extname as _, pg_sys::BTEqualStrategyNumber as _);
        pg_sys::ScanKeyInit(&mut key, column, equal, pg_sys::F_NAMEEQ.into(), (&raw mut wanted).into());
        let index = pg_sys::Oid::from(pg_sys::ExtensionNameIndexId);
        let scan = pg_sys::systable_beginscan(table, index, true, std::ptr::null_mut(), 1, &mut key);
        let row = pg_sys::systable_getnext(scan);
        let version = (!row.is_null()).then(|| {
            let mut is_null = false;
            let column = pg_sys::Anum_pg_extension_extversion as _;
            let value = pg_sys::heap_getattr(row, column, (*table).rd_att, &mut is_null);
            String::from_datum(value, is_null)
        });
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(table, LOCK);
        version.flatten()
    }
}

/// Runs `body` as if no extension script were running. Objects that it creates do not become members of the extension, and
/// its grants are not recorded as initial privileges: so pg_dump dumps them.
pub fn outside_of_scripts<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: a variable of this process. After an error Postgres sets it to false itself, when the script has failed.
    unsafe {
        let is_running = pg_sys::creating_extension;
        pg_sys::creating_extension = false;
        let result = body();
        pg_sys::creating_extension = is_running;
        result
    }
}
