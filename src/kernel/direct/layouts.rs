//! The layouts of the tables that every lease reads or writes, and every automatic save, for reading and writing them without statements.

use pgrx::pg_sys::{
    BOOLOID, BYTEAOID, INETOID, INT2OID, INT4ARRAYOID, INT4OID, INT8ARRAYOID, INT8OID, JSONBOID, NAMEOID, Oid,
    TEXTARRAYOID, TEXTOID, TIMESTAMPTZOID, UUIDOID, XID8OID,
};

use pg::direct::{ColumnLayout, Identity, IndexKey, IndexLayout, Layout};

const fn must(name: &'static std::ffi::CStr, type_oid: Oid) -> ColumnLayout {
    ColumnLayout { name, type_oid, is_not_null: true, identity: Identity::No }
}

const fn may(name: &'static std::ffi::CStr, type_oid: Oid) -> ColumnLayout {
    ColumnLayout { name, type_oid, is_not_null: false, identity: Identity::No }
}

/// Columns of claims, by their positions in [`CLAIMS`].
pub mod claim {
    pub const UUID: usize = 0;
    pub const BUCKET_TYPE: usize = 1;
    pub const BUCKET_VALUE: usize = 2;
    pub const SUBJECT_TYPE: usize = 3;
    pub const SUBJECT_ID: usize = 4;
    pub const SOURCE_TYPE: usize = 5;
    pub const SOURCE_ID: usize = 6;
    pub const CREATOR_ID: usize = 7;
    pub const LEASE_UUID: usize = 8;
    pub const STATUS: usize = 9;
    pub const CREATED_AT: usize = 10;
    pub const UPDATED_AT: usize = 11;
    pub const DISPLAY_VALUE: usize = 12;
    pub const GIVEN_UP_BY: usize = 13;
    pub const AVAILABLE_AT: usize = 14;
}

pub static CLAIMS: Layout = Layout {
    name: c"claims",
    columns: &[
        must(c"uuid", UUIDOID),
        must(c"bucket_type", INT4OID),
        must(c"bucket_value", TEXTOID),
        must(c"subject_type", INT4OID),
        must(c"subject_id", TEXTOID),
        must(c"source_type", INT4OID),
        must(c"source_id", TEXTOID),
        must(c"creator_id", INT8OID),
        may(c"lease_uuid", UUIDOID),
        must(c"status", INT2OID),
        must(c"created_at", TIMESTAMPTZOID),
        must(c"updated_at", TIMESTAMPTZOID),
        may(c"display_value", TEXTOID),
        may(c"given_up_by", INT8OID),
        may(c"available_at", TIMESTAMPTZOID),
    ],
    indexes: &[
        IndexLayout::unique(&[IndexKey::Column(claim::BUCKET_VALUE), IndexKey::Column(claim::BUCKET_TYPE)]),
        IndexLayout::of(&[
            IndexKey::Column(claim::CREATOR_ID),
            IndexKey::Column(claim::SOURCE_TYPE),
            IndexKey::LengthOf(claim::SOURCE_ID),
            IndexKey::Column(claim::SOURCE_ID),
        ]),
    ],
    may_have_more_indexes: false,
};

/// Columns of leases, by their positions in [`LEASES`].
pub mod lease {
    pub const UUID: usize = 0;
    pub const CREATOR_ID: usize = 1;
    pub const PAYLOAD: usize = 2;
    pub const CREATED_AT: usize = 3;
    pub const REQUEST_DIGEST: usize = 5;
    pub const CONTEXT: usize = 7;
    pub const CELL_ROLE: usize = 8;
}

/// The index of leases by cell and time, by its position in [`LEASES`].
pub const LEASES_OF_CELL: usize = 1;

pub static LEASES: Layout = Layout {
    name: c"claim_leases",
    columns: &[
        must(c"uuid", UUIDOID),
        must(c"creator_id", INT8OID),
        must(c"payload", JSONBOID),
        must(c"created_at", TIMESTAMPTZOID),
        must(c"updated_at", TIMESTAMPTZOID),
        may(c"request_digest", BYTEAOID),
        may(c"cell_xid", XID8OID),
        may(c"context", TEXTOID),
        may(c"cell_role", TEXTOID),
    ],
    indexes: &[
        IndexLayout::unique(&[IndexKey::Column(lease::UUID)]),
        IndexLayout::of(&[IndexKey::Column(lease::CREATOR_ID), IndexKey::Column(lease::CREATED_AT)]),
    ],
    may_have_more_indexes: false,
};

