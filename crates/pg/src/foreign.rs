//! Foreign servers and user mappings in the catalogs.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_int};

use pgrx::pg_sys::{self, SysCacheIdentifier as Id};
use pgrx::{PgList, pg_guard};

thread_local! {
    /// The number of changes of catalogs that connections depend on.
    static VERSION: Cell<u64> = const { Cell::new(0) };
}

/// Registers the callbacks. Called once per process.
pub fn register() {
    let watched =
        [Id::FOREIGNSERVEROID, Id::USERMAPPINGOID, Id::FOREIGNDATAWRAPPEROID, Id::AUTHOID, Id::AUTHMEMMEMROLE];
    for cache in watched {
        // SAFETY: the callback lives as long as the library, which is never unloaded.
        unsafe { pg_sys::CacheRegisterSyscacheCallback(cache as c_int, Some(changed), pg_sys::Datum::from(0)) };
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn changed(_argument: pg_sys::Datum, _cache: c_int, _hash: u32) {
    VERSION.set(VERSION.get() + 1);
}

/// Notifies all sessions, when the transaction commits, that their cached data about foreign servers is outdated. ALTER
/// SERVER sends these notifications itself.
pub fn announce_change() {
    // SAFETY: registers a message, in a transaction.
    unsafe { pg_sys::CacheInvalidateCatalog(pg_sys::ForeignServerRelationId) };
}

/// Returns a number that increases whenever a server, a user mapping, a wrapper, a role or a membership may have
/// changed. It covers the invalidation messages that this session has processed.
pub fn version() -> u64 {
    VERSION.get()
}

pub fn server(name: &str) -> Option<pg_sys::Oid> {
    let name = CString::new(name).ok()?;
    // SAFETY: looks a name up; a server that is missing is none.
    let server = unsafe { pg_sys::get_foreign_server_oid(name.as_ptr(), true) };
    (server != pg_sys::Oid::INVALID).then_some(server)
}

pub fn server_name(server: pg_sys::Oid) -> Option<String> {
    // SAFETY: NULL, or what the catalog has.
    unsafe {
        let server = pg_sys::GetForeignServerExtended(server, pg_sys::FSV_MISSING_OK as pg_sys::bits16).as_ref()?;
        Some(CStr::from_ptr(server.servername).to_string_lossy().into_owned())
    }
}

/// Returns whether a user, or PUBLIC, has a mapping for a server.
pub fn has_mapping(server: pg_sys::Oid, user: pg_sys::Oid) -> bool {
    let none = pg_sys::Datum::from(0);
    [user, pg_sys::Oid::INVALID].into_iter().any(|user| {
        // SAFETY: the cache has two keys, both are Oids.
        unsafe {
            pg_sys::SearchSysCacheExists(Id::USERMAPPINGUSERSERVER as c_int, user.into(), server.into(), none, none)
        }
    })
}

/// Returns the options of the server's wrapper, of the server, and of the user mapping, in this order. Raises 42704 if
/// neither the user nor PUBLIC has a mapping.
pub fn options(server: pg_sys::Oid, user: pg_sys::Oid) -> Vec<(String, String)> {
    // SAFETY: the functions raise an error or return catalog entries; the lists have DefElem with text values.
    unsafe {
        let server = pg_sys::GetForeignServer(server);
        let mapping = pg_sys::GetUserMapping(user, (*server).serverid);
        let wrapper = pg_sys::GetForeignDataWrapper((*server).fdwid);
        [(*wrapper).options, (*server).options, (*mapping).options]
            .into_iter()
            .flat_map(|list| {
                PgList::<pg_sys::DefElem>::from_pg(list).iter_ptr().map(|option| pair(option)).collect::<Vec<_>>()
            })
            .collect()
    }
}

/// Converts an option.
///
/// # Safety
/// The option comes from the catalogs.
unsafe fn pair(option: *mut pg_sys::DefElem) -> (String, String) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let text = |text| CStr::from_ptr(text).to_string_lossy().into_owned();
        (text((*option).defname), text(pg_sys::defGetString(option)))
    }
}
