//! The options of servers and user mappings of the wrapper `claims_service`, which are libpq's options.

use pgrx::pg_sys::{self, Oid};

use crate::cell::errors::CellError;
use crate::kernel::error::{AccessError, ClaimsError};
use pg::prelude::*;
use pg::{libpq, roles};

/// Options that only superusers may set: the waiver of the password, and files of the database server.
const OF_SUPERUSERS: [&str; 5] = ["password_required", "passfile", "sslcert", "sslkey", "sslkeylogfile"];

/// Validates the options of the wrapper, given as `name=value`. PostgreSQL calls it as the role that sets them. Within a SECURITY DEFINER
/// function that is the function's owner, and in an index expression the table's. The outer role does not tell who wrote the command: in
/// autovacuum it is the bootstrap superuser.
#[pg_extern(schema = "claims")]
#[search_path(pg_catalog, pg_temp)]
fn service_validator(options: Option<Vec<Option<String>>>, catalog: Option<Oid>) -> Result<(), ErrorReport> {
    if roles::is_restricted() {
        return Err(ClaimsError::from(AccessError::Restricted).into());
    }
    let catalog = catalog.unwrap_or(Oid::INVALID);
    let allowed = allowed(catalog);
    for option in options.into_iter().flatten().flatten() {
        let (name, value) = option.split_once('=').unwrap_or((&option, ""));
        validate(name, value, &allowed)?;
    }
    Ok(())
}

fn validate(name: &str, value: &str, allowed: &[String]) -> Result<(), ClaimsError> {
    if !allowed.iter().any(|allowed| allowed == name) {
        return Err(CellError::UnknownOption { option: name.to_owned(), allowed: allowed.join(", ") }.into());
    }
    if OF_SUPERUSERS.contains(&name) && !roles::is_superuser(roles::current()) {
        return Err(CellError::OptionOfSuperusers { option: name.to_owned() }.into());
    }
    let is_boolean = || matches!(value.to_ascii_lowercase().as_str(), "true" | "false" | "on" | "off");
    let is_fit = match name {
        "password_required" => is_boolean(),
        "connect_timeout" | "keepalives_idle" | "keepalives_interval" | "keepalives_count" | "tcp_user_timeout" => {
            value.trim().parse::<i32>().is_ok()
        }
        _ => true,
    };
    if is_fit { Ok(()) } else { Err(CellError::BadOption { option: name.to_owned(), value: value.to_owned() }.into()) }
}

/// Returns the options of servers or of user mappings. The user and the secrets are options of mappings, which only their users can see.
fn allowed(catalog: Oid) -> Vec<String> {
    const OURS: [&str; 3] = ["client_encoding", "fallback_application_name", "replication"];
    let of_mapping =
        |name: &str, is_secret: bool| is_secret || matches!(name, "user" | "passfile" | "sslcert" | "sslkey");
    let known = libpq::known_options().into_iter().filter(|option| !option.is_debug && !OURS.contains(&&*option.name));
    match catalog {
        pg_sys::ForeignServerRelationId => {
            known.filter(|option| !of_mapping(&option.name, option.is_secret)).map(|option| option.name).collect()
        }
        pg_sys::UserMappingRelationId => known
            .filter(|option| of_mapping(&option.name, option.is_secret))
            .map(|option| option.name)
            .chain(["password_required".to_owned()])
            .collect(),
        _ => Vec::new(),
    }
}
