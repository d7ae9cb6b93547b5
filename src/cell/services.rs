//! `add_service` and `remove_service`: choose the foreign servers of other wrappers that are services.
//!
//! A role that may act for a cell can have any service called, but chooses neither the statement nor the remote role. On a server that
//! was made for another purpose the statement could call functions which that server's users have created. So only the owner of a
//! server can make it a service.

use super::client;
use super::client::servers::Server;
use super::errors::{CellError, notice_of_own_wrapper};
use crate::kernel::admin_action::AdminAction;
use crate::kernel::arguments::required;
use crate::kernel::error::ClaimsError;
use crate::triggers::named_services;
use pg::name::Name;
use pg::prelude::*;
use pg::roles;
use pg::spi::{self, Connection};

::pgrx::extension_sql_file!(
    "../../sql/install/cell/services.sql",
    name = "services",
    requires = ["admin", cell::services::add_service, cell::services::remove_service]
);

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn add_service(server_name: Option<Name>, reason: Option<String>) -> Result<(), ErrorReport> {
    Ok(add(server_name, reason)?)
}

fn add(server_name: Option<Name>, reason: Option<String>) -> Result<(), ClaimsError> {
    let action = AdminAction::begin("add_service", reason)?;
    let Name(server) = required(server_name, "server_name")?;
    let found = spi::connect(|connection| client::can_be_one(connection, &server))?;
    must_own(&server, &found)?;
    if client::is_of_own_wrapper(&found) {
        notice_of_own_wrapper(&server);
        return Ok(());
    }
    name(action, &server)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn remove_service(server_name: Option<Name>, reason: Option<String>) -> Result<(), ErrorReport> {
    Ok(remove(server_name, reason)?)
}

fn remove(server_name: Option<Name>, reason: Option<String>) -> Result<(), ClaimsError> {
    let action = AdminAction::begin("remove_service", reason)?;
    let Name(server) = required(server_name, "server_name")?;
    action.with("server_name", server.as_str()).perform(|call| {
        must_be_unused(call.connection, &server)?;
        if named_services::remove(call.connection, &server) {
            Ok(())
        } else {
            Err(CellError::NotNamedYet { server }.into())
        }
    })
}

/// Raises an error unless a server is a service. An administrator who owns the server makes it one by this call.
pub fn admit(server: &str) -> Result<(), ClaimsError> {
    let found = spi::connect(|connection| client::can_be_one(connection, server))?;
    if client::is_one(&found) {
        return Ok(());
    }
    if !roles::caller_is_admin() {
        return Err(CellError::NotNamed { server: server.to_owned(), wrapper: found.wrapper }.into());
    }
    must_own(server, &found)?;
    name(AdminAction::without_reason("add_service")?, server)
}

fn name(action: AdminAction, server: &str) -> Result<(), ClaimsError> {
    let (reason, role) = (action.reason().to_owned(), roles::name(roles::caller()));
    action.with("server_name", server).perform(|call| {
        let reason = Some(reason.as_str()).filter(|reason| !reason.is_empty());
        named_services::add(call.connection, server, reason, &role);
        Ok(())
    })
}

fn must_own(server: &str, found: &Server) -> Result<(), ClaimsError> {
    let caller = roles::caller();
    if roles::has_privileges_of(caller, found.owner) {
        return Ok(());
    }
    let [owner, caller] = [found.owner, caller].map(roles::name);
    Err(CellError::NotOwnServer { server: server.to_owned(), owner, caller }.into())
}

fn must_be_unused(connection: &Connection, server: &str) -> Result<(), ClaimsError> {
    let users = named_services::users(connection, server);
    if users.is_empty() {
        return Ok(());
    }
    Err(CellError::ServiceInUse { server: server.to_owned(), users: users.join(", ") }.into())
}
