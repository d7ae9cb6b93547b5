//! Grants for readers, workers and monitoring roles, and those of all roles after an upgrade. Cells get theirs when they are registered.

use pgrx::pg_sys::Oid;

use super::errors::AdminError;
use super::statements;
use crate::kernel::admin_action::AdminAction;
use crate::kernel::error::ClaimsError;
use crate::service::admin::tables::ROLE_TABLES;
use pg::extension::outside_of_scripts;
use pg::name::Name;
use pg::prelude::*;
use pg::spi::Connection;

/// The kind of a role that gets grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    Reader,
    Worker,
    Monitor,
}

impl Audience {
    /// Returns its names in claims.audiences. Cells have the functions of readers, but not those of routers.
    fn names(self) -> &'static [&'static str] {
        match self {
            Audience::Reader => &["reader", "router"],
            Audience::Worker => &["worker"],
            Audience::Monitor => &["monitor"],
        }
    }

    /// Returns the function that grants it.
    fn granting(self) -> &'static str {
        match self {
            Audience::Reader => "grant_read",
            Audience::Worker => "grant_worker",
            Audience::Monitor => "grant_monitor",
        }
    }

    /// Returns the function that revokes it.
    fn revoking(self) -> &'static str {
        match self {
            Audience::Reader => "revoke_read",
            Audience::Worker => "revoke_worker",
            Audience::Monitor => "revoke_monitor",
        }
    }

    /// Returns the relations that its roles may read. SELECT on the first one marks a role as one of this kind.
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

/// Grants every registered role what its kind has in this version. An upgrade calls it at its end, because the extension's script
/// does not know the roles.
#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn refresh_grants() -> Result<(), ErrorReport> {
    let action = AdminAction::without_reason("refresh_grants")?;
    Ok(action.perform(|call| {
        ROLE_TABLES.of(call).hand_over(call.connection)?;
        ROLE_TABLES.of(call).lock_grants(call.connection)?;
        outside_of_scripts(|| ROLE_TABLES.of(call).refresh_grants(call.connection));
        Ok(())
    })?)
}

fn grant(audience: Audience, role_name: Option<Name>) -> Result<(), ClaimsError> {
    let action = AdminAction::without_reason(audience.granting())?;
    let Name(role_name) = role_name.ok_or(AdminError::NoRoleNamed)?;
    action.with("role_name", role_name.as_str()).perform(|call| {
        role_called(call.connection, &role_name)?;
        ROLE_TABLES.of(call).lock_grants(call.connection)?;
        ROLE_TABLES.of(call).change_grants(call.connection, &role_name, audience.names(), true);
        ROLE_TABLES.of(call).grant_select(call.connection, audience.relations(), &role_name);
        Ok(())
    })
}

/// Revokes a grant. Does nothing for a role without it. A cell's role keeps the functions of readers, which cells have, too.
fn revoke(audience: Audience, role_name: Option<Name>) -> Result<(), ClaimsError> {
    let action = AdminAction::without_reason(audience.revoking())?;
    let Name(role_name) = role_name.ok_or(AdminError::NoRoleNamed)?;
    action.with("role_name", role_name.as_str()).perform(|call| {
        let role = role_called(call.connection, &role_name)?;
        ROLE_TABLES.of(call).lock_grants(call.connection)?;
        ROLE_TABLES.of(call).revoke_select(call.connection, audience.relations(), role, &role_name);
        ROLE_TABLES.of(call).change_grants(call.connection, &role_name, audience.names(), false);
        if ROLE_TABLES.of(call).has_cells(call.connection, role) {
            ROLE_TABLES.of(call).change_grants(call.connection, &role_name, &["reader", "cell"], true);
        }
        Ok(())
    })
}

pub fn has(connection: &Connection, audience: Audience, role: Oid) -> bool {
    statements::can_read(connection, audience.relations()[0], role)
}

pub fn role_called(connection: &Connection, name: &str) -> Result<Oid, ClaimsError> {
    statements::role_called(connection, name).ok_or_else(|| AdminError::UnknownRole { name: name.to_owned() }.into())
}
