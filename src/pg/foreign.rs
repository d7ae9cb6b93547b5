//! Foreign servers and user mappings, from the catalog.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_int};

use pgrx::pg_sys::{self, SysCacheIdentifier as Id};
use pgrx::{PgList, pg_guard};

thread_local! {
    /// Counts changes of the catalogs that connections depend on.
    static VERSION: Cell<u64> = const { Cell::new(0) };
}

/// Called once per process.
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

/// A number that increases whenever a server, a user mapping, a wrapper, a role or a membership may have changed, as far as
/// this session has processed invalidation messages.
pub fn version() -> u64 {
    VERSION.get()
}

/// The server of that name.
pub fn server(name: &str) -> Option<pg_sys::Oid> {
    let name = CString::new(name).ok()?;
    // SAFETY: looks a name up; a server that is missing is none.
    let server = unsafe { pg_sys::get_foreign_server_oid(name.as_ptr(), true) };
    (server != pg_sys::Oid::INVALID).then_some(server)
}

/// The name of a server, as long as it is there.
pub fn server_name(server: pg_sys::Oid) -> Option<String> {
    // SAFETY: NULL, or what the catalog has.
    unsafe {
        let server = pg_sys::GetForeignServerExtended(server, pg_sys::FSV_MISSING_OK as pg_sys::bits16).as_ref()?;
        Some(CStr::from_ptr(server.servername).to_string_lossy().into_owned())
    }
}

/// The options of a server's wrapper, of the server, and of the user mapping, in this order. Raises 42704 if neither the
/// user nor PUBLIC has a mapping.
pub fn options(server: pg_sys::Oid, user: pg_sys::Oid) -> Vec<(String, String)> {
    // SAFETY: these raise an error or return what the catalog has; the lists are of DefElem with text values.
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

/// # Safety
/// An option as the catalog has it.
unsafe fn pair(option: *mut pg_sys::DefElem) -> (String, String) {
    // SAFETY: by the caller.
    unsafe {
        let text = |text| CStr::from_ptr(text).to_string_lossy().into_owned();
        (text((*option).defname), text(pg_sys::defGetString(option)))
    }
}
