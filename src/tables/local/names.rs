//! Statements that change the profile of a bucket type and all its names, and statements that reserve names.

use uuid::Uuid;

use super::door::Local;
use crate::tables::door::NameTables;
use crate::tables::rows::feed::actor;
use crate::tables::rows::names::{PORTION, Renamed, Renaming, Reserved, ReservedBy, Stored};
use pg::clock::Moment;
use pg::spi::{Connection, Row, Value, View};
use pg::statement::statement;
use pg::uuid::pg_uuids;

statement! {
    /// Locks out transactions that write names whose profile can change, and waits for them.
    LOCK() = "LOCK TABLE claims.bucket_types IN EXCLUSIVE MODE";
    /// Renames names $2 of type $1 to $3, with display values $4.
    RENAME(INT4OID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID) =
        "UPDATE claims.claims c SET bucket_value = n.new_value, display_value = n.display_value
           FROM (SELECT * FROM unnest($2, $3, $4) AS n (old_value, new_value, display_value) OFFSET 0) n
          WHERE c.bucket_value = n.old_value AND c.bucket_type = $1";
    /// Like RENAME, and records in the change feed, as role $5, which names are free and which are taken then; or, if only the
    /// display value of a name changes, a replacement. A reserved name has no owner, and a claim that is being created has none
    /// yet: neither is recorded.
    RENAME_AND_TELL(INT4OID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTOID) =
        "WITH renamed AS (
             UPDATE claims.claims c SET bucket_value = n.new_value, display_value = n.display_value
               FROM (SELECT * FROM unnest($2, $3, $4) AS n (old_value, new_value, display_value) OFFSET 0) n
              WHERE c.bucket_value = n.old_value AND c.bucket_type = $1
             RETURNING n.old_value, n.new_value, c.creator_id, c.status),
              owned AS (SELECT r.* FROM renamed r WHERE r.creator_id <> -1 AND r.status <> 2),
              change (place, op, old_cell_id, new_cell_id, bucket_value) AS (
             SELECT 1, 'destroy', o.creator_id, NULL::bigint, o.old_value FROM owned o WHERE o.old_value <> o.new_value
             UNION ALL
             SELECT 2, 'create', NULL, o.creator_id, o.new_value FROM owned o WHERE o.old_value <> o.new_value
             UNION ALL
             SELECT 3, 'replace', o.creator_id, o.creator_id, o.new_value FROM owned o WHERE o.old_value = o.new_value)
         INSERT INTO claims.change_sets (op, old_cell_id, new_cell_id, actor, bucket_types, bucket_values)
         SELECT p.op, p.old_cell_id, p.new_cell_id, $5, array_agg($1), array_agg(p.bucket_value)
           FROM (SELECT c.*, (row_number() OVER (PARTITION BY c.place, coalesce(c.old_cell_id, c.new_cell_id)) - 1) / 1000 AS portion
                   FROM change c) p
          GROUP BY p.place, p.op, p.old_cell_id, p.new_cell_id, p.portion ORDER BY p.place, p.old_cell_id, p.new_cell_id, p.portion";
    RENAME_RESERVED(INT4OID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID) =
        "UPDATE claims.reservations r SET bucket_value = n.new_value, display_value = n.display_value
           FROM (SELECT * FROM unnest($2, $3, $4) AS n (old_value, new_value, display_value) OFFSET 0) n
          WHERE r.bucket_value = n.old_value AND r.bucket_type = $1";
    HOLD(INT4OID, UUIDARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TIMESTAMPTZOID) =
        "INSERT INTO claims.claims (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id,
                                    creator_id, status, created_at, updated_at, display_value)
         SELECT n.uuid, $1, n.bucket_value, 0, '0', 0, '0', -1, 1, $5, $5, n.display_value
           FROM unnest($2, $3, $4) AS n (uuid, bucket_value, display_value)";
    RESERVE(INT4OID, TEXTARRAYOID, TEXTARRAYOID, TEXTOID, TEXTOID, TIMESTAMPTZOID) =
        "INSERT INTO claims.reservations (bucket_type, bucket_value, display_value, reason, reserved_by, reserved_at)
         SELECT $1, n.bucket_value, n.display_value, $4, $5, $6 FROM unnest($2, $3) AS n (bucket_value, display_value)";
}

const NAMES: &str = concat!(
    "SELECT c.bucket_value, c.display_value, ",
    claim_cell!(),
    ", c.status <> 1 FROM claims.claims c WHERE c.bucket_type = $1"
);

impl NameTables for Local {
    fn lock_names(&self, connection: &Connection, _bucket_type: i32) {
        connection.run(&LOCK, View::Statement, []);
    }

    fn each_name(&self, connection: &Connection, bucket_type: i32, each: &mut dyn FnMut(Stored)) {
        connection.stream(NAMES, [bucket_type.into()], false, |row: Row| {
            each(Stored { value: row.must(1), display: row.get(2), cell_id: row.must(3), is_leased: row.must(4) });
        });
    }

    fn rename(&self, connection: &Connection, bucket_type: i32, renamings: &[Renaming], tells: bool) -> Vec<Renamed> {
        for portion in renamings.chunks(PORTION) {
            let values = || -> [Value; 4] {
                let text = |of: fn(&Renaming) -> &str| portion.iter().map(of).collect::<Vec<_>>();
                let displays: Vec<Option<&str>> = portion.iter().map(|one| one.display.as_deref()).collect();
                let (old, new) = (text(|one| &one.old), text(|one| &one.new));
                [bucket_type.into(), old.into(), new.into(), displays.into()]
            };
            match tells {
                true => {
                    let values = values().into_iter().chain([actor().into()]);
                    connection.run(&RENAME_AND_TELL, View::Statement, values)
                }
                false => connection.run(&RENAME, View::Statement, values()),
            };
            connection.run(&RENAME_RESERVED, View::Statement, values());
        }
        Vec::new()
    }

    fn reserve(&self, connection: &Connection, bucket_type: i32, names: &[&Reserved], reserved_by: &ReservedBy) {
        let (now, uuids) = (Moment::now(), pg_uuids(names.iter().map(|_| Uuid::now_v7())));
        let values = || names.iter().map(|name| &*name.bucket.value).collect::<Vec<&str>>();
        let displays = || names.iter().map(|name| name.display.as_deref()).collect::<Vec<Option<&str>>>();
        let claim_values = [bucket_type.into(), uuids, values().into(), displays().into(), now.into()];
        connection.run(&HOLD, View::Statement, claim_values);
        let reservation_values = [
            bucket_type.into(),
            values().into(),
            displays().into(),
            reserved_by.reason.into(),
            reserved_by.role.into(),
            now.into(),
        ];
        connection.run(&RESERVE, View::Statement, reservation_values);
    }
}
