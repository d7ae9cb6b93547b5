//! Conversion between the uuids of Rust and of PostgreSQL.

use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use super::value::Value;

pub fn pg_uuid(uuid: Uuid) -> PgUuid {
    PgUuid::from_bytes(*uuid.as_bytes())
}

pub fn from_pg_uuid(uuid: PgUuid) -> Uuid {
    Uuid::from_bytes(*uuid.as_bytes())
}

pub fn pg_uuids(uuids: impl IntoIterator<Item = Uuid>) -> Value {
    uuids.into_iter().map(pg_uuid).collect::<Vec<_>>().into()
}
