//! Connects to a service: by the foreign server and the user mapping.

use std::collections::VecDeque;
use std::ffi::CString;
use std::time::{Duration, Instant};

use pgrx::pg_sys::Oid;

use super::connection_cache::CachedConnection;
use super::places::ConnectionPlace;
use super::servers::{self, Server};
use crate::cell::errors::CellError;
use crate::kernel::error::ClaimsError;
use pg::libpq::{self, Link, Trouble};
use pg::spi::Connection;
use pg::{foreign, roles};

/// The foreign-data wrapper of this extension.
const OWN_WRAPPER: &str = "claims_service";
/// The wrappers whose servers name a PostgreSQL database that libpq can reach.
const WRAPPERS: [&str; 3] = [OWN_WRAPPER, "dblink_fdw", "postgres_fdw"];

/// The default of the server's option connect_timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the server, or raises an error unless it is a service: an administrator's foreign server for a PostgreSQL database, of this
/// extension's wrapper or named by an administrator. Servers of other wrappers have other purposes. Whoever may call a service has
/// statements run there as the remote role of the extension's owner, so unnamed servers are refused.
pub fn must_be_one(connection: &Connection, server: &str) -> Result<Server, ClaimsError> {
    let found = can_be_one(connection, server)?;
    if !is_one(&found) {
        return Err(CellError::NotNamed { server: server.to_owned(), wrapper: found.wrapper }.into());
    }
    Ok(found)
}

/// Returns whether a server of [`can_be_one`] is a service.
pub fn is_one(server: &Server) -> bool {
    is_of_own_wrapper(server) || server.is_named
}

/// Returns whether a server is of this extension's own wrapper.
pub fn is_of_own_wrapper(server: &Server) -> bool {
    server.wrapper == OWN_WRAPPER
}

/// Returns the server, or raises an error unless it is an administrator's foreign server for a PostgreSQL database. The answers of a
/// service decide about claims, and the connection uses the rights of the extension's owner, so servers of other roles are refused.
pub fn can_be_one(connection: &Connection, server: &str) -> Result<Server, ClaimsError> {
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

/// The address of a server, from the catalog.
pub struct Address {
    server: String,
    pub oid: Oid,
    pub user: Oid,
    /// The version of the foreign catalog when it was read.
    version: u64,
    conninfo: Vec<(CString, CString)>,
    timeout: Duration,
    /// Whether the service must ask for the password.
    password_required: bool,
}

/// Looks up the address of a server. Raises an error unless the server may be used.
pub fn address(connection: &Connection, server: &str, cell_id: i64) -> Result<Address, ClaimsError> {
    // Read before the catalog, so that the next use notices a change that happens meanwhile.
    let version = foreign::version();
    let user = roles::current();
    let Server { oid, owner, .. } = must_be_one(connection, server)?;
    if !foreign::has_mapping(oid, user) {
        return Err(CellError::NoUserMapping { server: server.to_owned(), user: roles::name(user) }.into());
    }
    let options = foreign::options(oid, user);
    // A superuser who set the option trusted the address that the server had. An owner who is no superuser can change that address.
    let is_waived = is_off(&options, "password_required") && roles::is_superuser(owner);
    let password_required = !roles::is_superuser(user) && !is_waived;
    if password_required && !options.iter().any(|(name, value)| name == "password" && !value.is_empty()) {
        return Err(CellError::PasswordRequired { given: false }.into());
    }
    let (server, timeout) = (server.to_owned(), connect_timeout(&options));
    Ok(Address { server, oid, user, version, conninfo: conninfo(options, cell_id), timeout, password_required })
}

/// Connects. The server's `connect_timeout` limits the time that it takes, and so does `deadline`.
pub fn open(address: &Address, deadline: Option<Instant>) -> Result<CachedConnection, ClaimsError> {
    let Address { server, oid, user, version, conninfo, timeout, password_required } = address;
    let (now, own) = (Instant::now(), Instant::now() + *timeout);
    let earlier = deadline.filter(|deadline| *deadline < own);
    let link = Link::open(conninfo, earlier.unwrap_or(own)).map_err(|trouble| match (trouble, earlier) {
        (Trouble::OutOfTime, Some(deadline)) => {
            CellError::ServiceSilent { server: server.clone(), timeout: deadline.saturating_duration_since(now) }
        }
        (Trouble::OutOfTime, None) => {
            let detail = format!("Connecting took longer than {} seconds.", timeout.as_secs());
            CellError::ServiceUnreachable { server: server.clone(), detail }
        }
        (other, _) => failure(server.clone(), other),
    })?;
    if *password_required && !link.has_used_password() {
        return Err(CellError::PasswordRequired { given: true }.into());
    }
    Ok(CachedConnection {
        server: server.clone(),
        user: *user,
        version: *version,
        link,
        place: ConnectionPlace::taken(*oid, now),
        unread: VecDeque::new(),
        unflushed: Vec::new(),
    })
}

/// Returns the error for a connection that cannot be made or used any more.
pub fn failure(server: String, trouble: Trouble) -> CellError {
    match trouble {
        Trouble::Lost(detail) => CellError::ServiceUnreachable { server, detail },
        Trouble::TooManyConnections(detail) => CellError::ServiceFull { server, detail },
        Trouble::NoFiles => CellError::NoFiles { server },
        Trouble::Wrong(mismatch) => CellError::WrongAnswer { server, mismatch },
        Trouble::OutOfTime => CellError::ServiceUnreachable { server, detail: "It did not answer in time.".into() },
    }
}

fn is_off(options: &[(String, String)], option: &str) -> bool {
    let value = options.iter().rev().find(|(name, _)| name == option).map(|(_, value)| value.to_ascii_lowercase());
    matches!(value.as_deref(), Some("false" | "off" | "no" | "0" | "f" | "n"))
}

/// Returns the limit for all hosts of the server together. 0, by which libpq means no limit, is a day here.
fn connect_timeout(options: &[(String, String)]) -> Duration {
    let option = |wanted: &str| options.iter().rev().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let each = match option("connect_timeout").and_then(|seconds| seconds.trim().parse::<i64>().ok()) {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs().min(86_400)),
        Some(_) => Duration::from_secs(86_400),
        None => CONNECT_TIMEOUT,
    };
    let hosts = option("hostaddr").or(option("host")).map_or(1, |hosts| hosts.split(',').count());
    each * u32::try_from(hosts).unwrap_or(1)
}

/// Returns the options for libpq: those that it knows, and the cell's number as application_name.
fn conninfo(options: Vec<(String, String)>, cell_id: i64) -> Vec<(CString, CString)> {
    let known = libpq::known_options();
    let is_known = |name: &str| known.iter().any(|option| option.name == name && !option.is_debug);
    let own = |name: &str, value: String| (name.to_owned(), value);
    // If an option occurs twice, libpq takes the last one.
    let all = [own("application_name", format!("claims cell {cell_id}"))]
        .into_iter()
        .chain(options.into_iter().filter(|(name, _)| is_known(name)));
    all.filter_map(|(name, value)| Some((CString::new(name).ok()?, CString::new(value).ok()?))).collect()
}
