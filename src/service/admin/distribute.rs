//! `distribute`: spreads the tables of the service over the nodes of a Citus cluster, once.

use claims_model::{BadInput, Problem};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::acts::Act;
use crate::distribution::{self, Whereabouts};
use crate::error::{ClaimsError, DistributionError, notice_of_spreading};
use crate::pg::{citus, gate};
use crate::store::service::distributed::changes;
use crate::store::service::{distribution as store, grants};

/// The most shards that a table may have.
const MAX_SHARDS: i32 = 64_000;
const SHARDS_PER_NODE: i32 = 4;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn distribute(
    shards: default!(Option<i32>, "NULL"),
    reason: default!(Option<String>, "NULL"),
) -> Result<i32, ErrorReport> {
    Ok(spread(shards, reason)?)
}

fn spread(shards: Option<i32>, reason: Option<String>) -> Result<i32, ClaimsError> {
    gate::pass();
    let act = Act::begin("distribute", reason)?;
    if shards.is_some_and(|shards| !(1..=MAX_SHARDS).contains(&shards)) {
        return Err(BadInput::new("shards", Problem::OutOfRange { allowed: "1 to 64000" }).into());
    }
    if citus::catalogs().is_empty() {
        return Err(DistributionError::NoCitus.into());
    }
    if distribution::look()? == Whereabouts::Spread {
        return Err(DistributionError::Already.into());
    }
    act.with("shards", shards).perform(|connection| {
        if let Some(owner) = store::owner_without_login(connection) {
            return Err(DistributionError::OwnerCannotLogIn { owner }.into());
        }
        if let Some((node, message)) = store::unreachable_node(connection) {
            return Err(DistributionError::Unreachable { node, message }.into());
        }
        if let Some(what) = store::in_use(connection) {
            return Err(DistributionError::InUse { what }.into());
        }
        let shards = shards.unwrap_or_else(|| SHARDS_PER_NODE * store::nodes(connection).max(1));
        store::spread(connection, shards, |step| notice_of_spreading(step.table, step.number, step.of, &step.size));
        // From here on as every call from now on. Citus has installed the extension on the other nodes, without any grants.
        gate::pass();
        grants::refresh(connection);
        // Transactions of this node mean nothing on the one that keeps the feed now.
        changes::era(connection);
        Ok(shards)
    })
}
