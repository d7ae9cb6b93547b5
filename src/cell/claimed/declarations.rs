//! Reads the declarations of claimed columns, with what the catalog says about their tables. All names are quoted but those of types.

use pgrx::pg_sys::Oid;

use super::keys::base_type;
use pg::query::{query, record};

record! {
    /// A declaration, with what the catalog says about its table and its key column.
    #[derive(Clone, PartialEq, Eq)]
    pub struct DeclaredAttribute {
        pub(super) oid: Oid,
        pub quoted_name: String,
        /// The table's unqualified name, which conditions use.
        pub(super) alias: String,
        /// Whether it is an ordinary table, queried with ONLY. Otherwise it is partitioned.
        pub(super) is_plain: bool,
        pub(super) relowner: Oid,
        pub(super) quoted_column: String,
        pub bucket_type: String,
        pub subject_type: String,
        pub(super) quoted_subject_key: String,
        pub source_type: String,
        pub(super) quoted_source_key: String,
        pub(super) condition: Option<String>,
        /// The planner's estimate of the table's rows (`reltuples`).
        pub(super) rows: i64,
        /// Whether the key column is NOT NULL.
        pub(super) has_keys: bool,
        /// The key's type beneath its domains, its name, and whether it is a string type, so that any text may be a key.
        pub(super) base_type: Option<Oid>,
        pub(super) key_type: Option<String>,
        pub(super) is_string: Option<bool>,
        /// Whether the table has an index on claims.canonical_form(), perhaps of this column.
        pub(super) has_form_index: bool,
        pub(super) enforcement: Option<String>,
        /// The share of names, in ten thousandths.
        pub(super) share: Option<i64>,
        pub(super) approved_owner: Option<Oid>,
        pub(super) approved_cell: Option<i64>,
    }
}

query! {
    /// Reads the declarations whose claims have a source type, or with `None` any, and that claim buckets of a type, or of any. A table has a form
    /// index if it has an index on claims.canonical_form(), and its owner may use that function.
    pub fn declared(source_type: Option<&str>, bucket_type: Option<&str>) -> Vec<DeclaredAttribute> = [Caller] concat!(
        "SELECT c.oid, quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS quoted_name,
                quote_ident(c.relname) AS alias, c.relkind = 'r' AS is_plain, c.relowner,
                quote_ident(a.attribute) AS quoted_column, a.bucket_type, a.subject_type, quote_ident(a.subject_key) AS quoted_subject_key,
                a.source_type, quote_ident(a.source_key) AS quoted_source_key, a.condition, greatest(c.reltuples, 0)::bigint AS rows,
                k.attnotnull IS TRUE AS has_keys, k.base_type, format_type(k.base_type, -1) AS key_type, y.typcategory = 'S' AS is_string,
                has_schema_privilege(c.relowner, 'claims', 'USAGE')
                AND has_function_privilege(c.relowner, 'claims.canonical_form(text, text)', 'EXECUTE')
                AND EXISTS (SELECT FROM pg_depend d JOIN pg_index i ON i.indexrelid = d.objid
                             WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = 'claims.canonical_form(text, text)'::regprocedure
                               AND d.classid = 'pg_class'::regclass AND i.indrelid = c.oid AND i.indisvalid) AS has_form_index,
                a.enforcement, round(a.share * 10000)::int8 AS share, a.approved_owner::oid, a.approved_cell
           FROM claims.claimed_attributes a
           JOIN pg_class c ON c.oid = a.table_name JOIN pg_namespace n ON n.oid = c.relnamespace
           LEFT JOIN (SELECT k.*, ", base_type!("k"), " AS base_type FROM pg_attribute k) k
                  ON k.attrelid = c.oid AND k.attname = a.source_key AND k.attnum > 0 AND NOT k.attisdropped
           LEFT JOIN pg_type y ON y.oid = k.base_type
          WHERE (:source_type IS NULL OR a.source_type = :source_type) AND (:bucket_type IS NULL OR a.bucket_type = :bucket_type)
          ORDER BY c.oid, a.attribute, a.declaration");
}
