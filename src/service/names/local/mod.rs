//! Statements that change the profile of a bucket type and all its names, and statements that reserve names.

mod release;

use claims_model::{Bucket, Claim, NOBODY};

use super::tables::{NameTables, PORTION, Renamed, Renaming, Reserved, ReservedBy, StoredName};
use crate::kernel::sql_text::{is_row, said};
use crate::kernel::tables::Local;
use crate::service::claims::BucketRow;
use crate::service::claims::local::claims;
use crate::service::feed::actor;
use pg::clock::Moment;
use pg::query::{query, record, scan};
use pg::spi::Connection;

record! {
    struct NameRow {
        bucket_value: String,
        display_value: Option<String>,
        cell_id: i64,
        is_leased: bool,
    }
}

/// Renames names of a type in a table.
macro_rules! rename {
    ($table:literal) => {
        concat!(
            "UPDATE claims.",
            $table,
            " c SET bucket_value = n.new_value, display_value = n.display_value
               FROM (SELECT * FROM unnest(:old, :new, :displays) AS n (old_value, new_value, display_value) OFFSET 0) n
              WHERE c.bucket_value = n.old_value AND c.bucket_type = :bucket_type"
        )
    };
}

query! {
    /// Locks out transactions that write names whose profile can change, and waits for them.
    fn lock() = [Statement] "LOCK TABLE claims.bucket_types IN EXCLUSIVE MODE";
    fn rename_claims(bucket_type: i32, old: &[&str], new: &[&str], displays: Vec<Option<&str>>) = [Statement] rename!("claims");
    /// Like [`rename_claims`], and records in the change feed which names are free and which are taken then; or, if only the display value
    /// of a name changes, a replacement. A reserved name has no owner, and a claim that is being created has none yet: neither is recorded.
    fn rename_and_tell(bucket_type: i32, old: &[&str], new: &[&str], displays: Vec<Option<&str>>, actor: &str) = [Statement] concat!(
        "WITH renamed AS (", rename!("claims"), " RETURNING n.old_value, n.new_value, c.creator_id, c.status),
              owned AS (SELECT r.* FROM renamed r WHERE r.creator_id <> -1 AND r.status <> 2),
              change (place, op, old_cell_id, new_cell_id, bucket_value) AS (
             SELECT 1, 'destroy', o.creator_id, NULL::bigint, o.old_value FROM owned o WHERE o.old_value <> o.new_value
             UNION ALL
             SELECT 2, 'create', NULL, o.creator_id, o.new_value FROM owned o WHERE o.old_value <> o.new_value
             UNION ALL
             SELECT 3, 'replace', o.creator_id, o.creator_id, o.new_value FROM owned o WHERE o.old_value = o.new_value)
         INSERT INTO claims.change_sets (op, old_cell_id, new_cell_id, actor, bucket_types, bucket_values, context, cell_role)
         SELECT p.op, p.old_cell_id, p.new_cell_id, :actor, array_agg(:bucket_type), array_agg(p.bucket_value), ", said!(), "
           FROM (SELECT c.*, (row_number() OVER (PARTITION BY c.place, coalesce(c.old_cell_id, c.new_cell_id)) - 1) / 1000 AS portion
                   FROM change c) p
          GROUP BY p.place, p.op, p.old_cell_id, p.new_cell_id, p.portion ORDER BY p.place, p.old_cell_id, p.new_cell_id, p.portion");
    fn rename_reserved(bucket_type: i32, old: &[&str], new: &[&str], displays: Vec<Option<&str>>) = [Statement] rename!("reservations");
    /// Deletes names of nobody that are kept back until `now` or less.
    fn purge(now: Moment, most: i64) -> Vec<BucketRow> = [Statement] concat!(
        "WITH over AS MATERIALIZED (
             SELECT c.bucket_value, c.bucket_type FROM claims.claims c WHERE c.creator_id = -1 AND c.status = 5 AND c.available_at <= :now
              LIMIT :most FOR UPDATE SKIP LOCKED)
         DELETE FROM claims.claims c USING over o WHERE ", is_row!("c.bucket_value", "c.bucket_type", "o.bucket_value", "o.bucket_type"),
        " RETURNING c.bucket_type, c.bucket_value");
    fn put_reservations(bucket_type: i32, names: &[&str], displays: Vec<Option<&str>>, reason: &str, reserved_by: &str, at: Moment) = [Statement]
        "INSERT INTO claims.reservations (bucket_type, bucket_value, display_value, reason, reserved_by, reserved_at)
         SELECT :bucket_type, n.bucket_value, n.display_value, :reason, :reserved_by, :at
           FROM unnest(:names, :displays) AS n (bucket_value, display_value)";
}

scan! {
    /// Passes over names whose time to be kept back is over.
    fn names(bucket_type: i32, now: Moment) -> NameRow = [Statement]
        "SELECT c.bucket_value, c.display_value,
                CASE WHEN c.status = 4
                     THEN coalesce((SELECT t.cell_id FROM claims.cell_transfers t WHERE t.transfer_uuid = c.lease_uuid), c.creator_id)
                     ELSE c.creator_id END AS cell_id,
                c.status NOT IN (1, 5) AS is_leased
           FROM claims.claims c WHERE c.bucket_type = :bucket_type AND (c.status <> 5 OR c.available_at > :now)";
}

impl NameTables for Local {
    fn lock_names(&self, connection: &Connection, _bucket_type: i32) {
        lock(connection);
    }

    fn each_name(&self, connection: &Connection, bucket_type: i32, now: Moment, each: &mut dyn FnMut(StoredName)) {
        names(connection, bucket_type, now, &mut |row| {
            each(StoredName {
                value: row.bucket_value,
                display: row.display_value,
                cell_id: row.cell_id,
                is_leased: row.is_leased,
            });
        });
    }

    fn rename(&self, connection: &Connection, bucket_type: i32, renamings: &[Renaming], tells: bool) -> Vec<Renamed> {
        for portion in renamings.chunks(PORTION) {
            let (old, new): (Vec<&str>, Vec<&str>) = portion.iter().map(|one| (&*one.old, &*one.new)).unzip();
            let displays: Vec<Option<&str>> = portion.iter().map(|one| one.display.as_deref()).collect();
            match tells {
                true => rename_and_tell(connection, bucket_type, &old, &new, displays.clone(), &actor()),
                false => rename_claims(connection, bucket_type, &old, &new, displays.clone()),
            }
            rename_reserved(connection, bucket_type, &old, &new, displays);
        }
        Vec::new()
    }

    fn purge_over(&self, connection: &Connection, now: Moment, limit: i64) -> Vec<Bucket<'static>> {
        purge(connection, now, limit).into_iter().map(Bucket::from).collect()
    }

    fn reserve(&self, connection: &Connection, bucket_type: i32, names: &[&Reserved], reserved_by: &ReservedBy) {
        let claims: Vec<Claim> = names.iter().map(|name| name.claim()).collect();
        claims::add(connection, NOBODY, &claims.iter().collect::<Vec<_>>());
        let (values, displays): (Vec<&str>, Vec<Option<&str>>) =
            names.iter().map(|name| (&*name.bucket.value, name.display.as_deref())).unzip();
        let ReservedBy { reason, role } = *reserved_by;
        put_reservations(connection, bucket_type, &values, displays, reason, role, Moment::now());
    }
}
