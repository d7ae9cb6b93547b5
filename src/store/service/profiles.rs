//! Statements by which the profile of a bucket type is changed, and all its names with it.

use claims_model::lookalike::Look;
use claims_model::{Bucket, Naming};

use super::changes::actor;
use super::distributed::profiles as distributed;
use super::looks;
use super::name_rows::PORTION;
pub use super::name_rows::{Renaming, Stored};
use crate::distribution;
use crate::pg::spi::{Connection, Row, Value, View};
use crate::pg::statement::{shared_statement, statement};

statement! {
    /// Keeps out whoever writes names whose profile can change; waits for those who do.
    LOCK() = "LOCK TABLE claims.bucket_types IN EXCLUSIVE MODE";
    /// Names $2 of type $1 become names $3, which were given as $4.
    RENAME(INT4OID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID) =
        "UPDATE claims.claims c SET bucket_value = n.new_value, display_value = n.display_value
           FROM (SELECT * FROM unnest($2, $3, $4) AS n (old_value, new_value, display_value) OFFSET 0) n
          WHERE c.bucket_value = n.old_value AND c.bucket_type = $1";
    /// The same, and writes down, as role $5, which names are free then and which are taken; or, where only the form in which a name
    /// was given changes, that it is another. What is reserved is nobody's, and what is being created not yet.
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
}

shared_statement! {
    FORGET_LOOKS(INT4OID) = "DELETE FROM claims.skeletons s WHERE s.bucket_type = $1";
    SET(INT4OID, TEXTOID, TEXTOID) = "UPDATE claims.bucket_types SET profile = $2, confusables = $3 WHERE id = $1";
}

const NAMES: &str = concat!(
    "SELECT c.bucket_value, c.display_value, ",
    claim_cell!(),
    ", c.status <> 1 FROM claims.claims c WHERE c.bucket_type = $1"
);

/// From here on nobody writes names whose profile can change; the type is the one that is to be changed.
pub fn lock(connection: &Connection, bucket_type: i32) {
    if distribution::is_spread() {
        return distributed::lock(connection, bucket_type);
    }
    connection.run(&LOCK, View::Statement, []);
}

/// Hands over all names of a type, as they are right now, in no order.
pub fn each_name(connection: &Connection, bucket_type: i32, mut each: impl FnMut(Stored)) {
    if distribution::is_spread() {
        return distributed::each_name(connection, bucket_type, each);
    }
    connection.stream(NAMES, [bucket_type.into()], false, |row: Row| {
        each(Stored { value: row.must(1), display: row.get(2), cell_id: row.must(3), is_leased: row.must(4) });
    });
}

/// Renames claims, and what is reserved, in place. With `tells` it writes that down in the change feed.
pub fn rename(connection: &Connection, bucket_type: i32, renamings: &[Renaming], tells: bool) {
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
}

/// Has names have the looks that are given, and no others of the type.
pub fn replace_looks(connection: &Connection, bucket_type: i32, wanted: &[(Look, Bucket)]) {
    connection.run(&FORGET_LOOKS, View::Statement, [bucket_type.into()]);
    for portion in wanted.chunks(PORTION) {
        let portion: Vec<_> = portion.iter().map(|(look, bucket)| (*look, bucket)).collect();
        match distribution::is_spread() {
            true => distributed::take_free(connection, &portion),
            false => looks::take_free(connection, &portion),
        }
    }
}

/// In effect for all sessions when this commits.
pub fn set(connection: &Connection, bucket_type: i32, naming: Naming) {
    let values = [bucket_type.into(), naming.profile.name().into(), naming.confusables.name().into()];
    connection.run(&SET, View::Statement, values);
}
