//! Finds the index by which a search finds the rows with a name.

use pgrx::pg_sys::Oid;

use super::keys::base_type;
use pg::query::{query, record};

record! {
    /// An index that a search could not use.
    pub struct MissingIndex {
        pub table: String,
        pub column: String,
        /// The statement that creates it, or that permits the table's owner to use it.
        pub statement: String,
    }
}

query! {
    /// Returns the index for names of a quoted column under a profile, if it does not exist or the table's owner may not use it. Searches
    /// compare the column as text. pg_get_indexdef() prints the expression of an index with its casts.
    pub fn missing(table: Oid, quoted_column: &str, profile: &str) -> Option<MissingIndex> = [Latest] concat!(
        "SELECT m.table, m.column, m.statement
           FROM (SELECT n.table_name AS table, n.column_name AS column,
                        CASE WHEN NOT EXISTS
                                  (SELECT FROM pg_index i
                                    WHERE i.indrelid = n.oid AND i.indisvalid AND i.indpred IS NULL
                                      AND (n.is_plain AND i.indkey[0] = n.attnum
                                           OR i.indkey[0] = 0
                                          AND pg_get_indexdef(i.indexrelid, 1, false) = ANY
                                              (CASE WHEN :profile = 'exact' THEN ARRAY[format('((%I)::text)', n.column_name)]
                                                    ELSE ARRAY[format('claims.canonical_form(%L::text, %I)', :profile, n.column_name),
                                                               format('claims.canonical_form(%L::text, (%I)::text)', :profile, n.column_name)] END)))
                             THEN format('CREATE INDEX %sON %s (%s)', CASE n.relkind WHEN 'p' THEN '' ELSE 'CONCURRENTLY ' END, n.table_name,
                                         CASE WHEN n.is_plain THEN quote_ident(n.column_name)
                                              WHEN :profile = 'exact' THEN format('(%I::text)', n.column_name)
                                              WHEN n.typcategory = 'S' THEN format('claims.canonical_form(%L, %I)', :profile, n.column_name)
                                              ELSE format('claims.canonical_form(%L, %I::text)', :profile, n.column_name) END)
                             WHEN NOT (:profile = 'exact'
                                       OR has_schema_privilege(n.relowner, 'claims', 'USAGE')
                                      AND has_function_privilege(n.relowner, 'claims.canonical_form(text, text)', 'EXECUTE'))
                             THEN format('GRANT USAGE ON SCHEMA claims TO %I', pg_get_userbyid(n.relowner)) END AS statement
                   FROM (SELECT c.oid, c.oid::regclass::text AS table_name, c.relkind, c.relowner, a.attname::text AS column_name, a.attnum,
                                y.typcategory,
                                :profile = 'exact' AND ", base_type!("a"), " IN ('text'::regtype, 'varchar'::regtype) AS is_plain
                           FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type y ON y.oid = a.atttypid
                          WHERE a.attrelid = :table AND quote_ident(a.attname) = :quoted_column AND a.attnum > 0 AND NOT a.attisdropped) n) m
          WHERE m.statement IS NOT NULL");
}
