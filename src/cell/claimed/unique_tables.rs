//! Statements on the constraints of `claims.add_unique()`, their tables, and the generations of these, which are the sources of claims.
//!
//! A generation ends when its table is dropped, detached or truncated, and never begins again. Claims of a generation that has ended count no longer.

use pgrx::pg_sys::Oid;

use pg::query::{query, record};
use pg::spi::Connection;

record! {
    /// A unique column of a table or partition, as its trigger needs it.
    pub struct UniqueColumnRow {
        pub name: String,
        pub type_id: i32,
        /// The table that add_unique() named: the captured one, or the partitioned one that it belongs to.
        pub root: Oid,
        pub schema_name: String,
        pub root_name: String,
        pub quoted_root: String,
        pub owner: Oid,
        pub column_name: String,
        pub quoted_column: String,
        pub condition: Option<String>,
        /// Number of the column in the table itself. `None`: there is no such column.
        pub number: Option<i32>,
        pub type_name: Option<String>,
        pub has_unique_text: Option<bool>,
        pub is_citext: bool,
        pub generation: Option<i64>,
    }

    /// A table of a constraint.
    pub struct MemberRow {
        pub type_id: i32,
        pub root: Oid,
    }

    pub struct UniqueRow {
        pub type_id: i32,
        pub cell_id: i64,
        pub has_tables: bool,
    }

    /// A value whose claim is of a generation that has ended.
    pub struct GivenUp {
        pub value: String,
        pub generation: i64,
    }

    /// A column of a table that may become unique.
    pub struct ColumnToCompare {
        pub type_name: String,
        pub has_unique_text: bool,
        pub is_virtual: bool,
    }
}

/// The generation of a claim `c`. Other cells may have made claims by hand, with any source.
macro_rules! generation {
    () => {
        "CASE WHEN c.source_id ~ '^[1-9][0-9]{0,17}$' THEN c.source_id::bigint END"
    };
}

/// Whether the table of a member `m` or its column was dropped.
macro_rules! gone {
    () => {
        "(NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = m.table_name)
          OR (m.known_table = m.table_name
              AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = m.known_table AND a.attnum = m.known_column AND NOT a.attisdropped)))"
    };
}