/// Columns of outcomes, by their positions in [`OUTCOMES`].
pub mod outcome {
    pub const LEASE_UUID: usize = 0;
    pub const SETTLED_AT: usize = 4;
}

pub static OUTCOMES: Layout = Layout {
    name: c"lease_outcomes",
    columns: &[
        must(c"lease_uuid", UUIDOID),
        must(c"creator_id", INT8OID),
        must(c"outcome", TEXTOID),
        may(c"request_digest", BYTEAOID),
        must(c"settled_at", TIMESTAMPTZOID),
    ],
    indexes: &[
        IndexLayout::unique(&[IndexKey::Column(outcome::LEASE_UUID)]),
        IndexLayout::of(&[IndexKey::Column(outcome::SETTLED_AT)]),
    ],
    may_have_more_indexes: false,
};

/// Columns of epochs, by their positions in [`EPOCHS`].
pub mod epoch {
    pub const CELL_ID: usize = 0;
    pub const EPOCH: usize = 1;
    pub const PLACE: usize = 3;
    pub const ACTED_AT: usize = 7;
}

pub static EPOCHS: Layout = Layout {
    name: c"cell_epochs",
    columns: &[
        must(c"cell_id", INT8OID),
        must(c"epoch", INT8OID),
        must(c"presented_at", TIMESTAMPTZOID),
        may(c"place", INT8OID),
        may(c"lineage", INT8OID),
        may(c"timeline", INT4OID),
        may(c"address", TEXTOID),
        may(c"acted_at", TIMESTAMPTZOID),
    ],
    indexes: &[IndexLayout::unique(&[IndexKey::Column(epoch::CELL_ID)])],
    may_have_more_indexes: false,
};

/// The change feed. Administrators may index it by bucket. Then it is written with statements.
pub static CHANGE_SETS: Layout = Layout {
    name: c"change_sets",
    columns: &[
        must(c"xid", XID8OID),
        ColumnLayout { identity: Identity::ByDefault, ..must(c"id", INT8OID) },
        must(c"at", TIMESTAMPTZOID),
        must(c"op", TEXTOID),
        may(c"old_cell_id", INT8OID),
        may(c"new_cell_id", INT8OID),
        may(c"lease_uuid", UUIDOID),
        must(c"actor", NAMEOID),
        must(c"bucket_types", INT4ARRAYOID),
        must(c"bucket_values", TEXTARRAYOID),
        may(c"era", INT4OID),
        may(c"two_phase", TEXTOID),
        may(c"context", TEXTOID),
        may(c"cell_role", TEXTOID),
    ],
    indexes: &[IndexLayout::unique(&[IndexKey::Column(0), IndexKey::Column(1)])],
    may_have_more_indexes: true,
};

/// The audit log. Administrators may add indexes. Then it is written with statements.
pub static AUDIT_LOG: Layout = Layout {
    name: c"audit_log",
    columns: &[
        must(c"at", TIMESTAMPTZOID),
        must(c"id", INT8OID),
        may(c"cell_id", INT8OID),
        must(c"what", TEXTOID),
        may(c"lease_uuid", UUIDOID),
        must(c"session_role", TEXTOID),
        may(c"client_address", INETOID),
        must(c"application_name", TEXTOID),
        must(c"ops", TEXTARRAYOID),
        must(c"bucket_types", TEXTARRAYOID),
        must(c"bucket_values", TEXTARRAYOID),
        may(c"conflict", JSONBOID),
        may(c"subjects", TEXTARRAYOID),
        may(c"sources", TEXTARRAYOID),
        may(c"old_subjects", TEXTARRAYOID),
        may(c"old_sources", TEXTARRAYOID),
        may(c"context", TEXTOID),
        may(c"cell_role", TEXTOID),
        may(c"search_keys", INT8ARRAYOID),
        may(c"old_cell_id", INT8OID),
    ],
    indexes: &[
        IndexLayout::unique(&[IndexKey::Column(0), IndexKey::Column(1)]),
        IndexLayout::of(&[IndexKey::Elements(18)]),
    ],
    may_have_more_indexes: true,
};

/// Columns of tracked leases, by their positions in [`TRACKED_LEASES`].
pub mod tracked {
    pub const CELL_ID: usize = 3;
}

