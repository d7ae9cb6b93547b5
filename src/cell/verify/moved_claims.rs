//! Claims that a service has although their bucket type belongs to another service: the type has gone from one to the other.
//!
//! A row needs such a claim, but at the other service. It is corrected here, and so given up, only once this cell has it there.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::Duration;

use serde_json::json;
use uuid::Uuid;

use crate::cell::client::Service;
use crate::kernel::error::ClaimsError;
use pg::spi::Connection;

/// Timeout of a call to the other service. The rows are locked meanwhile.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of buckets in a call. The answer has at most 16 MiB: 500 of the largest records fit.
const PORTION: usize = 500;

/// A claim that a row needs at another service.
pub struct MovedClaim {
    pub bucket_type: String,
    pub bucket_value: String,
    /// The uuid of the claim at the service that is verified.
    pub uuid: Uuid,
    /// The other service.
    pub service: Rc<str>,
}

/// Returns the uuids of those claims that the cell has at the other service, too. If that cannot be asked, it has none there. Two foreign
/// servers may lead to one service: the claim itself, found there, is no second one.
pub fn owned(connection: &Connection, cell_id: i64, moved: &[MovedClaim]) -> Vec<Uuid> {
    let mut by_service: BTreeMap<&str, Vec<&MovedClaim>> = BTreeMap::new();
    for claim in moved {
        by_service.entry(&*claim.service).or_default().push(claim);
    }
    let mut uuids = Vec::new();
    for (service, claims) in by_service {
        for portion in claims.chunks(PORTION) {
            let owned = owned_at(connection, cell_id, service, portion).unwrap_or_default();
            let is_owned = |claim: &&&MovedClaim| {
                let there = owned.get(&(claim.bucket_type.clone(), claim.bucket_value.clone()));
                there.is_some_and(|there| *there != claim.uuid)
            };
            uuids.extend(portion.iter().filter(is_owned).map(|claim| claim.uuid));
        }
    }
    uuids
}

/// Returns the claims that the cell owns at a service: type and value of the bucket, and the uuid of the claim.
fn owned_at(
    connection: &Connection,
    cell_id: i64,
    service: &str,
    claims: &[&MovedClaim],
) -> Result<HashMap<(String, String), Uuid>, ClaimsError> {
    let bucket = |claim: &&MovedClaim| json!({"type": claim.bucket_type, "value": claim.bucket_value});
    let buckets = json!(claims.iter().map(bucket).collect::<Vec<_>>()).to_string();
    let records = Service::new(connection, service, cell_id)?.records(&buckets, ANSWER_TIMEOUT)?;
    let own = records.into_iter().filter(|record| record.cell_id == cell_id && record.status.0 == "ACTIVE");
    Ok(own.filter_map(|record| Some(((record.bucket_type?, record.bucket_value), record.uuid))).collect())
}
