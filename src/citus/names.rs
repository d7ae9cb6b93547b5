//! Statements on distributed names: those that change the profile of a bucket type, and those on reserved names. A name whose
//! canonical form changes moves to another shard, so its rows are deleted and inserted again with the new name. Reserved names
//! are written one by one, each in its shard.

use std::collections::HashMap;

use claims_model::{Bucket, NOBODY};
use uuid::Uuid;

use super::cluster::Citus;
use super::keys::by_shard;
use super::transfer_locations;
use crate::service::claims::statements::{ClaimOrigin, create_on_shard};
use crate::service::claims::{BucketRow, HeldFor, values_by_type};
use crate::service::names::{NameTables, PORTION, Renamed, Renaming, Reserved, ReservedBy, StoredName};
use pg::clock::Moment;
use pg::query::{query, record, scan};
use pg::spi::{Connection, Value};

record! {
    /// A deleted claim.
    struct ClaimRow {
        bucket_value: String,
        uuid: Uuid,
        subject_type: i32,
        subject_id: String,
        source_type: i32,
        source_id: String,
        creator_id: i64,
        lease_uuid: Option<Uuid>,
        status: i16,
        created_at: Moment,
        updated_at: Moment,
        given_up_by: Option<i64>,
        available_at: Option<Moment>,
    }

    /// A deleted reservation.
    struct ReservationRow { bucket_value: String, reason: String, reserved_by: String, reserved_at: Moment }

    struct NameRow {
        bucket_value: String,
        display_value: Option<String>,
        creator_id: i64,
        is_leased: bool,
        transfer: Option<Uuid>,
    }
}

query! {
    /// Changes nothing. A trigger on each node locks out transactions that write names whose profile can change, and waits for
    /// them.
    fn lock(bucket_type: i32) = [Statement Anywhere] "UPDATE claims.bucket_types SET profile = profile WHERE id = :bucket_type";
    fn take_out(bucket_type: i32, names: &[&str]) -> Vec<ClaimRow> = [Statement Anywhere]
        "DELETE FROM claims.claims c WHERE c.bucket_type = :bucket_type AND c.bucket_value = ANY (:names)
         RETURNING c.bucket_value, c.uuid, c.subject_type, c.subject_id, c.source_type, c.source_id, c.creator_id, c.lease_uuid, c.status,
                   c.created_at, c.updated_at, c.given_up_by, c.available_at";
    fn take_out_reserved(bucket_type: i32, names: &[&str]) -> Vec<ReservationRow> = [Statement Anywhere]
        "DELETE FROM claims.reservations r WHERE r.bucket_type = :bucket_type AND r.bucket_value = ANY (:names)
         RETURNING r.bucket_value, r.reason, r.reserved_by, r.reserved_at";
    fn over(now: Moment, most: i64) -> Vec<BucketRow> = [Latest Anywhere]
        "SELECT c.bucket_type, c.bucket_value FROM claims.claims c
          WHERE c.creator_id = -1 AND c.status = 5 AND c.available_at <= :now LIMIT :most";
    /// Locks names of one shard.
    fn lock_over(now: Moment, bucket_type: i32, bucket_values: &[&str]) -> Vec<String> = [Statement Anywhere]
        "SELECT c.bucket_value FROM claims.claims c
          WHERE c.bucket_value = ANY (:bucket_values) AND c.bucket_type = :bucket_type AND c.status = 5 AND c.available_at <= :now
            FOR UPDATE SKIP LOCKED";
    fn drop_over(now: Moment, bucket_type: i32, bucket_values: &[&str]) -> Vec<String> = [Statement Anywhere]
        "DELETE FROM claims.claims c
          WHERE c.bucket_value = ANY (:bucket_values) AND c.bucket_type = :bucket_type AND c.status = 5 AND c.available_at <= :now
         RETURNING c.bucket_value";
    fn put_reservation(bucket_type: i32, name: &str, display: Option<&str>, reason: &str, reserved_by: &str, at: Moment) = [Statement Anywhere]
        "INSERT INTO claims.reservations (bucket_type, bucket_value, display_value, reason, reserved_by, reserved_at)
         VALUES (:bucket_type, :name, :display, :reason, :reserved_by, :at)";
}

scan! {
    /// Passes over names whose time to be kept back is over.
    fn names(bucket_type: i32, now: Moment) -> NameRow = [Statement]
        "SELECT c.bucket_value, c.display_value, c.creator_id, c.status NOT IN (1, 5) AS is_leased,
                CASE WHEN c.status = 4 THEN c.lease_uuid END AS transfer
           FROM claims.claims c WHERE c.bucket_type = :bucket_type AND (c.status <> 5 OR c.available_at > :now)";
}

/// Number of rows that one statement inserts.
const ROWS: usize = 200;

