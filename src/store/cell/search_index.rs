//! Finds the index by which a search finds the rows with a name.

use claims_model::Profile;
use pgrx::pg_sys::Oid;

use super::keys::base_type;
use pg::spi::{Connection, View};
use pg::statement::statement;

statement! {
    /// For column $2 (quoted) of table $1 and profile $3: returns the table, the column, the statement that creates the index,
    /// whether the index exists, whether the table's owner may use it, and the GRANT that permits it. Searches compare the column
    /// as text. pg_get_indexdef() prints the expression of an index with its casts.
    SEARCH_INDEX(OIDOID, TEXTOID, TEXTOID) = concat!(
        "SELECT n.table_name, n.attname,
                format('CREATE INDEX %sON %s (%s)', CASE n.relkind WHEN 'p' THEN '' ELSE 'CONCURRENTLY ' END, n.table_name,
                       CASE WHEN n.is_plain THEN quote_ident(n.attname)
                            WHEN $3 = 'exact' THEN format('(%I::text)', n.attname)
                            WHEN n.typcategory = 'S' THEN format('claims.canonical_form(%L, %I)', $3, n.attname)
                            ELSE format('claims.canonical_form(%L, %I::text)', $3, n.attname) END),
                EXISTS (SELECT FROM pg_index i
                         WHERE i.indrelid = n.oid AND i.indisvalid AND i.indpred IS NULL
                           AND (n.is_plain AND i.indkey[0] = n.attnum
                                OR i.indkey[0] = 0
                               AND pg_get_indexdef(i.indexrelid, 1, false) = ANY
                                   (CASE WHEN $3 = 'exact' THEN ARRAY[format('((%I)::text)', n.attname)]
                                         ELSE ARRAY[format('claims.canonical_form(%L::text, %I)', $3, n.attname),
                                                    format('claims.canonical_form(%L::text, (%I)::text)', $3, n.attname)] END))),
                $3 = 'exact'
                OR has_schema_privilege(n.relowner, 'claims', 'USAGE')
               AND has_function_privilege(n.relowner, 'claims.canonical_form(text, text)', 'EXECUTE'),
                format('GRANT USAGE ON SCHEMA claims TO %I', pg_get_userbyid(n.relowner))
           FROM (SELECT c.oid, c.oid::regclass::text AS table_name, c.relkind, c.relowner, a.attname::text, a.attnum, y.typcategory,
                        $3 = 'exact' AND ", base_type!("a"), " IN ('text'::regtype, 'varchar'::regtype) AS is_plain
                   FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type y ON y.oid = a.atttypid
                  WHERE a.attrelid = $1 AND quote_ident(a.attname) = $2 AND a.attnum > 0 AND NOT a.attisdropped) n");
}

/// An index that a search could not use.
pub struct MissingIndex {
    pub table: String,
    pub column: String,
    /// The statement that creates it, or that permits the table's owner to use it.
    pub statement: String,
}

/// Returns the index for names of a quoted column, if it does not exist or the table's owner may not use it.
pub fn missing(connection: &Connection, table: Oid, column: &str, profile: Profile) -> Option<MissingIndex> {
    let found = connection.run(&SEARCH_INDEX, View::Latest, [table.into(), column.into(), profile.name().into()]);
    found
        .first(|row| {
            let missing = |statement| MissingIndex { table: row.must(1), column: row.must(2), statement };
            match (row.must(4), row.must(5)) {
                (true, true) => None,
                (true, false) => Some(missing(row.must(6))),
                (false, _) => Some(missing(row.must(3))),
            }
        })
        .flatten()
}
