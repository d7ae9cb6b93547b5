//! Connecting to a service: the foreign server and the user mapping.

use std::collections::VecDeque;
use std::ffi::CString;
use std::time::{Duration, Instant};

use pgrx::pg_sys::Oid;

use super::kept::Kept;
use crate::error::{CellError, ClaimsError};
use crate::pg::libpq::{self, Link, Trouble};
use crate::pg::spi::Connection;
use crate::pg::{foreign, roles};
use crate::store::cell::servers::{self, Server};

/// The wrapper of this extension, and others whose servers name a PostgreSQL database that libpq can reach.
const WRAPPERS: [&str; 3] = ["claims_service", "dblink_fdw", "postgres_fdw"];

/// The default of the server's option connect_timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Raises unless `server` is an administrator's foreign server that leads to a Postgres database. The answers of a service
/// decide about claims, and the connection uses the rights of the extension's owner: so servers of other roles are
/// refused.
pub fn must_be_one(connection: &Connection, server: &str) -> Result<Server, ClaimsError> {
    match servers::server(connection, server) {
        Some(found) if WRAPPERS.contains(&found.wrapper.as_str()) => {
            if !roles::is_admin(found.owner) {
                let owner = roles::name(found.owner);
                return Err(CellError::ServerOfOther { server: server.to_owned(), owner }.into());
            }
            if !found.may_use {
                return Err(
                    CellError::MayNotUse { server: server.to_owned(), user: roles::name(roles::current()) }.into()
                );
            }
            Ok(found)
        }
        _ => Err(CellError::NotAService { server: server.to_owned() }.into()),
    }
}

/// Where a server leads, from the catalog.
pub struct Address {
    server: String,
    pub oid: Oid,
    /// The user of the user mapping.
    pub user: Oid,
    /// The version of the catalog when it was read.
    version: u64,
    conninfo: Vec<(CString, CString)>,
    timeout: Duration,
    /// The service must ask for the password.
    password_required: bool,
}

/// Looks up where a server leads. Raises unless it may be used.
pub fn address(connection: &Connection, server: &str, cell_id: i64) -> Result<Address, ClaimsError> {
    // Before the catalog is read: a change in between is noticed at the next use.
    let version = foreign::version();
    let user = roles::current();
    let oid = must_be_one(connection, server)?.oid;
    let given = foreign::options(oid, user);
    let password_required = !roles::is_superuser(user) && !is_off(&given, "password_required");
    if password_required && !given.iter().any(|(name, value)| name == "password" && !value.is_empty()) {
        return Err(CellError::PasswordRequired { given: false }.into());
    }
    let (server, timeout) = (server.to_owned(), connect_timeout(&given));
    Ok(Address { server, oid, user, version, conninfo: conninfo(given, cell_id), timeout, password_required })
}

/// Connects. The time that it takes is limited by the server's `connect_timeout`.
pub fn open(address: &Address) -> Result<Kept, ClaimsError> {
    let Address { server, user, version, conninfo, timeout, password_required, .. } = address;
    let unreachable = |detail: String| CellError::ServiceUnreachable { server: server.clone(), detail };
    let link = Link::open(conninfo, Instant::now() + *timeout).map_err(|trouble| match trouble {
        Trouble::OutOfTime => unreachable(format!("Connecting took longer than {} seconds.", timeout.as_secs())),
        Trouble::Failed(detail) => unreachable(detail),
    })?;
    if *password_required && !link.has_used_password() {
        return Err(CellError::PasswordRequired { given: true }.into());
    }
    Ok(Kept { server: server.clone(), user: *user, version: *version, link, sent: VecDeque::new() })
}

fn is_off(given: &[(String, String)], option: &str) -> bool {
    let value = given.iter().rev().find(|(name, _)| name == option).map(|(_, value)| value.to_ascii_lowercase());
    matches!(value.as_deref(), Some("false" | "off" | "no" | "0" | "f" | "n"))
}

/// The limit for all of the server's hosts together; 0, which means no limit to libpq, is a day here.
fn connect_timeout(given: &[(String, String)]) -> Duration {
    let option = |wanted: &str| given.iter().rev().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let each = match option("connect_timeout").and_then(|seconds| seconds.trim().parse::<i64>().ok()) {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs().min(86_400)),
        Some(_) => Duration::from_secs(86_400),
        None => CONNECT_TIMEOUT,
    };
    let hosts = option("hostaddr").or(option("host")).map_or(1, |hosts| hosts.split(',').count());
    each * u32::try_from(hosts).unwrap_or(1)
}

/// The options for libpq: those that it knows, and the cell's number as application_name.
fn conninfo(given: Vec<(String, String)>, cell_id: i64) -> Vec<(CString, CString)> {
    let known = libpq::known_options();
    let is_known = |name: &str| known.iter().any(|option| option.name == name && !option.is_debug);
    let own = |name: &str, value: String| (name.to_owned(), value);
    // If an option is given twice, libpq takes the last one.
    let all = [own("application_name", format!("claims cell {cell_id}"))]
        .into_iter()
        .chain(given.into_iter().filter(|(name, _)| is_known(name)));
    all.filter_map(|(name, value)| Some((CString::new(name).ok()?, CString::new(value).ok()?))).collect()
}
