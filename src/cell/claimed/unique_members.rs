//! Statements on the tables and columns of the constraints of `claims.add_unique()`: which of them are renamed or gone, and what a partition has of them.

use std::cell::RefCell;

use pgrx::pg_sys::Oid;

use pg::cache::Freshness;
use pg::query::{query, record};
use pg::spi::Connection;

record! {
    /// A unique column of a table or partition, with what is its own in it.
    pub struct MemberOf {
        pub type_id: i32,
        /// The table that add_unique() named: itself, or the partitioned one that it belongs to.
        pub root: Oid,
        /// Number of the column in the table. `None`: there is no such column.
        pub number: Option<i32>,
        pub generation: Option<i64>,
    }
}

/// Whether the number of a member's column is that of this database. In one that was restored from a dump it is not, if the dump was loaded without
/// firing triggers.
macro_rules! known {
    () => {
        "m.known_in = (SELECT s.system_identifier || '.' || d.oid FROM pg_control_system() s, pg_database d WHERE d.datname = current_database())"
    };
}

/// Whether the table of a member `m` or its column was dropped. A column is known by its number: its name may be that of another one. Here and
/// below a subquery looks up the one row of a member. A join would be planned for the rows of pg_attribute, of all partitions of the database.
macro_rules! gone {
    () => {
        concat!(
            "((SELECT true FROM pg_class c WHERE c.oid = m.table_name) IS NULL OR (SELECT NOT a.attisdropped FROM pg_attribute a \
              WHERE a.attrelid = m.table_name AND a.attnum = m.known_column) IS NOT TRUE AND ",
            known!(),
            ")"
        )
    };
}

/// Whether the number of the column of a member `m` is that of another database, and the column is here.
macro_rules! unknown {
    () => {
        concat!(
            "(SELECT NOT a.attisdropped FROM pg_attribute a WHERE a.attrelid = m.table_name AND a.attname = m.column_name) AND NOT ",
            known!()
        )
    };
}

query! {
    /// Returns of each unique column of a table what differs from partition to partition, in the order of their names. A virtual generated column
    /// counts as missing, because triggers do not get its values.
    pub fn members_of(table: Oid) -> Vec<MemberOf> = [Latest]
        "SELECT m.type_id, m.table_name::oid AS root, v.attnum::int AS number, t.generation
           FROM claims.unique_members m JOIN claims.unique_constraints u ON u.type_id = m.type_id
           LEFT JOIN pg_attribute v ON v.attrelid = :table AND v.attname = m.column_name AND v.attnum > 0 AND NOT v.attisdropped AND v.attgenerated <> 'v'
           LEFT JOIN claims.unique_tables t ON t.type_id = m.type_id AND t.table_name = :table
          WHERE m.table_name = :table OR m.table_name IN (SELECT p.relid FROM pg_partition_ancestors(:table) p)
          ORDER BY u.name";
    /// Follows renamed columns.
    pub fn follow_renamed() -> usize = [LatestToWrite] concat!(
        "UPDATE claims.unique_members m SET column_name = a.attname FROM pg_attribute a
          WHERE a.attrelid = m.table_name AND a.attnum = m.known_column AND NOT a.attisdropped AND a.attname <> m.column_name AND ", known!());
    fn relation() -> Option<Option<Oid>> = [Latest] "SELECT to_regclass('claims.unique_members')::oid AS oid";
    /// Returns whether the number of a column is that of another database, even if there is no such column here.
    fn is_any_of_another_database() -> bool = [Latest] concat!("SELECT FROM claims.unique_members m WHERE NOT ", known!(), " LIMIT 1");
    /// Returns whether the number of a column is that of another database.
    fn is_any_unknown() -> bool = [Latest] concat!(
        "SELECT FROM claims.unique_members m WHERE ", unknown!(), " LIMIT 1");
    /// Has the trigger know_column find the numbers of columns in this database, except those that another session is finding.
    fn find_numbers() -> usize = [LatestToWrite] concat!(
        "WITH unknown AS MATERIALIZED (
             SELECT m.type_id, m.table_name FROM claims.unique_members m WHERE ", unknown!(), " FOR UPDATE OF m SKIP LOCKED)
         UPDATE claims.unique_members m SET known_column = 0 FROM unknown u WHERE m.type_id = u.type_id AND m.table_name = u.table_name");
    /// Deletes tables of constraints that are gone, or whose column is.
    pub fn forget_gone() -> Vec<i32> = [LatestToWrite] concat!("DELETE FROM claims.unique_members m WHERE ", gone!(), " RETURNING m.type_id");
    /// Returns whether a column of a table of a constraint was renamed.
    pub fn is_any_renamed() -> bool = [Latest] concat!(
        "SELECT FROM claims.unique_members m
          WHERE (SELECT NOT a.attisdropped AND a.attname <> m.column_name FROM pg_attribute a
                  WHERE a.attrelid = m.table_name AND a.attnum = m.known_column)
            AND ", known!(), " LIMIT 1");
    /// Returns whether a table with a generation does not exist any more, or a table of a constraint or its column.
    pub fn is_any_gone() -> bool = [Latest] concat!(
        "SELECT FROM claims.unique_tables t WHERE t.table_name IS NOT NULL AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = t.table_name)
         UNION ALL
         SELECT FROM claims.unique_members m WHERE ", gone!(), " LIMIT 1");
}

thread_local! {
    /// Whether all numbers of columns are those of this database.
    static ALL_KNOWN: RefCell<Option<Freshness>> = const { RefCell::new(None) };
}

/// Returns the number of the table that changes with the name of a unique column.
pub fn watched(connection: &Connection) -> Oid {
    relation(connection).flatten().unwrap_or(Oid::INVALID)
}

/// Finds the numbers of columns anew in a database that was restored from a dump.
pub fn know_columns(connection: &Connection) {
    if ALL_KNOWN.with_borrow(|known| known.as_ref().is_some_and(Freshness::is_fresh)) {
        return;
    }
    let fresh = Freshness::of(watched(connection));
    if is_any_unknown(connection) {
        find_numbers(connection);
    } else if !is_any_of_another_database(connection) {
        ALL_KNOWN.set(Some(fresh));
    }
}
