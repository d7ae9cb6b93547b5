//! Statements on distributed names: those that change the profile of a bucket type, and those on reserved names. A name whose
//! canonical form changes moves to another shard, so its rows are deleted and inserted again with the new name. Reserved names
//! are written one by one, each in its shard.

use std::collections::HashMap;

use claims_model::{Bucket, NOBODY};
use pgrx::Uuid as PgUuid;
use uuid::Uuid;

use super::door::Citus;
use super::transfer_locations;
use crate::tables::door::NameTables;
use crate::tables::rows::claims::HeldFor;
use crate::tables::rows::names::{PORTION, Renamed, Renaming, Reserved, ReservedBy, Stored};
use pg::clock::Moment;
use pg::spi::{Connection, Row, Value, View};
use pg::statement::shared_statement;
use pg::uuid::{from_pg_uuid, pg_uuid};

shared_statement! {
    /// Changes nothing. A trigger on each node locks out transactions that write names whose profile can change, and waits for
    /// them.
    LOCK(INT4OID) = "UPDATE claims.bucket_types SET profile = profile WHERE id = $1";
    TAKE_OUT(INT4OID, TEXTARRAYOID) =
        "DELETE FROM claims.claims c WHERE c.bucket_type = $1 AND c.bucket_value = ANY ($2)
         RETURNING c.bucket_value, c.uuid, c.subject_type, c.subject_id, c.source_type, c.source_id, c.creator_id, c.lease_uuid, c.status,
                   c.created_at, c.updated_at";
    TAKE_OUT_RESERVED(INT4OID, TEXTARRAYOID) =
        "DELETE FROM claims.reservations r WHERE r.bucket_type = $1 AND r.bucket_value = ANY ($2)
         RETURNING r.bucket_value, r.reason, r.reserved_by, r.reserved_at";
    HOLD_ONE(INT4OID, UUIDOID, TEXTOID, TEXTOID, TIMESTAMPTZOID) =
        "INSERT INTO claims.claims (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id,
                                    creator_id, status, created_at, updated_at, display_value)
         VALUES ($2, $1, $3, 0, '0', 0, '0', -1, 1, $5, $5, $4)";
    RESERVE_ONE(INT4OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TIMESTAMPTZOID) =
        "INSERT INTO claims.reservations (bucket_type, bucket_value, display_value, reason, reserved_by, reserved_at)
         VALUES ($1, $2, $3, $4, $5, $6)";
}

const NAMES: &str =
    "SELECT c.bucket_value, c.display_value, c.creator_id, c.status <> 1, CASE WHEN c.status = 4 THEN c.lease_uuid END
                       FROM claims.claims c WHERE c.bucket_type = $1";

/// Number of rows that one statement inserts.
const ROWS: usize = 200;

impl NameTables for Citus {
    fn lock_names(&self, connection: &Connection, bucket_type: i32) {
        connection.run(&LOCK, View::Statement, [bucket_type.into()]);
    }

    fn each_name(&self, connection: &Connection, bucket_type: i32, each: &mut dyn FnMut(Stored)) {
        let at: HashMap<Uuid, i64> = transfer_locations::all_locations(connection)
            .into_iter()
            .map(|location| (location.transfer, location.cell_id))
            .collect();
        connection.stream(NAMES, [bucket_type.into()], false, |row: Row| {
            let transfer = row.get::<PgUuid>(5).map(from_pg_uuid);
            let cell_id = transfer.and_then(|transfer| at.get(&transfer).copied()).unwrap_or_else(|| row.must(3));
            each(Stored { value: row.must(1), display: row.get(2), cell_id, is_leased: row.must(4) });
        });
    }

    fn rename(&self, connection: &Connection, bucket_type: i32, renamings: &[Renaming], _tells: bool) -> Vec<Renamed> {
        let by_old: HashMap<&str, &Renaming> = renamings.iter().map(|one| (one.old.as_str(), one)).collect();
        let (mut claims, mut reserved): (Vec<DeletedRow>, Vec<DeletedRow>) = Default::default();
        let mut renamed = Vec::new();
        let bucket = |value: &str| Bucket { bucket_type, value: value.to_owned().into() };
        for portion in renamings.chunks(PORTION) {
            let values = || [bucket_type.into(), portion.iter().map(|one| one.old.as_str()).collect::<Vec<_>>().into()];
            let taken_out = connection.run(&TAKE_OUT, View::Statement, values());
            claims.extend(taken_out.map(|row| {
                let (old, cell_id): (String, i64) = (row.must(1), row.must(7));
                // A reserved name has no owner, and a claim that is being created has none yet.
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

    fn reserve(&self, connection: &Connection, bucket_type: i32, names: &[&Reserved], reserved_by: &ReservedBy) {
        names.iter().for_each(|name| reserve_one(connection, bucket_type, name, reserved_by));
    }
}

/// A deleted row: its name, and its other columns for inserting it again.
type DeletedRow = (String, Vec<Value>);

fn claim(row: Row) -> DeletedRow {
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

fn reservation(row: Row) -> DeletedRow {
    let values = vec![row.must::<String>(2).into(), row.must::<String>(3).into(), row.must::<Moment>(4).into()];
    (row.must(1), values)
}

/// Inserts rows again under their new names.
fn put_back(
    connection: &Connection,
    bucket_type: i32,
    table: &str,
    columns: &str,
    rows: Vec<DeletedRow>,
    by_old: &HashMap<&str, &Renaming>,
) {
    let width = 2 + columns.split(", ").count();
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let part: Vec<DeletedRow> = rows.by_ref().take(ROWS).collect();
        let row = |nth: usize| {
            let parameters: Vec<_> = (0..width).map(|column| format!("${}", 2 + nth * width + column)).collect();
            format!("($1, {})", parameters.join(", "))
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

fn reserve_one(connection: &Connection, bucket_type: i32, name: &Reserved, reserved_by: &ReservedBy) {
    let (now, value, display) = (Moment::now(), &*name.bucket.value, name.display.as_deref());
    let claim_values = [bucket_type.into(), pg_uuid(Uuid::now_v7()).into(), value.into(), display.into(), now.into()];
    connection.run(&HOLD_ONE, View::Statement, claim_values);
    let reservation_values = [
        bucket_type.into(),
        value.into(),
        display.into(),
        reserved_by.reason.into(),
        reserved_by.role.into(),
        now.into(),
    ];
    connection.run(&RESERVE_ONE, View::Statement, reservation_values);
}
