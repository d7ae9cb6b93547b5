//! Conversion between the uuids of Rust and of PostgreSQL.

use pgrx::Uuid as PgUuid;
use uuid::Uuid;

pub fn pg_uuid(uuid: Uuid) -> PgUuid {
    PgUuid::from_bytes(*uuid.as_bytes())
}

pub fn from_pg_uuid(uuid: PgUuid) -> Uuid {
    Uuid::from_bytes(*uuid.as_bytes())
}
