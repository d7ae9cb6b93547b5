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
        pub type_name: Option<String>,
        pub has_unique_text: Option<bool>,
        pub is_citext: bool,
    }

    /// A table of a constraint, and a table beneath it, or itself, that a command has changed.
    pub struct MemberRow {
        pub type_id: i32,
        pub root: Oid,
        pub changed: Oid,
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
        pub is_citext: bool,
        pub quoted_column: String,
        pub quoted_table: String,
        /// The table with its schema.
        pub qualified_table: String,
        pub is_partitioned: bool,
    }

    /// A table that cannot belong to a constraint.
    pub struct UnfitTable {
        pub table_name: String,
        pub kind: String,
    }

    /// The generation of a table.
    pub struct Generation {
        pub table_name: Oid,
        pub generation: i64,
    }

    /// A table of a constraint, as claims.add_unique() named it.
    pub struct MemberColumn {
        pub root: Oid,
        pub column_name: String,
        pub condition: Option<String>,
    }
}

/// The generation of a claim `c`. Other cells may have made claims by hand, with any source.
macro_rules! generation {
    () => {
        "CASE WHEN c.source_id ~ '^[1-9][0-9]{0,17}$' THEN c.source_id::bigint END"
    };
}

/// The tables `tree (oid)`: some tables with all partitions and inheritance children, without those of which DETACH CONCURRENTLY has begun. Unlike
/// pg_partition_tree() it locks none of them.
macro_rules! tree {
    ($roots:literal) => {
        concat!(
            "WITH RECURSIVE tree AS (",
            $roots,
            " UNION SELECT i.inhrelid FROM tree JOIN pg_inherits i ON i.inhparent = tree.oid WHERE NOT i.inhdetachpending) "
        )
    };
}

