//! What runs in a cell's own database: tracked leases and their recovery, capture of claimed columns, verification, and
//! the way to the service.

pub mod attend;
pub mod capture;
pub mod client;
pub mod epoch;
pub mod recovery;
pub mod track;
pub mod verify;
pub mod wakeup;

use claims_model::{BadInput, Problem};
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use crate::error::ClaimsError;
use crate::pg::shared::Area;
use crate::pg::uuid::from_pg_uuid;

/// What lies in shared memory.
pub static AREAS: [&dyn Area; 2] = [&wakeup::POSTS, &client::states::SHARED];

/// Leases that one call may name.
const MAX_LEASES: usize = 100_000;

/// The uuids of an argument, which must not hold NULLs. NULL is what array_agg makes of nothing: no uuids.
fn uuids(list: Option<Vec<Option<PgUuid>>>, name: &str) -> Result<Vec<Uuid>, ClaimsError> {
    let list = list.unwrap_or_default();
    at_most(list.len(), MAX_LEASES, name)?;
    let uuid = |(index, lease): (usize, Option<PgUuid>)| {
        lease.map(from_pg_uuid).ok_or_else(|| BadInput::new(format!("{name}[{index}]"), Problem::Null).into())
    };
    list.into_iter().enumerate().map(uuid).collect()
}

fn at_most(got: usize, limit: usize, place: &str) -> Result<(), ClaimsError> {
    if got <= limit {
        Ok(())
    } else {
        Err(BadInput::new(place, Problem::TooMany { what: "leases", got, limit }).into())
    }
}
