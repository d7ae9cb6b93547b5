//! `distribute`: distributes the tables of the service over the nodes of a Citus cluster, once.

use claims_model::{BadInput, Problem};

use super::errors::{DistributeError, notice_of_distributing};
use super::{catalog, distribute as store, extension, feed, layout};
use crate::kernel::admin_action::AdminAction;
use crate::kernel::call::Call;
use crate::kernel::error::ClaimsError;
use crate::service::admin::ROLE_TABLES;
use pg::compatibility;
use pg::prelude::*;

/// Maximum number of shards of a table.
const MAX_SHARDS: i32 = 64_000;
const SHARDS_PER_NODE: i32 = 4;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn distribute(
    shards: default!(Option<i32>, "NULL"),
    reason: default!(Option<String>, "NULL"),
) -> Result<i32, ErrorReport> {
    Ok(distribute_tables(shards, reason)?)
}

fn distribute_tables(shards: Option<i32>, reason: Option<String>) -> Result<i32, ClaimsError> {
    compatibility::require();
    let action = AdminAction::begin("distribute", reason)?;
    if shards.is_some_and(|shards| !(1..=MAX_SHARDS).contains(&shards)) {
        return Err(BadInput::new("shards", Problem::OutOfRange { allowed: "1 to 64000" }).into());
    }
    if catalog::catalogs().is_empty() {
        return Err(DistributeError::NoCitus.into());
    }
    let is_distributed = layout::check_tables()?;
    if is_distributed {
        return Err(DistributeError::Already.into());
    }
    action.with("shards", shards).perform(|call| {
        if let Some(owner) = store::owner_without_login(call.connection) {
            return Err(DistributeError::OwnerCannotLogIn { owner }.into());
        }
        if let Some(store::NodeAnswer { node, result, .. }) = store::unreachable_node(call.connection) {
            return Err(DistributeError::Unreachable { node, message: result.unwrap_or_default() }.into());
        }
        if let Some(what) = store::in_use(call.connection) {
            return Err(DistributeError::InUse { what }.into());
        }
        extension::hand_over(call.connection)?;
        let shards = shards.unwrap_or_else(|| SHARDS_PER_NODE * store::nodes(call.connection).unwrap_or(1).max(1));
        store::distribute_tables(call.connection, shards, |step| {
            notice_of_distributing(step.table, step.number, step.of, &step.size)
        });
        // Chosen again: the tables are distributed now. Citus has installed the extension on the other nodes, without any grants.
        let roles = ROLE_TABLES.of(&Call::over(call.connection));
        roles.lock_grants(call.connection)?;
        roles.refresh_grants(call.connection);
        // The feed is now stored on another node, where transaction ids of this node mean nothing.
        feed::era(call.connection);
        Ok(shards)
    })
}
