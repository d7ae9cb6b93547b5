//! The extension in PostgreSQL's catalogs: its installed version, its members, and whether its script is running.

use std::ffi::CStr;

use pgrx::{FromDatum, pg_sys};

use super::text::c_text;

/// Returns the version of an extension in this database, as it is committed now or changed by this transaction.
pub fn installed_version(name: &CStr) -> Option<String> {
    const LOCK: pg_sys::LOCKMODE = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    // SAFETY: relations and scans are closed here, or at the end of the (sub)transaction after an error. Name and key
    // outlive the scan, the value is copied before the scan ends, and extversion is a text.
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

/// `pg_depend`, for which pgrx has no bindings: the table, its index by referenced object, and the columns classid,
/// objid, refclassid and refobjid. PostgreSQL does not change their numbers.
mod depend {
    pub const TABLE: u32 = 2608;
    pub const BY_REFERENCE: u32 = 2674;
    pub const CLASS: i16 = 1;
    pub const OBJECT: i16 = 2;
    pub const REFERRED_CLASS: i16 = 4;
    pub const REFERRED_OBJECT: i16 = 5;
}

/// Returns the tables and other relations that are members of an extension in this database.
pub fn relations(name: &CStr) -> Vec<pg_sys::Oid> {
    const LOCK: pg_sys::LOCKMODE = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    let mut found = Vec::new();
    // SAFETY: relations and scans are closed here, or at the end of the (sub)transaction after an error. The keys
    // outlive the scan, and the columns that are read are oids, by value.
    unsafe {
        let extension = pg_sys::get_extension_oid(name.as_ptr(), true);
        let table = pg_sys::table_open(pg_sys::Oid::from(depend::TABLE), LOCK);
        let mut keys = [pg_sys::ScanKeyData::default(); 2];
        let equal = pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber;
        let parts = [(depend::REFERRED_CLASS, pg_sys::ExtensionRelationId), (depend::REFERRED_OBJECT, extension)];
        for (key, (column, value)) in keys.iter_mut().zip(parts) {
            pg_sys::ScanKeyInit(key, column, equal, pg_sys::F_OIDEQ.into(), value.into());
        }
        let index = pg_sys::Oid::from(depend::BY_REFERENCE);
        let scan = pg_sys::systable_beginscan(table, index, true, std::ptr::null_mut(), 2, keys.as_mut_ptr());
        loop {
            let row = pg_sys::systable_getnext(scan);
            if row.is_null() {
                break;
            }
            let column = |number: i16| {
                let mut is_null = false;
                let value = pg_sys::heap_getattr(row, number.into(), (*table).rd_att, &mut is_null);
                pg_sys::Oid::from_datum(value, is_null).unwrap_or(pg_sys::InvalidOid)
            };
            if column(depend::CLASS) == pg_sys::RelationRelationId {
                found.push(column(depend::OBJECT));
            }
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(table, LOCK);
    }
    found
}

/// Returns whether this transaction holds a lock of a table or of another relation that is a member of an extension.
pub fn holds_lock_of_member(name: &CStr) -> bool {
    relations(name).into_iter().any(holds_lock)
}

fn holds_lock(relation: pg_sys::Oid) -> bool {
    // SAFETY: reads a variable of the process, and searches the table of its own locks.
    unsafe {
        let tag = pg_sys::LOCKTAG {
            locktag_field1: pg_sys::MyDatabaseId.to_u32(),
            locktag_field2: relation.to_u32(),
            locktag_field3: 0,
            locktag_field4: 0,
            locktag_type: pg_sys::LockTagType::LOCKTAG_RELATION as u8,
            locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
        };
        let modes = pg_sys::AccessShareLock..=pg_sys::AccessExclusiveLock;
        let holds = |mode: u32| {
            let mode = mode as pg_sys::LOCKMODE;
            #[cfg(any(feature = "pg17", feature = "pg18"))]
            let is_held = pg_sys::LockHeldByMe(&tag, mode, false);
            #[cfg(not(any(feature = "pg17", feature = "pg18")))]
            let is_held = pg_sys::LockHeldByMe(&tag, mode);
            is_held
        };
        modes.into_iter().any(holds)
    }
}

/// Returns whether pg_upgrade has started this server.
pub fn is_in_pg_upgrade() -> bool {
    // SAFETY: reads a variable of the process.
    unsafe { pg_sys::IsBinaryUpgrade }
}

/// Updates an extension to a version, as ALTER EXTENSION UPDATE does. The version is one that needs no quotes.
pub fn update(name: &str, version: &str) {
    let statement = c_text(&format!("ALTER EXTENSION {name} UPDATE TO '{version}'"));
    // SAFETY: connect and finish are paired; after an error the end of the (sub)transaction closes the connection.
    unsafe {
        pg_sys::SPI_connect();
        pg_sys::SPI_execute(statement.as_ptr(), false, 0);
        pg_sys::SPI_finish();
    }
}

/// Returns whether the script of an extension is running: CREATE EXTENSION or ALTER EXTENSION UPDATE.
pub fn is_script_running() -> bool {
    // SAFETY: a variable of this process.
    unsafe { pg_sys::creating_extension }
}

/// Returns whether the script of this extension is running, also within [`outside_of_scripts`].
pub fn is_script_of(name: &CStr) -> bool {
    // SAFETY: looks the name up; a variable of this process, which is invalid when no script is running.
    unsafe {
        let running = pg_sys::CurrentExtensionObject;
        running != pg_sys::InvalidOid && running == pg_sys::get_extension_oid(name.as_ptr(), true)
    }
}

/// Runs `body` as if no extension script were running. Objects that it creates do not become members of the extension,
/// and its grants are not recorded as initial privileges, so pg_dump dumps them.
pub fn outside_of_scripts<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: a variable of this process. After an error PostgreSQL sets it to false itself, when the script has
    // failed.
    unsafe {
        let is_running = pg_sys::creating_extension;
        pg_sys::creating_extension = false;
        let result = body();
        pg_sys::creating_extension = is_running;
        result
    }
}
