//! Statements on tables that can have claimed columns, and on `claims.claimed_attributes`.

use claims_model::origin::Approval;
use pgrx::pg_sys::Oid;

use pg::query::{query, record};
use pg::spi::Connection;

record! {
    /// A table of the application.
    pub struct ClaimableTable {
        pub name: String,
        pub owner: Oid,
        pub can_be_claimed: bool,
    }

    /// A column of a table of the application.
    pub struct ClaimableColumn {
        pub type_name: String,
        /// Whether its text is the same in every session.
        pub has_fixed_text: bool,
        /// Whether it is a virtual generated column, which triggers do not see.
        pub is_virtual: bool,
    }

    /// The unique index that PostgreSQL has, or could have, on the names of a column.
    pub struct Uniqueness {
        /// The expression that a suitable unique index would be on.
        pub expression: String,
        /// Whether there is a unique index on the expression or on the column.
        pub has_unique_index: bool,
        pub is_partitioned: bool,
    }

    /// A declaration of a claimed column. Types have their first names, which never change.
    pub struct Declaration {
        pub attribute: String,
        /// The name of the declaration, which is unique for the column.
        pub name: String,
        pub bucket_type: String,
        pub subject_type: String,
        pub subject_key: String,
        pub source_type: String,
        /// `None` before the caller has looked up the primary key.
        pub source_key: Option<String>,
        pub condition: Option<String>,
        /// `None` before it is recorded, if it is to have the default.
        pub constraint_name: Option<String>,
    }
}