impl NameTables for Citus {
    fn lock_names(&self, connection: &Connection, bucket_type: i32) {
        lock(connection, bucket_type);
    }

    fn each_name(&self, connection: &Connection, bucket_type: i32, now: Moment, each: &mut dyn FnMut(StoredName)) {
        let at: HashMap<Uuid, i64> = transfer_locations::all_locations(connection)
            .into_iter()
            .map(|location| (location.transfer, location.cell_id))
            .collect();
        names(connection, bucket_type, now, &mut |row| {
            let cell_id = row.transfer.and_then(|transfer| at.get(&transfer).copied()).unwrap_or(row.creator_id);
            each(StoredName { value: row.bucket_value, display: row.display_value, cell_id, is_leased: row.is_leased });
        });
    }

    fn rename(&self, connection: &Connection, bucket_type: i32, renamings: &[Renaming], _tells: bool) -> Vec<Renamed> {
        let by_old: HashMap<&str, &Renaming> = renamings.iter().map(|one| (one.old.as_str(), one)).collect();
        let (mut claims, mut reserved): (Vec<DeletedRow>, Vec<DeletedRow>) = Default::default();
        let mut renamed = Vec::new();
        let bucket = |value: &str| Bucket { bucket_type, value: value.to_owned().into() };
        for portion in renamings.chunks(PORTION) {
            let old: Vec<&str> = portion.iter().map(|one| one.old.as_str()).collect();
            claims.extend(take_out(connection, bucket_type, &old).into_iter().map(|row| {
                // A reserved name has no owner, and a claim that is being created has none yet.
                let has_owner = row.creator_id != NOBODY && row.status != HeldFor::Creating as i16;
                let new = by_old.get(row.bucket_value.as_str()).filter(|_| has_owner);
                renamed.extend(new.map(|one| Renamed {
                    cell_id: row.creator_id,
                    old: bucket(&row.bucket_value),
                    new: bucket(&one.new),
                }));
                claim(row)
            }));
            reserved.extend(take_out_reserved(connection, bucket_type, &old).into_iter().map(reservation));
            pgrx::check_for_interrupts!();
        }
        let columns = "uuid, subject_type, subject_id, source_type, source_id, creator_id, lease_uuid, status, created_at, updated_at, \
                       given_up_by, available_at";
        put_back(connection, bucket_type, "claims", columns, claims, &by_old);
        put_back(connection, bucket_type, "reservations", "reason, reserved_by, reserved_at", reserved, &by_old);
        renamed
    }

    fn purge_over(&self, connection: &Connection, now: Moment, limit: i64) -> Vec<Bucket<'static>> {
        let over: Vec<Bucket> = over(connection, now, limit).into_iter().map(Bucket::from).collect();
        let all: Vec<&Bucket> = over.iter().collect();
        let mut purged = Vec::new();
        for (bucket_type, values) in by_shard(connection, &all).into_values().flat_map(values_by_type) {
            let free = lock_over(connection, now, bucket_type, &values);
            let free: Vec<&str> = free.iter().map(String::as_str).collect();
            let gone = drop_over(connection, now, bucket_type, &free);
            purged.extend(gone.into_iter().map(|value| Bucket { bucket_type, value: value.into() }));
        }
        purged
    }

    fn reserve(&self, connection: &Connection, bucket_type: i32, names: &[&Reserved], reserved_by: &ReservedBy) {
        names.iter().for_each(|name| reserve_one(connection, bucket_type, name, reserved_by));
    }
}

/// A deleted row: its name, and its other columns for inserting it again.
type DeletedRow = (String, Vec<Value>);

fn claim(row: ClaimRow) -> DeletedRow {
    let values = vec![
        row.uuid.into(),
        row.subject_type.into(),
        row.subject_id.into(),
        row.source_type.into(),
        row.source_id.into(),
        row.creator_id.into(),
        row.lease_uuid.into(),
        row.status.into(),
        row.created_at.into(),
        row.updated_at.into(),
        row.given_up_by.into(),
        row.available_at.into(),
    ];
    (row.bucket_value, values)
}

fn reservation(row: ReservationRow) -> DeletedRow {
    (row.bucket_value, vec![row.reason.into(), row.reserved_by.into(), row.reserved_at.into()])
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
    let (bucket_type_at, width) = (1, 2 + columns.split(", ").count());
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let part: Vec<DeletedRow> = rows.by_ref().take(ROWS).collect();
        let row = |nth: usize| {
            let parameters: Vec<_> = (0..width).map(|column| format!("${}", 2 + nth * width + column)).collect();
            format!("(${bucket_type_at}, {})", parameters.join(", "))
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
    create_on_shard(connection, ClaimOrigin::cell(NOBODY), &name.claim());
    let (value, display) = (&*name.bucket.value, name.display.as_deref());
    put_reservation(connection, bucket_type, value, display, reserved_by.reason, reserved_by.role, Moment::now());
}
