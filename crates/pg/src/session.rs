//! The client of this session: where it connects from, and how it names itself.

use std::cell::OnceCell;
use std::ffi::CStr;

use pgrx::pg_sys;

use super::value::Inet;

/// The address of a client.
#[derive(Debug, Clone)]
pub struct ClientAddress {
    pub inet: Inet,
    pub text: String,
}

thread_local! {
    /// The address of this session's client, which never changes.
    static ADDRESS: OnceCell<Option<ClientAddress>> = const { OnceCell::new() };
}

/// Returns the address of the client; `None` for a Unix socket, and in background processes.
pub fn client_address() -> Option<ClientAddress> {
    ADDRESS.with(|address| address.get_or_init(read_address).clone())
}

fn read_address() -> Option<ClientAddress> {
    // SAFETY: a process without a client has no port, and inet_client_addr() would read one.
    if unsafe { pg_sys::MyProcPort.is_null() } {
        return None;
    }
    // SAFETY: both functions have the arguments and results of their SQL functions; an inet that was just made is not toasted.
    unsafe {
        let datum = pgrx::direct_function_call_as_datum(pg_sys::inet_client_addr, &[])?;
        let inet = Inet::of_datum(datum);
        let text: &CStr = pgrx::direct_function_call(pg_sys::inet_out, &[Some(datum)])?;
        Some(ClientAddress { inet, text: text.to_string_lossy().into_owned() })
    }
}

/// Returns the setting `application_name`, which PostgreSQL keeps printable.
pub fn application_name() -> String {
    // SAFETY: a C string of the settings, or NULL in a process that has not read them.
    unsafe {
        let name = pg_sys::application_name;
        if name.is_null() { String::new() } else { CStr::from_ptr(name).to_string_lossy().into_owned() }
    }
}
