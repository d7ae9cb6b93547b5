//! Statements on tables whose columns are to be claimed, and on what is noted of it.

use pgrx::pg_sys::Oid;

use crate::pg::spi::{Connection, View};
use crate::pg::statement::statement;

statement! {
    /// Table $1: its name, its owner, and whether its columns can be claimed.
    TABLE(OIDOID) =
        "SELECT c.oid::regclass::text, c.relowner,
                c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND NOT c.relispartition
                AND c.relnamespace <> ALL ('{pg_catalog,information_schema,claims}'::regnamespace[])
                AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid OR i.inhparent = c.oid AND c.relkind = 'r')
           FROM pg_class c WHERE c.oid = $1";
    /// The column that is the primary key of table $1 by itself.
    KEY_COLUMN(OIDOID) =
        "SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
          WHERE i.indrelid = $1 AND i.indisprimary AND i.indnkeyatts = 1";
    /// Column $2 of table $1: its type, whether that looks the same in every session, whether triggers do not see it, and whether
    /// a unique index keeps its values apart.
    COLUMN(OIDOID, TEXTOID) =
        "SELECT format_type(a.atttypid, NULL), claims.has_fixed_text(a.atttypid), a.attgenerated = 'v',
                EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid
                           AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum AND i.indexprs IS NULL)
           FROM pg_attribute a WHERE a.attrelid = $1 AND a.attname = $2::name AND a.attnum > 0 AND NOT a.attisdropped";
    RECORD(OIDOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID) =
        "INSERT INTO claims.claimed_attributes AS a
                (table_name, attribute, bucket_type, subject_type, subject_key, source_type, source_key, condition)
         VALUES ($1::regclass, $2::name, $3, $4, $5::name, $6, $7::name, $8)
             ON CONFLICT (table_name, attribute) DO UPDATE
            SET bucket_type = excluded.bucket_type, subject_type = excluded.subject_type, subject_key = excluded.subject_key,
                source_type = excluded.source_type, source_key = excluded.source_key, condition = excluded.condition";
    FORGET(OIDOID, TEXTOID) =
        "DELETE FROM claims.claimed_attributes a WHERE a.table_name = $1::regclass AND a.attribute = $2::name";
    IS_CLAIMED(OIDOID) = "SELECT FROM claims.claimed_attributes a WHERE a.table_name = $1::regclass LIMIT 1";
}

/// A table of the application.
pub struct ClaimableTable {
    pub name: String,
    pub owner: Oid,
    pub can_be_claimed: bool,
}

pub fn table(connection: &Connection, table: Oid) -> Option<ClaimableTable> {
    let found = connection.run(&TABLE, View::Latest, [table.into()]);
    found.first(|row| ClaimableTable { name: row.must(1), owner: row.must(2), can_be_claimed: row.must(3) })
}

/// The column that is the primary key by itself.
pub fn key_column(connection: &Connection, table: Oid) -> Option<String> {
    connection.run(&KEY_COLUMN, View::Latest, [table.into()]).first(|row| row.must(1))
}

/// A column of it.
pub struct ClaimableColumn {
    pub type_name: String,
    pub has_fixed_text: bool,
    pub is_virtual: bool,
    pub is_unique: bool,
}

pub fn column(connection: &Connection, table: Oid, column: &str) -> Option<ClaimableColumn> {
    let found = connection.run(&COLUMN, View::Latest, [table.into(), column.into()]);
    found.first(|row| ClaimableColumn {
        type_name: row.must(1),
        has_fixed_text: row.must(2),
        is_virtual: row.must(3),
        is_unique: row.must(4),
    })
}

/// How a column is claimed, types by names that never change.
pub struct Declaration {
    pub attribute: String,
    pub bucket_type: String,
    pub subject_type: String,
    pub subject_key: String,
    pub source_type: String,
    /// `None`: not known yet.
    pub source_key: Option<String>,
    pub condition: Option<String>,
}

pub fn record(connection: &Connection, table: Oid, declaration: &Declaration) {
    let Declaration { attribute, bucket_type, subject_type, subject_key, source_type, source_key, condition } =
        declaration;
    let texts = [attribute, bucket_type, subject_type, subject_key, source_type].map(|text| text.as_str().into());
    let values = [table.into()].into_iter().chain(texts);
    let values = values.chain([source_key.as_deref().into(), condition.as_deref().into()]);
    connection.run(&RECORD, View::Statement, values);
}

/// `false`: it was not claimed.
pub fn forget(connection: &Connection, table: Oid, attribute: &str) -> bool {
    connection.run(&FORGET, View::Statement, [table.into(), attribute.into()]).count() > 0
}

/// Whether any column of a table is claimed.
pub fn is_claimed(connection: &Connection, table: Oid) -> bool {
    connection.run(&IS_CLAIMED, View::Statement, [table.into()]).count() > 0
}