query! {
    fn relation() -> Option<Option<Oid>> = [Latest] "SELECT to_regclass('claims.unique_tables')::oid AS oid";
    /// Returns the unique columns of a table, or of the partitioned table that it belongs to. A virtual generated column counts as missing,
    /// because triggers do not get its values.
    pub fn columns(table: Oid) -> Vec<UniqueColumnRow> = [Latest]
        "SELECT u.name::text, m.type_id, m.table_name::oid AS root, n.nspname::text AS schema_name, c.relname::text AS root_name,
                quote_ident(c.relname) AS quoted_root, c.relowner AS owner, m.column_name::text, quote_ident(m.column_name) AS quoted_column,
                m.condition, v.attnum::int AS number, format_type(v.atttypid, NULL) AS type_name,
                claims.has_unique_text(v.atttypid, v.attcollation) AS has_unique_text, claims.is_citext(v.atttypid) AS is_citext, t.generation
           FROM claims.unique_members m JOIN claims.unique_constraints u ON u.type_id = m.type_id
           JOIN pg_class c ON c.oid = m.table_name JOIN pg_namespace n ON n.oid = c.relnamespace
           LEFT JOIN pg_attribute v ON v.attrelid = :table AND v.attname = m.column_name AND v.attnum > 0 AND NOT v.attisdropped AND v.attgenerated <> 'v'
           LEFT JOIN claims.unique_tables t ON t.type_id = m.type_id AND t.table_name = :table
          WHERE m.table_name = :table OR m.table_name IN (SELECT p.relid FROM pg_partition_ancestors(:table) p)
          ORDER BY u.name";
    /// Returns the columns of a table, quoted and separated by commas, in its order, which is not that of all its partitions.
    pub fn columns_in_order(root: Oid) -> Option<Option<String>> = [Latest]
        "SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a
          WHERE a.attrelid = :root AND a.attnum > 0 AND NOT a.attisdropped";
    /// Begins a generation of a table, unless it has one.
    pub fn begin_generation(type_id: i32, table: Oid) -> Option<i64> = [Statement]
        "INSERT INTO claims.unique_tables (type_id, table_name) VALUES (:type_id, :table::regclass)
         ON CONFLICT (table_name, type_id) DO NOTHING RETURNING generation";
    /// Ends the generations of tables.
    pub fn end_generations(tables: &[Oid]) -> usize = [Statement]
        "UPDATE claims.unique_tables SET table_name = NULL WHERE table_name = ANY (:tables)";
    /// Ends the generations of a constraint whose tables belong to it no longer.
    pub fn end_generations_of_others(type_id: i32) -> usize = [Statement]
        "UPDATE claims.unique_tables t SET table_name = NULL
          WHERE t.type_id = :type_id AND t.table_name IS NOT NULL
            AND NOT EXISTS (SELECT FROM claims.unique_members m
                             WHERE m.type_id = t.type_id
                               AND (m.table_name = t.table_name OR m.table_name IN (SELECT p.relid FROM pg_partition_ancestors(t.table_name) p)))";
    /// Ends the generations of a table of a constraint and of its partitions.
    pub fn end_generations_of(type_id: i32, root: Oid) -> usize = [Statement]
        "UPDATE claims.unique_tables t SET table_name = NULL
          WHERE t.type_id = :type_id AND (t.table_name = :root OR t.table_name IN (SELECT p.relid FROM pg_partition_tree(:root) p))";
    /// Returns the constraints in which a table has a generation.
    pub fn types_of(table: Oid) -> Vec<i32> = [Latest] "SELECT t.type_id FROM claims.unique_tables t WHERE t.table_name = :table ORDER BY 1";
    /// Returns those of the values whose claims are of generations that have ended.
    pub fn given_up(name: &str, values: &[&str]) -> Vec<GivenUp> = [Latest] concat!(
        "SELECT c.bucket_value AS value, t.generation
           FROM claims.unique_constraints u
           JOIN claims.claims c ON c.bucket_type = u.type_id AND c.source_type = u.type_id AND c.creator_id = u.cell_id AND c.status = 1
           JOIN claims.unique_tables t ON t.generation = ", generation!(), "
          WHERE u.name = :name::name AND c.bucket_value = ANY (:values) AND t.table_name IS NULL");
    /// Returns the table in which a value stands.
    pub fn table_with(name: &str, value: &str) -> Option<String> = [Latest] concat!(
        "SELECT t.table_name::oid::regclass::text AS table_name
           FROM claims.unique_constraints u
           JOIN claims.claims c ON c.bucket_type = u.type_id AND c.bucket_value = :value
           JOIN claims.unique_tables t ON t.generation = ", generation!(), "
          WHERE u.name = :name::name AND t.table_name IS NOT NULL");
    /// Returns those of the names that are constraints.
    pub fn uniques_among(names: &[&str]) -> Vec<String> = [Latest]
        "SELECT u.name::text FROM claims.unique_constraints u WHERE u.name::text = ANY (:names)";
    pub fn named(name: &str) -> Option<UniqueRow> = [Latest]
        "SELECT u.type_id, u.cell_id, EXISTS (SELECT FROM claims.unique_members m WHERE m.type_id = u.type_id) AS has_tables
           FROM claims.unique_constraints u WHERE u.name = :name::name";
    pub fn any() -> bool = [Latest] "SELECT FROM claims.unique_constraints LIMIT 1";
    pub fn column(table: Oid, column: &str) -> Option<ColumnToCompare> = [Latest]
        "SELECT format_type(a.atttypid, NULL) AS type_name, claims.has_unique_text(a.atttypid, a.attcollation) AS has_unique_text,
                a.attgenerated = 'v' AS is_virtual
           FROM pg_attribute a WHERE a.attrelid = :table AND a.attname = :column::name AND a.attnum > 0 AND NOT a.attisdropped";
    /// Returns a number that no type has.
    fn next_type_id() -> Option<i32> = [Latest]
        "SELECT greatest(1000000, max(t.id) + 1) AS id
           FROM (SELECT id FROM claims.bucket_types UNION ALL SELECT id FROM claims.subject_types
                 UNION ALL SELECT id FROM claims.source_types UNION ALL SELECT id FROM claims.type_names) t";
    pub fn add(name: &str, type_id: i32, cell_id: i64, condition: Option<&str>, reason: Option<&str>) = [Statement]
        "INSERT INTO claims.unique_constraints (name, type_id, cell_id, condition, reason)
         VALUES (:name::name, :type_id, :cell_id, :condition, :reason)";
    pub fn add_member(type_id: i32, table: Oid, column: &str, condition: Option<&str>) = [Statement]
        "INSERT INTO claims.unique_members (type_id, table_name, column_name, condition, known_table, known_column)
         SELECT :type_id, :table::regclass, a.attname, :condition, :table, a.attnum
           FROM pg_attribute a WHERE a.attrelid = :table AND a.attname = :column::name";
    /// Returns the tables of a constraint.
    pub fn members(type_id: i32) -> Vec<Oid> = [Latest]
        "SELECT m.table_name::oid AS root FROM claims.unique_members m WHERE m.type_id = :type_id ORDER BY 1";
    /// Returns whether a table belongs to any constraint.
    pub fn is_member(table: Oid) -> bool = [Latest] "SELECT FROM claims.unique_members m WHERE m.table_name = :table LIMIT 1";
    /// Returns the tables of constraints among some tables and their ancestors.
    pub fn members_among(tables: &[Oid]) -> Vec<MemberRow> = [Latest]
        "SELECT m.type_id, m.table_name::oid AS root FROM claims.unique_members m
          WHERE m.table_name IN (SELECT x FROM unnest(:tables) x UNION SELECT p.relid FROM unnest(:tables) x, pg_partition_ancestors(x) p)
          ORDER BY root, m.type_id";
    /// Returns the ordinary tables that have rows of a table: itself, or its partitions.
    pub fn leaves(root: Oid) -> Vec<Oid> = [Latest]
        "SELECT c.oid FROM pg_class c
          WHERE c.relkind = 'r' AND (c.oid = :root OR c.oid IN (SELECT p.relid FROM pg_partition_tree(:root) p)) ORDER BY c.oid";
    /// Returns the name of a table as SQL needs it.
    pub fn quoted_name(table: Oid) -> Option<String> = [Latest]
        "SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS name
           FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = :table";
    /// Follows renamed columns.
    pub fn follow_renamed() -> usize = [Statement]
        "UPDATE claims.unique_members m SET column_name = a.attname FROM pg_attribute a
          WHERE m.known_table = m.table_name AND a.attrelid = m.known_table AND a.attnum = m.known_column
            AND NOT a.attisdropped AND a.attname <> m.column_name";
    /// Deletes tables of constraints that are gone, or whose column is. A column is known by its number: its name may be that of another one. Where the
    /// number is not known, after a restore, a table without the column stays, and refuses to be written.
    pub fn forget_gone() -> Vec<i32> = [Statement] concat!("DELETE FROM claims.unique_members m WHERE ", gone!(), " RETURNING m.type_id");
    /// Ends the generations of tables that do not exist any more.
    pub fn end_dropped() -> usize = [Statement]
        "UPDATE claims.unique_tables t SET table_name = NULL
          WHERE t.table_name IS NOT NULL AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = t.table_name)";
    /// Returns whether a table with a generation does not exist any more, or a table of a constraint or its column.
    pub fn is_any_gone() -> bool = [Latest] concat!(
        "SELECT FROM claims.unique_tables t WHERE t.table_name IS NOT NULL AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = t.table_name)
         UNION ALL
         SELECT FROM claims.unique_members m WHERE ", gone!(), " LIMIT 1");
    /// Claims values of a table. Returns those that stand elsewhere.
    pub fn claim_values(type_id: i32, generation: i64, values: &[String], displays: Vec<Option<String>>) -> Vec<String> = [Statement]
        "SELECT claims.claim_unique_values(:type_id, :generation, :values, :displays)";
    /// Deletes a constraint with its claims and types. Returns the number of claims.
    fn forget_unique(type_id: i32) -> Option<i64> = [Statement] "SELECT claims.forget_unique(:type_id)";
    /// Deletes at most `limit` claims of generations that have ended. Returns their number.
    pub fn purge(limit: i64) -> Option<i64> = [Statement] "SELECT claims.purge_given_up(:limit)";
    /// Registers the cell of this database, with the role that owns the extension.
    pub fn add_cell(cell_id: i64) = [Statement]
        "INSERT INTO claims.cells (cell_id, role, name)
         SELECT :cell_id, n.nspowner::regrole, 'this database' FROM pg_namespace n WHERE n.nspname = 'claims'
         ON CONFLICT (cell_id) DO NOTHING";
    /// Has automatic mode claim in this database.
    pub fn claim_here(cell_id: i64) = [Statement] "INSERT INTO claims.automatic_service (cell_id, service) VALUES (:cell_id, NULL)";
    /// Turns automatic mode off, if it claims for a cell that only constraints needed, and forgets that cell.
    pub fn forget_cell(cell_id: i64) = [Statement]
        "WITH off AS (DELETE FROM claims.automatic_service a WHERE a.cell_id = :cell_id)
         DELETE FROM claims.cells c WHERE c.cell_id = :cell_id";
    /// Returns the tables that the current command has created or altered.
    pub fn changed_tables() -> Vec<Oid> = [Latest]
        "SELECT DISTINCT d.objid AS oid FROM pg_event_trigger_ddl_commands() d WHERE d.classid = 'pg_class'::regclass AND d.object_type IN ('table', 'table column')";
}

/// Deletes a constraint with its claims and types. Returns the number of claims.
pub fn forget(connection: &Connection, type_id: i32) -> i64 {
    forget_unique(connection, type_id).unwrap_or_default()
}

/// Returns a number that no type has.
pub fn unused_type_id(connection: &Connection) -> i32 {
    next_type_id(connection).unwrap_or(FIRST_TYPE)
}

/// The first number of the types of constraints. Those of applications are smaller.
const FIRST_TYPE: i32 = 1_000_000;

/// Returns the number of the table that changes with every generation.
pub fn watched(connection: &Connection) -> Oid {
    relation(connection).flatten().unwrap_or(Oid::INVALID)
}
