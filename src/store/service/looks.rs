//! Statements on the looks of names, of types that refuse names that look alike: each look has one claim.

use std::collections::HashMap;
use std::ffi::CStr;

use claims_model::Bucket;
use claims_model::lookalike::{Look, NewLook};

use super::distributed::looks as distributed;
use super::known_or_raised;
use crate::distribution;
use crate::pg::in_flight;
use crate::pg::index::{KeyPart, KeyValue};
use crate::pg::spi::{Connection, Value, View};
use crate::pg::statement::{shared_statement, statement};
use crate::pg::uuid::{from_pg_uuid, pg_uuid, pg_uuids};

macro_rules! listed {
    ($columns:literal, $arrays:literal) => {
        concat!(
            "(SELECT * FROM unnest(",
            $arrays,
            ") AS n (",
            $columns,
            ") OFFSET 0) n WHERE s.skeleton = n.skeleton AND s.bucket_type = n.bucket_type"
        )
    };
}

statement! {
    TAKE(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID) =
        "INSERT INTO claims.skeletons (skeleton, bucket_type, bucket_value) SELECT * FROM unnest($1, $2, $3)";
    TAKE_FREE(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID) =
        "INSERT INTO claims.skeletons (skeleton, bucket_type, bucket_value) SELECT * FROM unnest($1, $2, $3) ON CONFLICT DO NOTHING";
    /// Names $4 are to have the looks of names $3 when their lease commits.
    PASS_ON(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID, TEXTARRAYOID) = concat!(
        "UPDATE claims.skeletons s SET successor = n.successor FROM ",
        listed!("skeleton, bucket_type, bucket_value, successor", "$1, $2, $3, $4"),
        " AND s.bucket_value = n.bucket_value AND s.successor IS NULL");
    /// Looks of names that nobody has claimed, or of name $3, which this transaction has just claimed: what is left where claims
    /// were deleted by hand.
    DROP_STALE(UUIDOID, INT4OID, TEXTOID) =
        "DELETE FROM claims.skeletons s
          WHERE s.skeleton = $1 AND s.bucket_type = $2
            AND NOT EXISTS (SELECT FROM claims.claims c
                             WHERE c.bucket_type = s.bucket_type AND c.bucket_value IN (s.bucket_value, s.successor)
                               AND c.bucket_value <> $3)";
    SUCCEED(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID) = concat!(
        "UPDATE claims.skeletons s SET bucket_value = s.successor, successor = NULL FROM ",
        listed!("skeleton, bucket_type, bucket_value", "$1, $2, $3"), " AND s.successor = n.bucket_value");
    STAY(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID) = concat!(
        "UPDATE claims.skeletons s SET successor = NULL FROM ",
        listed!("skeleton, bucket_type, bucket_value", "$1, $2, $3"), " AND s.successor = n.bucket_value");
    FREE(UUIDARRAYOID, INT4ARRAYOID, TEXTARRAYOID) = concat!(
        "DELETE FROM claims.skeletons s USING ",
        listed!("skeleton, bucket_type, bucket_value", "$1, $2, $3"), " AND s.bucket_value = n.bucket_value");
}

shared_statement! {
    STANDING(UUIDARRAYOID) =
        "SELECT s.bucket_type, s.skeleton, s.bucket_value, s.successor FROM claims.skeletons s WHERE s.skeleton = ANY ($1)";
}

fn arrays(looks: &[(Look, &Bucket)]) -> [Value; 3] {
    [
        pg_uuids(looks.iter().map(|(look, _)| look.skeleton)),
        looks.iter().map(|(look, _)| look.bucket_type).collect::<Vec<_>>().into(),
        looks.iter().map(|(_, bucket)| &*bucket.value).collect::<Vec<_>>().into(),
    ]
}