query! {
    /// Returns a table, and whether its columns can be claimed.
    pub fn table(table: Oid) -> Option<ClaimableTable> = [Latest]
        "SELECT c.oid::regclass::text AS name, c.relowner AS owner,
                c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND NOT c.relispartition
                AND c.relnamespace <> ALL ('{pg_catalog,information_schema,claims}'::regnamespace[])
                AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid OR i.inhparent = c.oid AND c.relkind = 'r') AS can_be_claimed
           FROM pg_class c WHERE c.oid = :table";
    /// Returns the column of the table's primary key, if the key has one column.
    pub fn key_column(table: Oid) -> Option<String> = [Latest]
        "SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
          WHERE i.indrelid = :table AND i.indisprimary AND i.indnkeyatts = 1";
    pub fn column(table: Oid, column: &str) -> Option<ClaimableColumn> = [Latest]
        "SELECT format_type(a.atttypid, NULL) AS type_name, claims.has_fixed_text(a.atttypid), a.attgenerated = 'v' AS is_virtual
           FROM pg_attribute a WHERE a.attrelid = :table AND a.attname = :column::name AND a.attnum > 0 AND NOT a.attisdropped";
    /// Returns the unique index for the names of a column under a profile. pg_get_indexdef() prints the expression of an index with its casts.
    pub fn uniqueness(table: Oid, column: &str, profile: &str) -> Option<Uniqueness> = [Latest]
        "SELECT CASE WHEN :profile = 'exact' THEN quote_ident(a.attname)
                     WHEN y.typcategory = 'S' THEN format('claims.canonical_form(%L, %I)', :profile, a.attname)
                     ELSE format('claims.canonical_form(%L, %I::text)', :profile, a.attname) END AS expression,
                EXISTS (SELECT FROM pg_index i
                         WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1
                           AND (i.indkey[0] = a.attnum
                                OR i.indkey[0] = 0
                               AND pg_get_indexdef(i.indexrelid, 1, false) IN
                                   (format('claims.canonical_form(%L::text, %I)', :profile, a.attname),
                                    format('claims.canonical_form(%L::text, (%I)::text)', :profile, a.attname)))) AS has_unique_index,
                c.relkind = 'p' AS is_partitioned
           FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid JOIN pg_class c ON c.oid = a.attrelid
          WHERE a.attrelid = :table AND a.attname = :column::name";
    /// Returns a declaration of a column, or `None` if there is none with this name.
    pub fn declaration(table: Oid, attribute: &str, name: &str) -> Option<Declaration> = [Latest]
        "SELECT a.attribute::text, a.declaration::text AS name, a.bucket_type, a.subject_type, a.subject_key::text, a.source_type,
                a.source_key::text, a.condition, a.constraint_name::text
           FROM claims.claimed_attributes a
          WHERE a.table_name = :table::regclass AND a.attribute = :attribute::name AND a.declaration = :name::name";
    /// Inserts or replaces a declaration. A trigger of the table completes what is NULL.
    fn insert(table: Oid, attribute: &str, bucket_type: &str, subject_type: &str, subject_key: &str, source_type: &str,
              source_key: Option<&str>, condition: Option<&str>, name: &str, constraint_name: Option<&str>,
              approved_owner: Option<Oid>, approved_cell: Option<i64>) = [Statement]
        "INSERT INTO claims.claimed_attributes AS a (table_name, attribute, bucket_type, subject_type, subject_key, source_type,
                source_key, condition, declaration, constraint_name, approved_owner, approved_cell)
         VALUES (:table::regclass, :attribute::name, :bucket_type, :subject_type, :subject_key::name, :source_type,
                 :source_key::name, :condition, :name::name, :constraint_name::name, :approved_owner::regrole, :approved_cell)
             ON CONFLICT (table_name, attribute, declaration) DO UPDATE
            SET bucket_type = excluded.bucket_type, subject_type = excluded.subject_type, subject_key = excluded.subject_key,
                source_type = excluded.source_type, source_key = excluded.source_key, condition = excluded.condition,
                constraint_name = excluded.constraint_name,
                approved_owner = excluded.approved_owner, approved_cell = excluded.approved_cell";
    /// Returns the name of a table with claims of a source type that a role may not read, or whose rows a policy hides from it.
    pub fn unreadable_table(source_type: &str, role: Oid) -> Option<String> = [Latest]
        "SELECT c.oid::regclass::text FROM claims.claimed_attributes a JOIN pg_class c ON c.oid = a.table_name
          WHERE a.source_type = :source_type AND NOT pg_has_role(:role, c.relowner, 'USAGE')
            AND NOT (has_schema_privilege(:role, c.relnamespace, 'USAGE') AND has_table_privilege(:role, c.oid, 'SELECT')
                     AND (NOT c.relrowsecurity OR EXISTS (SELECT FROM pg_roles r WHERE r.oid = :role AND (r.rolsuper OR r.rolbypassrls))))
          ORDER BY c.oid LIMIT 1";
    /// Deletes a declaration of a column, or with `None` all of them. Returns whether there was one.
    pub fn forget(table: Oid, attribute: &str, name: Option<&str>) -> bool = [Statement]
        "DELETE FROM claims.claimed_attributes a
          WHERE a.table_name = :table::regclass AND a.attribute = :attribute::name AND (:name IS NULL OR a.declaration = :name::name)";
    /// Sets the enforcement of a declaration of a column, or with `None` of all. Returns whether there is one.
    pub fn set_enforcement(table: Oid, attribute: &str, name: Option<&str>, mode: &str, share: &str) -> bool = [Statement]
        "UPDATE claims.claimed_attributes a SET enforcement = :mode, share = :share::numeric
          WHERE a.table_name = :table::regclass AND a.attribute = :attribute::name AND (:name IS NULL OR a.declaration = :name::name)";
    /// Returns the source types of the declarations of a column, or of one of them, that are not enforced for all names.
    pub fn not_enforced(table: Oid, attribute: &str, name: Option<&str>) -> Vec<String> = [Statement]
        "SELECT DISTINCT a.source_type FROM claims.claimed_attributes a
          WHERE a.table_name = :table::regclass AND a.attribute = :attribute::name AND (:name IS NULL OR a.declaration = :name::name)
            AND (a.enforcement <> 'enforce' OR a.share < 100) ORDER BY 1";
    /// Returns the source types whose claims this database's tables declare.
    pub fn source_types() -> Vec<String> = [Latest] "SELECT DISTINCT a.source_type FROM claims.claimed_attributes a ORDER BY 1";
    pub fn is_claimed(table: Oid) -> bool = [Statement]
        "SELECT FROM claims.claimed_attributes a WHERE a.table_name = :table::regclass LIMIT 1";
}

impl Declaration {
    /// Returns the arguments of `claim_attribute` in which `self` differs from `other`, each with both values.
    pub fn differences<'d>(&'d self, other: &'d Self) -> Vec<(&'static str, [Option<&'d str>; 2])> {
        let arguments = |from: &'d Self| {
            [
                ("bucket_type", Some(&*from.bucket_type)),
                ("subject_type", Some(&*from.subject_type)),
                ("subject_key", Some(&*from.subject_key)),
                ("source_type", Some(&*from.source_type)),
                ("source_key", from.source_key.as_deref()),
                ("condition", from.condition.as_deref()),
                ("constraint_name", from.constraint_name.as_deref()),
            ]
        };
        let pairs = arguments(self).into_iter().zip(arguments(other));
        pairs.filter(|(own, others)| own != others).map(|((name, own), (_, others))| (name, [own, others])).collect()
    }
}

/// Inserts or replaces a declaration of a table.
pub fn record(connection: &Connection, table: Oid, declaration: &Declaration, approval: &Approval) {
    let Declaration { attribute, name, bucket_type, subject_type, subject_key, source_type, .. } = declaration;
    insert(
        connection,
        table,
        attribute,
        bucket_type,
        subject_type,
        subject_key,
        source_type,
        declaration.source_key.as_deref(),
        declaration.condition.as_deref(),
        name,
        declaration.constraint_name.as_deref(),
        approval.owner.map(Oid::from),
        approval.cell_id,
    );
}