query! {
    fn relation() -> Option<Option<Oid>> = [Latest] "SELECT to_regclass('claims.unique_tables')::oid AS oid";
    /// Returns the unique columns of a table, or of the partitioned table that it belongs to. A virtual generated column counts as missing,
    /// because triggers do not get its values.
    pub fn columns(table: Oid) -> Vec<UniqueColumnRow> = [Latest]
        "SELECT u.name::text, m.type_id, m.table_name::oid AS root, n.nspname::text AS schema_name, c.relname::text AS root_name,
                quote_ident(c.relname) AS quoted_root, c.relowner AS owner, m.column_name::text, quote_ident(m.column_name) AS quoted_column,
                m.condition, format_type(v.atttypid, NULL) AS type_name,
                claims.has_unique_text(v.atttypid, v.attcollation) AS has_unique_text, claims.is_citext(v.atttypid) AS is_citext
           FROM claims.unique_members m JOIN claims.unique_constraints u ON u.type_id = m.type_id
           JOIN pg_class c ON c.oid = m.table_name JOIN pg_namespace n ON n.oid = c.relnamespace
           LEFT JOIN pg_attribute v ON v.attrelid = :table AND v.attname = m.column_name AND v.attnum > 0 AND NOT v.attisdropped AND v.attgenerated <> 'v'
          WHERE m.table_name = :table OR m.table_name IN (SELECT p.relid FROM pg_partition_ancestors(:table) p)
          ORDER BY u.name";
    /// Returns the columns of a table, quoted and separated by commas, in its order, which is not that of all its partitions.
    pub fn columns_in_order(root: Oid) -> Option<Option<String>> = [Latest]
        "SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a
          WHERE a.attrelid = :root AND a.attnum > 0 AND NOT a.attisdropped";
    /// Returns the ordinary tables that have rows of a table, itself or its partitions, and no generation.
    pub fn leaves_without(type_id: i32, top: Oid) -> Vec<Oid> = [Latest] concat!(
        tree!("SELECT :top::oid AS oid"),
        "SELECT c.oid FROM pg_class c
          WHERE c.oid IN (SELECT tree.oid FROM tree) AND c.relkind = 'r'
            AND NOT EXISTS (SELECT FROM claims.unique_tables t WHERE t.type_id = :type_id AND t.table_name = c.oid)
          ORDER BY c.oid");
    /// Begins a generation of each of the tables that has none. `is_complete`: the caller claims their values, or they have none.
    pub fn begin_generations(type_id: i32, tables: &[Oid], is_complete: bool) -> Vec<Generation> = [LatestToWrite]
        "INSERT INTO claims.unique_tables (type_id, table_name, is_complete) SELECT :type_id, x::regclass, :is_complete FROM unnest(:tables) x
         ON CONFLICT (table_name, type_id) DO NOTHING RETURNING table_name::oid, generation";
    /// Begins a generation of a table that has rows, perhaps, whose values nobody has claimed.
    pub fn begin_incomplete(type_id: i32, table: Oid) = [LatestToWrite]
        "INSERT INTO claims.unique_tables (type_id, table_name, is_complete) VALUES (:type_id, :table::regclass, false)
         ON CONFLICT (table_name, type_id) DO NOTHING";
    /// Returns the first table, by its generation, whose values are not all claimed.
    pub fn next_incomplete(type_id: i32, from: i64) -> Option<Generation> = [Latest]
        "SELECT t.table_name::oid AS table_name, t.generation FROM claims.unique_tables t
          WHERE t.type_id = :type_id AND t.table_name IS NOT NULL AND NOT t.is_complete AND t.generation >= :from ORDER BY t.generation LIMIT 1";
    /// Notes that all values of a table are claimed for its generation.
    pub fn complete(generation: i64) = [LatestToWrite]
        "UPDATE claims.unique_tables SET is_complete = true WHERE generation = :generation AND table_name IS NOT NULL";
    /// Estimates the number of rows of the tables whose values are not all claimed, from the last ANALYZE.
    pub fn estimated_rows(type_id: i32) -> Option<i64> = [Latest]
        "SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint FROM claims.unique_tables t JOIN pg_class c ON c.oid = t.table_name
          WHERE t.type_id = :type_id AND NOT t.is_complete";
    /// Returns the number of blocks of a table.
    pub fn blocks(table: Oid) -> i64 = [Latest] "SELECT pg_relation_size(c.oid) / current_setting('block_size')::bigint FROM pg_class c WHERE c.oid = :table";
    /// Returns those of the values that are claimed for a generation.
    pub fn claimed_for(type_id: i32, generation: i64, values: &[&str]) -> Vec<String> = [Latest]
        "SELECT c.bucket_value FROM claims.claims c
          WHERE c.bucket_type = :type_id AND c.bucket_value = ANY (:values) AND c.source_type = :type_id AND c.source_id = :generation::text";
    /// Returns the tables of a constraint with their columns and conditions.
    pub fn member_columns(type_id: i32) -> Vec<MemberColumn> = [Latest]
        "SELECT m.table_name::oid AS root, m.column_name::text, m.condition FROM claims.unique_members m WHERE m.type_id = :type_id ORDER BY root";
    /// Deletes the progress of a constraint's import. Waits for a portion that is being imported.
    pub fn forget_import(type_id: i32) = [LatestToWrite]
        "DELETE FROM claims.import_runs r USING claims.unique_constraints u
          WHERE u.type_id = :type_id AND r.cell_id = u.cell_id AND r.source_type = u.name::text AND r.service = ''";
    /// Ends the generations of tables.
    pub fn end_generations(tables: &[Oid]) -> usize = [LatestToWrite]
        "UPDATE claims.unique_tables SET table_name = NULL WHERE table_name = ANY (:tables)";
    /// Ends the generations of a constraint whose tables belong to it no longer.
    pub fn end_generations_of_others(type_id: i32) -> usize = [LatestToWrite]
        "UPDATE claims.unique_tables t SET table_name = NULL
          WHERE t.type_id = :type_id AND t.table_name IS NOT NULL
            AND NOT EXISTS (SELECT FROM claims.unique_members m
                             WHERE m.type_id = t.type_id
                               AND (m.table_name = t.table_name OR m.table_name IN (SELECT p.relid FROM pg_partition_ancestors(t.table_name) p)))";
    /// Ends the generations of a table of a constraint and of its partitions.
    pub fn end_generations_of(type_id: i32, top: Oid) -> usize = [LatestToWrite] concat!(
        tree!("SELECT :top::oid AS oid"),
        "UPDATE claims.unique_tables t SET table_name = NULL FROM tree WHERE t.type_id = :type_id AND t.table_name = tree.oid");
    /// Returns the constraints in which a table has a generation.
    pub fn types_of(table: Oid) -> Vec<i32> = [Latest] "SELECT t.type_id FROM claims.unique_tables t WHERE t.table_name = :table ORDER BY 1";
    /// Returns those of the values whose claims are of generations that have ended, or are not known any more. Whoever sees a claim here sees its
    /// generation, too, which has begun before or in one transaction with it.
    pub fn given_up(name: &str, values: &[&str]) -> Vec<GivenUp> = [Latest] concat!(
        "SELECT c.value, c.generation
           FROM (SELECT c.bucket_value AS value, ", generation!(), " AS generation
                   FROM claims.unique_constraints u
                   JOIN claims.claims c ON c.bucket_type = u.type_id AND c.source_type = u.type_id AND c.creator_id = u.cell_id AND c.status = 1
                  WHERE u.name = :name::name AND c.bucket_value = ANY (:values)) c
          WHERE c.generation IS NOT NULL
            AND NOT EXISTS (SELECT FROM claims.unique_tables t WHERE t.generation = c.generation AND t.table_name IS NOT NULL)");
    /// Deletes claims of generations that have ended.
    pub fn delete_given_up(type_id: i32, values: &[String], generations: &[i64]) -> usize = [LatestToWrite]
        "DELETE FROM claims.claims c USING unnest(:values, :generations) v (value, generation)
          WHERE c.bucket_type = :type_id AND c.source_type = :type_id AND c.status = 1
            AND c.bucket_value = v.value COLLATE \"C\" AND c.source_id = v.generation::text";
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
                a.attgenerated = 'v' AS is_virtual, claims.is_citext(a.atttypid) AS is_citext, quote_ident(a.attname) AS quoted_column,
                quote_ident(c.relname) AS quoted_table, quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS qualified_table,
                c.relkind = 'p' AS is_partitioned
           FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE a.attrelid = :table AND a.attname = :column::name AND a.attnum > 0 AND NOT a.attisdropped";
    /// Returns a table that cannot belong to a constraint, among a table and its partitions.
    pub fn unfit_table(top: Oid) -> Option<UnfitTable> = [Latest] concat!(
        tree!("SELECT :top::oid AS oid"),
        "SELECT c.oid::regclass::text AS table_name,
                CASE WHEN c.relkind = 'f' THEN 'a foreign table, whose rows another server changes'
                     WHEN c.reloftype <> 0 THEN 'a typed table, whose columns change with its type'
                     WHEN c.relpersistence = 'u' THEN 'an unlogged table, which a crash empties' ELSE 'a temporary table' END AS kind
           FROM pg_class c
          WHERE c.oid IN (SELECT tree.oid FROM tree) AND (c.relkind NOT IN ('r', 'p') OR c.reloftype <> 0 OR c.relpersistence <> 'p' AND c.relkind = 'r')
          ORDER BY c.oid");
    /// Draws a number for types. A number never returns.
    fn draw_type_id() -> Option<i32> = [Statement] "SELECT nextval('claims.unique_types')::int";
    fn has_type(id: i32) -> bool = [Latest]
        "SELECT FROM (SELECT id FROM claims.bucket_types UNION ALL SELECT id FROM claims.subject_types
                      UNION ALL SELECT id FROM claims.source_types UNION ALL SELECT id FROM claims.type_names) t WHERE t.id = :id LIMIT 1";
    pub fn add(name: &str, type_id: i32, cell_id: i64, condition: Option<&str>, reason: Option<&str>) = [Statement]
        "INSERT INTO claims.unique_constraints (name, type_id, cell_id, condition, reason)
         VALUES (:name::name, :type_id, :cell_id, :condition, :reason)";
    pub fn add_member(type_id: i32, table: Oid, column: &str, condition: Option<&str>) = [Statement]
        "INSERT INTO claims.unique_members (type_id, table_name, column_name, condition)
         VALUES (:type_id, :table::regclass, :column::name, :condition)";
    /// Returns the tables of a constraint.
    pub fn members(type_id: i32) -> Vec<Oid> = [Latest]
        "SELECT m.table_name::oid AS root FROM claims.unique_members m WHERE m.type_id = :type_id ORDER BY 1";
    /// Returns whether a table belongs to any constraint.
    pub fn is_member(table: Oid) -> bool = [Latest] "SELECT FROM claims.unique_members m WHERE m.table_name = :table LIMIT 1";
    /// Returns the tables of constraints among some tables that a command has changed, their ancestors, and their children, whose columns change
    /// with theirs. A command that has made one of a thousand partitions has changed nothing of the others.
    pub fn members_among(tables: &[Oid]) -> Vec<MemberRow> = [Latest] concat!(
        tree!("SELECT unnest(:tables) AS oid"),
        "SELECT m.type_id, m.table_name::oid AS root, m.table_name::oid AS changed
           FROM claims.unique_members m WHERE m.table_name IN (SELECT tree.oid FROM tree)
         UNION
         SELECT m.type_id, m.table_name::oid, x FROM unnest(:tables) x, pg_partition_ancestors(x) p JOIN claims.unique_members m ON m.table_name = p.relid
          ORDER BY root, type_id, changed");
    /// Returns the partitions of the tables of a constraint, and the tables themselves.
    pub fn all_tables(type_id: i32) -> Vec<Oid> = [Latest] concat!(
        tree!("SELECT m.table_name::oid AS oid FROM claims.unique_members m WHERE m.type_id = :type_id"),
        "SELECT tree.oid FROM tree ORDER BY 1");
    /// Returns the name of a table as SQL needs it.
    pub fn quoted_name(table: Oid) -> Option<String> = [Latest]
        "SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS name
           FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = :table";
    /// Ends the generations of tables that do not exist any more.
    pub fn end_dropped() -> usize = [LatestToWrite]
        "UPDATE claims.unique_tables t SET table_name = NULL
          WHERE t.table_name IS NOT NULL AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = t.table_name)";
    /// Claims values of a table. Returns those that stand elsewhere.
    pub fn claim_values(type_id: i32, generation: i64, values: &[String], displays: Vec<Option<String>>) -> Vec<String> = [Statement]
        "SELECT claims.claim_unique_values(:type_id, :generation, :values, :displays)";
    /// Deletes all claims of a constraint, also those that another cell has made by hand: their type goes. Returns their number.
    fn forget_claims(type_id: i32) -> usize = [LatestToWrite] "DELETE FROM claims.claims c WHERE c.bucket_type = :type_id RETURNING 1";
    fn forget_tables(type_id: i32) -> usize = [LatestToWrite] "DELETE FROM claims.unique_tables t WHERE t.type_id = :type_id";
    fn forget_members(type_id: i32) -> usize = [LatestToWrite] "DELETE FROM claims.unique_members m WHERE m.type_id = :type_id";
    fn forget_constraint(type_id: i32) -> usize = [LatestToWrite] "DELETE FROM claims.unique_constraints u WHERE u.type_id = :type_id";
    fn forget_types(type_id: i32) -> usize = [LatestToWrite]
        "WITH subjects AS (DELETE FROM claims.subject_types t WHERE t.id = :type_id),
              sources AS (DELETE FROM claims.source_types t WHERE t.id = :type_id),
              names AS (DELETE FROM claims.type_names t WHERE t.id = :type_id)
         DELETE FROM claims.bucket_types t WHERE t.id = :type_id";
    /// Deletes at most `limit` claims of generations that have ended. Returns their number.
    pub fn purge(limit: i64) -> Option<i64> = [Statement] "SELECT claims.purge_given_up(:limit)";
    /// Registers the cell of this database, with the role that owns the extension.
    pub fn add_cell(cell_id: i64) = [Statement]
        "INSERT INTO claims.cells (cell_id, role, name)
         SELECT :cell_id, n.nspowner::regrole, 'this database' FROM pg_namespace n WHERE n.nspname = 'claims'
         ON CONFLICT (cell_id) DO NOTHING";
    /// Has automatic mode claim in this database.
    pub fn claim_here(cell_id: i64) = [Statement] "INSERT INTO claims.automatic_service (cell_id, service) VALUES (:cell_id, NULL)";
    /// Returns whether any column of this database is claimed.
    pub fn has_claimed_columns() -> bool = [Latest] "SELECT FROM claims.claimed_attributes LIMIT 1";
    /// Turns automatic mode off, if it claims for a cell that only constraints needed, and forgets that cell.
    pub fn forget_cell(cell_id: i64) = [Statement]
        "WITH off AS (DELETE FROM claims.automatic_service a WHERE a.cell_id = :cell_id)
         DELETE FROM claims.cells c WHERE c.cell_id = :cell_id";
    /// Returns the tables that the current command has created or altered.
    pub fn changed_tables() -> Vec<Oid> = [Latest]
        "SELECT DISTINCT d.objid AS oid FROM pg_event_trigger_ddl_commands() d WHERE d.classid = 'pg_class'::regclass AND d.object_type IN ('table', 'foreign table')";
}

/// Deletes a constraint with its claims and types. Returns the number of claims.
pub fn forget(connection: &Connection, type_id: i32) -> i64 {
    let claims = forget_claims(connection, type_id);
    forget_tables(connection, type_id);
    forget_members(connection, type_id);
    forget_constraint(connection, type_id);
    forget_types(connection, type_id);
    i64::try_from(claims).unwrap_or(i64::MAX)
}

/// Returns a number that no type has, nor the types of any constraint before.
pub fn unused_type_id(connection: &Connection) -> i32 {
    let mut drawn = std::iter::repeat_with(|| draw_type_id(connection)).flatten();
    drawn.find(|id| !has_type(connection, *id)).unwrap_or_default()
}

/// Returns the number of the table that changes with every generation.
pub fn watched(connection: &Connection) -> Oid {
    relation(connection).flatten().unwrap_or(Oid::INVALID)
}