/// Takes looks for new names, or has names that are given up pass theirs on; returns how many. A look that another name has
/// is a unique violation.
pub fn take(connection: &Connection, looks: &[NewLook]) -> usize {
    let (passed_on, new): (Vec<&NewLook>, Vec<&NewLook>) = looks.iter().partition(|new| new.predecessor.is_some());
    let mut taken = 0;
    if !new.is_empty() {
        let new: Vec<_> = new.iter().map(|new| (new.look, new.bucket)).collect();
        taken += connection.run(&TAKE, View::Statement, arrays(&new)).count();
    }
    if !passed_on.is_empty() {
        let of = passed_on.iter().filter_map(|new| Some((new.look, new.predecessor?))).collect::<Vec<_>>();
        let successors: Vec<_> = passed_on.iter().map(|new| &*new.bucket.value).collect();
        let values = arrays(&of).into_iter().chain([successors.into()]);
        taken += connection.run(&PASS_ON, View::Statement, values).count();
    }
    taken
}

/// Takes those of the looks that no name has.
pub fn take_free(connection: &Connection, looks: &[(Look, &Bucket)]) {
    if distribution::is_spread() {
        looks.iter().for_each(|look| distributed::take_free(connection, look));
    } else if !looks.is_empty() {
        connection.run(&TAKE_FREE, View::Statement, arrays(looks));
    }
}

/// Frees a look, for a name that was just claimed, where no other name that has it is claimed.
pub fn drop_stale(connection: &Connection, new: &NewLook) {
    let look = new.look;
    let values: [Value; 3] = [pg_uuid(look.skeleton).into(), look.bucket_type.into(), (&*new.bucket.value).into()];
    connection.run(&DROP_STALE, View::Statement, values);
}

/// The names that have a look.
pub struct Bearers {
    pub bearer: Bucket<'static>,
    /// Is to have it when its lease commits.
    pub successor: Option<Bucket<'static>>,
}

/// Who has these looks right now.
pub fn standing(connection: &Connection, looks: &[Look]) -> HashMap<Look, Bearers> {
    let rows = connection.run(&STANDING, View::Latest, [pg_uuids(looks.iter().map(|look| look.skeleton))]);
    let bearers = rows.map(|row| {
        let bucket_type: i32 = row.must(1);
        let bucket = |value: String| Bucket { bucket_type, value: value.into() };
        let look = Look { bucket_type, skeleton: from_pg_uuid(row.must(2)) };
        (look, Bearers { bearer: bucket(row.must(3)), successor: row.get::<String>(4).map(bucket) })
    });
    bearers.into_iter().collect()
}

/// The lease of new names has committed: what was to be passed on is.
pub fn succeed(connection: &Connection, looks: &[(Look, &Bucket)]) {
    if !looks.is_empty() {
        connection.run(&SUCCEED, View::Statement, arrays(looks));
    }
}

/// The lease of new names was rolled back: who was to pass a look on keeps it.
pub fn stay(connection: &Connection, looks: &[(Look, &Bucket)]) {
    if !looks.is_empty() {
        connection.run(&STAY, View::Statement, arrays(looks));
    }
}

/// Frees the looks of names that are no claims any more.
pub fn free(connection: &Connection, looks: &[(Look, &Bucket)]) {
    if distribution::is_spread() {
        looks.iter().for_each(|look| distributed::free(connection, look));
    } else if !looks.is_empty() {
        connection.run(&FREE, View::Statement, arrays(looks));
    }
}

/// Whether another open transaction is at a look.
pub fn is_in_flight(look: Look) -> bool {
    is_in_flight_in(c"skeletons", look)
}

/// The same in a shard of the table.
pub fn is_in_flight_in(table: &CStr, look: Look) -> bool {
    let key = [
        KeyPart { column: c"skeleton", value: KeyValue::Uuid(pg_uuid(look.skeleton)) },
        KeyPart { column: c"bucket_type", value: KeyValue::Int4(look.bucket_type) },
    ];
    known_or_raised(in_flight::is_in_flight(table, &key), "claims.skeletons (skeleton, bucket_type)")
}