/// The tracked leases of a cell's database.
pub static TRACKED_LEASES: Layout = Layout {
    name: c"cells_outstanding_leases",
    columns: &[
        must(c"uuid", UUIDOID),
        must(c"created_at", TIMESTAMPTZOID),
        must(c"updated_at", TIMESTAMPTZOID),
        may(c"cell_id", INT8OID),
        may(c"service", TEXTOID),
    ],
    indexes: &[IndexLayout::unique(&[IndexKey::Column(0)])],
    may_have_more_indexes: false,
};

/// The fences of a cell's database, which are only read without statements.
pub static FENCES: Layout = Layout {
    name: c"lease_fences",
    columns: &[must(c"lease_uuid", UUIDOID), must(c"fenced_at", TIMESTAMPTZOID)],
    indexes: &[IndexLayout::unique(&[IndexKey::Column(0)]), IndexLayout::of(&[IndexKey::Column(1)])],
    may_have_more_indexes: true,
};

/// Columns of requests, by their positions in [`REQUESTS`].
pub mod request {
    pub const ID: usize = 0;
    pub const QUEUE: usize = 1;
    pub const ENTITY: usize = 2;
    pub const PROCESS_ID: usize = 5;
    pub const HOLD_UNTIL: usize = 11;
    pub const ENTERED_XID: usize = 14;
}

/// Indexes of requests, by their positions in [`REQUESTS`].
pub mod requests_index {
    pub const READY: usize = 2;
    pub const ENTERED: usize = 3;
    pub const HOLD: usize = 8;
    pub const HELD_SINCE: usize = 9;
    pub const HOLDER: usize = 10;
    pub const UNBLOCK: usize = 11;
}

const BY_ENTITY: &[IndexKey] =
    &[IndexKey::Column(request::QUEUE), IndexKey::Column(request::ENTITY), IndexKey::Column(request::ID)];
const OF_ENTITY: &[IndexKey] = &[IndexKey::Column(request::QUEUE), IndexKey::Column(request::ENTITY)];
const BY_ID: &[IndexKey] = &[IndexKey::Column(request::QUEUE), IndexKey::Column(request::ID)];

/// Requests. They are read without statements, and written with them.
pub static REQUESTS: Layout = Layout {
    name: c"requests",
    columns: &[
        ColumnLayout { identity: Identity::ByDefault, ..must(c"id", INT8OID) },
        must(c"queue", TEXTOID),
        must(c"entity", TEXTOID),
        must(c"request_type", TEXTOID),
        must(c"status", TEXTOID),
        may(c"process_id", UUIDOID),
        may(c"payload", JSONBOID),
        may(c"error", TEXTOID),
        must(c"attempts", INT4OID),
        must(c"created_at", TIMESTAMPTZOID),
        may(c"settled_at", TIMESTAMPTZOID),
        may(c"hold_until", TIMESTAMPTZOID),
        must(c"blocked", BOOLOID),
        must(c"unblock", BOOLOID),
        must(c"entered_xid", XID8OID),
    ],
    indexes: &[
        IndexLayout::unique(BY_ID),
        IndexLayout { is_unique: true, ..IndexLayout::partial(OF_ENTITY, c"(request_type = 'create'::text)") },
        IndexLayout::partial(BY_ID, c"((status = 'new'::text) AND (NOT blocked))"),
        IndexLayout::partial(
            &[IndexKey::Column(request::ENTERED_XID)],
            c"((settled_at IS NULL) AND (hold_until IS NULL) AND (NOT blocked))",
        ),
        IndexLayout::partial(BY_ENTITY, c"(status = ANY ('{new,in-progress}'::text[]))"),
        IndexLayout::partial(BY_ENTITY, c"(status = 'error'::text)"),
        IndexLayout::partial(BY_ENTITY, c"(settled_at IS NOT NULL)"),
        IndexLayout::partial(OF_ENTITY, c"(status = 'in-progress'::text)"),
        IndexLayout::partial(
            &[IndexKey::Column(request::QUEUE), IndexKey::Column(request::HOLD_UNTIL)],
            c"(hold_until IS NOT NULL)",
        ),
        IndexLayout::partial(&[IndexKey::Column(request::ENTERED_XID)], c"(hold_until IS NOT NULL)"),
        IndexLayout::partial(
            &[IndexKey::Column(request::PROCESS_ID), IndexKey::Column(request::HOLD_UNTIL)],
            c"(status = 'in-progress'::text)",
        ),
        IndexLayout::partial(BY_ID, c"unblock"),
    ],
    // Nothing is written without statements, and statements read what they need of the others.
    may_have_more_indexes: true,
};
