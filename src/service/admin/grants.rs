//! Grants for readers, workers and monitoring roles. (The grants of cells come with their registration.)

use pgrx::pg_sys::Oid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::acts::Act;
use crate::error::{AdminError, ClaimsError};
use crate::pg::name::Name;
use crate::pg::spi::Connection;
use crate::store::service::admin;

/// The kinds of roles that grants are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    Reader,
    Worker,
    Monitor,
}

impl Audience {
    /// What it is called in claims.audiences. Cells have the functions of readers, too, but not those of routers.
    fn names(self) -> &'static [&'static str] {
        match self {
            Audience::Reader => &["reader", "router"],
            Audience::Worker => &["worker"],
            Audience::Monitor => &["monitor"],
        }
    }

    /// The function that makes a role one.
    fn granting(self) -> &'static str {
        match self {
            Audience::Reader => "grant_read",
            Audience::Worker => "grant_worker",
            Audience::Monitor => "grant_monitor",
        }
    }

    /// The function that takes it away again.
    fn revoking(self) -> &'static str {
        match self {
            Audience::Reader => "revoke_read",
            Audience::Worker => "revoke_worker",
            Audience::Monitor => "revoke_monitor",
        }
    }

    /// The relations that its roles may read. SELECT on the first one marks a role as one of this kind.
    fn relations(self) -> &'static [&'static str] {
        match self {
            Audience::Reader => &["claims.records"],
            Audience::Worker => &["claims.expiring_claims", "claims.requests"],
            Audience::Monitor => {
                &["claims.leases", "claims.passes", "claims.modes", "claims.cell_limits", "claims.transfers"]
            }
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

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn grant_monitor(role_name: Option<Name>) -> Result<(), ErrorReport> {
    Ok(grant(Audience::Monitor, role_name)?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn revoke_read(role_name: Option<Name>) -> Result<(), ErrorReport> {
    Ok(revoke(Audience::Reader, role_name)?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn revoke_worker(role_name: Option<Name>) -> Result<(), ErrorReport> {
    Ok(revoke(Audience::Worker, role_name)?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn revoke_monitor(role_name: Option<Name>) -> Result<(), ErrorReport> {
    Ok(revoke(Audience::Monitor, role_name)?)
}

fn grant(audience: Audience, role_name: Option<Name>) -> Result<(), ClaimsError> {
    let act = Act::without_reason(audience.granting())?;
    let Name(role_name) = role_name.ok_or(AdminError::NoRoleNamed)?;
    act.with("role_name", role_name.as_str()).perform(|connection| {
        role_called(connection, &role_name)?;
        admin::lock_grants(connection);
        admin::change_grants(connection, &role_name, audience.names(), true);
        admin::let_read(connection, audience.relations(), &role_name);
        Ok(())
    })
}

/// Does nothing for a role without the grant. A cell's role keeps the functions of readers, which are for cells too.
fn revoke(audience: Audience, role_name: Option<Name>) -> Result<(), ClaimsError> {
    let act = Act::without_reason(audience.revoking())?;
    let Name(role_name) = role_name.ok_or(AdminError::NoRoleNamed)?;
    act.with("role_name", role_name.as_str()).perform(|connection| {
        let role = role_called(connection, &role_name)?;
        admin::lock_grants(connection);
        admin::let_read_no_more(connection, audience.relations(), role, &role_name);
        admin::change_grants(connection, &role_name, audience.names(), false);
        if admin::has_cells(connection, role) {
            admin::change_grants(connection, &role_name, &["reader", "cell"], true);
        }
        Ok(())
    })
}

/// Whether a role has this grant.
pub fn has(connection: &Connection, audience: Audience, role: Oid) -> bool {
    admin::can_read(connection, audience.relations()[0], role)
}

/// The oid of a role.
pub fn role_called(connection: &Connection, name: &str) -> Result<Oid, ClaimsError> {
    admin::role_called(connection, name).ok_or_else(|| AdminError::UnknownRole { name: name.to_owned() }.into())
}
