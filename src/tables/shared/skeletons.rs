//! Statements on skeletons that work for local and distributed tables.

use std::collections::HashMap;
use std::ffi::CStr;

use claims_model::Bucket;
use claims_model::lookalike::Skeleton;

use crate::tables::rows::known_or_raised;
use crate::tables::rows::skeletons::Bearers;
use pg::in_flight::{self, FoundRow};
use pg::index::{KeyPart, KeyValue};
use pg::spi::{Connection, View};
use pg::statement::shared_statement;
use pg::table::TableRow;
use pg::uuid::{from_pg_uuid, pg_uuid, pg_uuids};

shared_statement! {
    BEARERS(UUIDARRAYOID) =
        "SELECT s.bucket_type, s.skeleton, s.bucket_value, s.successor, s.reserved <> '' FROM claims.skeletons s WHERE s.skeleton = ANY ($1)";
}

/// Returns the names that have skeletons, as committed now. Takes no locks.
pub fn bearers(connection: &Connection, skeletons: &[Skeleton]) -> HashMap<Skeleton, Bearers> {
    let rows = connection.run(&BEARERS, View::Latest, [pg_uuids(skeletons.iter().map(|skeleton| skeleton.hash))]);
    let mut found: HashMap<Skeleton, Bearers> = HashMap::new();
    rows.map(|row| {
        let bucket_type: i32 = row.must(1);
        let bucket = |value: String| Bucket { bucket_type, value: value.into() };
        let bearers = found.entry(Skeleton { bucket_type, hash: from_pg_uuid(row.must(2)) }).or_default();
        let name = bucket(row.must(3));
        if row.must(5) {
            bearers.reserved.push(name);
        } else {
            (bearers.bearer, bearers.successor) = (Some(name), row.get::<String>(4).map(bucket));
        }
    });
    found
}

/// Returns whether a name with this skeleton is reserved now, under every isolation level, by the rows in a table, which is
/// `skeletons` or one of its shards. A reservation that another open transaction is making or ending counts, or is waited for. A
/// begin calls this after it has taken the skeleton: a reservation that it does not see comes later, and finds its claim.
pub fn is_reserved_in(table: &CStr, skeleton: Skeleton, waits: bool) -> bool {
    let is_reservation = |row: &TableRow| !row.must::<String>(c"reserved").is_empty();
    loop {
        match known_or_raised(in_flight::find_row(table, &key(skeleton), is_reservation), INDEX) {
            FoundRow::None => return false,
            FoundRow::WrittenBy(writer) if waits => writer.wait(),
            FoundRow::Row | FoundRow::WrittenBy(_) => return true,
        }
    }
}

/// Returns whether another open transaction has written or locked a skeleton, by its rows in a table, which is `skeletons` or one
/// of its shards.
pub fn is_in_flight_in(table: &CStr, skeleton: Skeleton) -> bool {
    known_or_raised(in_flight::is_any_in_flight(table, &key(skeleton)), INDEX)
}

const INDEX: &str = "claims.skeletons (skeleton, bucket_type, reserved)";

/// Returns the key that all rows of a skeleton share: the first columns of the primary key.
fn key(skeleton: Skeleton) -> [KeyPart<'static>; 2] {
    [
        KeyPart { column: c"skeleton", value: KeyValue::Uuid(pg_uuid(skeleton.hash)) },
        KeyPart { column: c"bucket_type", value: KeyValue::Int4(skeleton.bucket_type) },
    ]
}
