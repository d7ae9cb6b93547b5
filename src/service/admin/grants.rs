//! Who may do what: readers and workers. (Cells are registered.)

use pgrx::pg_sys::Oid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::access;
use crate::error::{AdminError, ClaimsError};
use crate::pg::name::Name;
use crate::pg::spi::{self, Connection};
use crate::store::service::admin;

/// Whom a grant makes of a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    Reader,
    Worker,
}

impl Audience {
    /// As claims.audiences has it.
    fn name(self) -> &'static str {
        match self {
            Audience::Reader => "reader",
            Audience::Worker => "worker",
        }
    }

    /// What its roles may read. By the first of them they are known.
    fn relations(self) -> &'static [&'static str] {
        match self {
            Audience::Reader => &["claims.records"],
            Audience::Worker => &["claims.expiring_claims", "claims.requests"],
        }
    }
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn grant_read(role_name: Option<Name>) -> Result<(), ErrorReport> {
    Ok(grant(Audience::Reader, role_name)?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn grant_worker(role_name: Option<Name>) -> Result<(), ErrorReport> {
    Ok(grant(Audience::Worker, role_name)?)
}

fn grant(audience: Audience, role_name: Option<Name>) -> Result<(), ClaimsError> {
    access::administer()?;
    let Name(role_name) = role_name.ok_or(AdminError::NoRoleNamed)?;
    spi::connect(|connection| {
        role_called(connection, &role_name)?;
        admin::lock_grants(connection);
        admin::change_grants(connection, &role_name, &[audience.name()], true);
        admin::let_read(connection, audience.relations(), &role_name);
        Ok(())
    })
}

/// Whether a grant made this of a role.
pub fn has(connection: &Connection, audience: Audience, role: Oid) -> bool {
    admin::can_read(connection, audience.relations()[0], role)
}

/// The role of a name.
pub fn role_called(connection: &Connection, name: &str) -> Result<Oid, ClaimsError> {
    admin::role_called(connection, name).ok_or_else(|| AdminError::UnknownRole { name: name.to_owned() }.into())
}
