//! Statements by which the profile of a bucket type is changed where the tables are spread over the nodes of a Citus cluster. A name that
//! becomes another one moves to another shard: its rows are deleted, and put in again as they were but for their names.

use std::collections::HashMap;

use claims_model::lookalike::Look;
use claims_model::{Bucket, NOBODY};
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use super::transfers;
use crate::pg::clock::Moment;
use crate::pg::spi::{Connection, Row, Value, View};
use crate::pg::statement::shared_statement;
use crate::pg::uuid::{from_pg_uuid, pg_uuid};
use crate::store::service::claims::HeldFor;
use crate::store::service::name_rows::{PORTION, Renaming, Stored};

shared_statement! {
    /// Changes nothing: a trigger on each node keeps out whoever writes names whose profile can change, and waits for those who do.
    LOCK(INT4OID) = "UPDATE claims.bucket_types SET profile = profile WHERE id = $1";
    TAKE_OUT(INT4OID, TEXTARRAYOID) =
        "DELETE FROM claims.claims c WHERE c.bucket_type = $1 AND c.bucket_value = ANY ($2)
         RETURNING c.bucket_value, c.uuid, c.subject_type, c.subject_id, c.source_type, c.source_id, c.creator_id, c.lease_uuid, c.status,
                   c.created_at, c.updated_at";
    TAKE_OUT_RESERVED(INT4OID, TEXTARRAYOID) =
        "DELETE FROM claims.reservations r WHERE r.bucket_type = $1 AND r.bucket_value = ANY ($2)
         RETURNING r.bucket_value, r.reason, r.reserved_by, r.reserved_at";
}

const NAMES: &str =
    "SELECT c.bucket_value, c.display_value, c.creator_id, c.status <> 1, CASE WHEN c.status = 4 THEN c.lease_uuid END
                       FROM claims.claims c WHERE c.bucket_type = $1";

/// Rows that one statement puts in.
const ROWS: usize = 200;

pub fn lock(connection: &Connection, bucket_type: i32) {
    connection.run(&LOCK, View::Statement, [bucket_type.into()]);
}

/// Hands over all names of a type, as they are right now, in no order.
pub fn each_name(connection: &Connection, bucket_type: i32, mut each: impl FnMut(Stored)) {
    let at: HashMap<Uuid, i64> =
        transfers::all_places(connection).into_iter().map(|place| (place.transfer, place.cell_id)).collect();
    connection.stream(NAMES, [bucket_type.into()], false, |row: Row| {
        let transfer = row.get::<PgUuid>(5).map(from_pg_uuid);
        let cell_id = transfer.and_then(|transfer| at.get(&transfer).copied()).unwrap_or_else(|| row.must(3));
        each(Stored { value: row.must(1), display: row.get(2), cell_id, is_leased: row.must(4) });
    });
}

/// A row that has been taken out: its name, and its other columns as they are put in again.
type Out = (String, Vec<Value>);

/// A name that was renamed, and the cell that owns it.
pub struct Renamed {
    pub cell_id: i64,
    pub old: Bucket<'static>,
    pub new: Bucket<'static>,
}

/// Renames claims, and what is reserved; returns those that cells own. All are taken out before the first is put in: a name may become what
/// another one was.
pub fn rename(connection: &Connection, bucket_type: i32, renamings: &[Renaming]) -> Vec<Renamed> {
    let by_old: HashMap<&str, &Renaming> = renamings.iter().map(|one| (one.old.as_str(), one)).collect();
    let (mut claims, mut reserved): (Vec<Out>, Vec<Out>) = Default::default();
    let mut renamed = Vec::new();
    let bucket = |value: &str| Bucket { bucket_type, value: value.to_owned().into() };
    for portion in renamings.chunks(PORTION) {
        let values = || [bucket_type.into(), portion.iter().map(|one| one.old.as_str()).collect::<Vec<_>>().into()];
        let taken_out = connection.run(&TAKE_OUT, View::Statement, values());
        claims.extend(taken_out.map(|row| {
            let (old, cell_id): (String, i64) = (row.must(1), row.must(7));
            // What is reserved is nobody's, and what is being created not yet.
            let new = by_old
                .get(old.as_str())
                .filter(|_| cell_id != NOBODY && row.must::<i16>(9) != HeldFor::Creating as i16);
            renamed.extend(new.map(|one| Renamed { cell_id, old: bucket(&old), new: bucket(&one.new) }));
            claim(row)
        }));
        reserved.extend(connection.run(&TAKE_OUT_RESERVED, View::Statement, values()).map(reservation));
        pgrx::check_for_interrupts!();
    }
    let columns = "uuid, subject_type, subject_id, source_type, source_id, creator_id, lease_uuid, status, created_at, updated_at";
    put_back(connection, bucket_type, "claims", columns, claims, &by_old);
    put_back(connection, bucket_type, "reservations", "reason, reserved_by, reserved_at", reserved, &by_old);
    renamed
}

fn claim(row: Row) -> Out {
    let values = vec![
        row.must::<PgUuid>(2).into(),
        row.must::<i32>(3).into(),
        row.must::<String>(4).into(),
        row.must::<i32>(5).into(),
        row.must::<String>(6).into(),
        row.must::<i64>(7).into(),
        row.get::<PgUuid>(8).into(),
        row.must::<i16>(9).into(),
        row.must::<Moment>(10).into(),
        row.must::<Moment>(11).into(),
    ];
    (row.must(1), values)
}

fn reservation(row: Row) -> Out {
    let values = vec![row.must::<String>(2).into(), row.must::<String>(3).into(), row.must::<Moment>(4).into()];
    (row.must(1), values)
}

/// Puts rows in again by their new names.
fn put_back(
    connection: &Connection,
    bucket_type: i32,
    table: &str,
    columns: &str,
    rows: Vec<Out>,
    by_old: &HashMap<&str, &Renaming>,
) {
    let width = 2 + columns.split(", ").count();
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let part: Vec<Out> = rows.by_ref().take(ROWS).collect();
        let row = |nth: usize| {
            let places: Vec<_> = (0..width).map(|column| format!("${}", 2 + nth * width + column)).collect();
            format!("($1, {})", places.join(", "))
        };
        let text = format!(
            "INSERT INTO claims.{table} (bucket_type, bucket_value, display_value, {columns}) VALUES {}",
            (0..part.len()).map(row).collect::<Vec<_>>().join(", ")
        );
        let values = part.into_iter().flat_map(|(old, values)| {
            let becomes = by_old.get(old.as_str());
            let name: Value = becomes.map_or(old.as_str(), |one| one.new.as_str()).into();
            let display: Value = becomes.and_then(|one| one.display.as_deref()).into();
            [name, display].into_iter().chain(values)
        });
        connection.run_text(&text, [bucket_type.into()].into_iter().chain(values));
    }
}

/// Takes those of the looks that no name has.
pub fn take_free(connection: &Connection, looks: &[(Look, &Bucket)]) {
    for part in looks.chunks(ROWS) {
        let row = |nth: usize| format!("(${}, ${}, ${})", 3 * nth + 1, 3 * nth + 2, 3 * nth + 3);
        let text = format!(
            "INSERT INTO claims.skeletons (skeleton, bucket_type, bucket_value) VALUES {} ON CONFLICT DO NOTHING",
            (0..part.len()).map(row).collect::<Vec<_>>().join(", ")
        );
        let values = part.iter().flat_map(|(look, bucket)| -> [Value; 3] {
            [pg_uuid(look.skeleton).into(), look.bucket_type.into(), (&*bucket.value).into()]
        });
        connection.run_text(&text, values);
    }
}
