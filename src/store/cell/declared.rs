//! Statements on tables that can have claimed columns, and on `claims.claimed_attributes`.

use claims_model::Profile;
use claims_model::origin::Approval;
use pgrx::pg_sys::Oid;

use pg::spi::{Connection, View};
use pg::statement::statement;

statement! {
    /// Returns the name and the owner of table $1, and whether its columns can be claimed.
    TABLE(OIDOID) =
        "SELECT c.oid::regclass::text, c.relowner,
                c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND NOT c.relispartition
                AND c.relnamespace <> ALL ('{pg_catalog,information_schema,claims}'::regnamespace[])
                AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid OR i.inhparent = c.oid AND c.relkind = 'r')
           FROM pg_class c WHERE c.oid = $1";
    /// Returns the column of table $1's primary key, if the key has one column.
    KEY_COLUMN(OIDOID) =
        "SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
          WHERE i.indrelid = $1 AND i.indisprimary AND i.indnkeyatts = 1";
    /// Returns the type of column $2 of table $1, whether its text is the same in every session, and whether the column is a virtual
    /// generated column, which triggers do not see.
    COLUMN(OIDOID, TEXTOID) =
        "SELECT format_type(a.atttypid, NULL), claims.has_fixed_text(a.atttypid), a.attgenerated = 'v'
           FROM pg_attribute a WHERE a.attrelid = $1 AND a.attname = $2::name AND a.attnum > 0 AND NOT a.attisdropped";
    /// For column $2 of table $1 and profile $3: returns the expression of a suitable unique index, whether the table has a unique
    /// index on that expression or on the column, and whether the table is partitioned. pg_get_indexdef() prints the expression
    /// with its casts.
    UNIQUENESS(OIDOID, TEXTOID, TEXTOID) =
        "SELECT CASE WHEN $3 = 'exact' THEN quote_ident(a.attname)
                     WHEN y.typcategory = 'S' THEN format('claims.canonical_form(%L, %I)', $3, a.attname)
                     ELSE format('claims.canonical_form(%L, %I::text)', $3, a.attname) END,
                EXISTS (SELECT FROM pg_index i
                         WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1
                           AND (i.indkey[0] = a.attnum
                                OR i.indkey[0] = 0
                               AND pg_get_indexdef(i.indexrelid, 1, false) IN
                                   (format('claims.canonical_form(%L::text, %I)', $3, a.attname),
                                    format('claims.canonical_form(%L::text, (%I)::text)', $3, a.attname)))),
                c.relkind = 'p'
           FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid JOIN pg_class c ON c.oid = a.attrelid
          WHERE a.attrelid = $1 AND a.attname = $2::name";
    /// Reads declaration $3 of column $2 of table $1.
    DECLARATION(OIDOID, TEXTOID, TEXTOID) =
        "SELECT a.bucket_type, a.subject_type, a.subject_key::text, a.source_type, a.source_key::text, a.condition, a.constraint_name::text
           FROM claims.claimed_attributes a
          WHERE a.table_name = $1::regclass AND a.attribute = $2::name AND a.declaration = $3::name";
    /// A trigger of the table completes what is NULL.
    RECORD(OIDOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, OIDOID, INT8OID) =
        "INSERT INTO claims.claimed_attributes AS a (table_name, attribute, bucket_type, subject_type, subject_key, source_type,
                source_key, condition, declaration, constraint_name, approved_owner, approved_cell)
         VALUES ($1::regclass, $2::name, $3, $4, $5::name, $6, $7::name, $8, $9::name, $10::name, $11::regrole, $12)
             ON CONFLICT (table_name, attribute, declaration) DO UPDATE
            SET bucket_type = excluded.bucket_type, subject_type = excluded.subject_type, subject_key = excluded.subject_key,
                source_type = excluded.source_type, source_key = excluded.source_key, condition = excluded.condition,
                constraint_name = excluded.constraint_name,
                approved_owner = excluded.approved_owner, approved_cell = excluded.approved_cell";
    /// Returns a table with claims of source type $1 that role $2 may not read, or whose rows a policy hides from it.
    UNREADABLE(TEXTOID, OIDOID) =
        "SELECT c.oid::regclass::text FROM claims.claimed_attributes a JOIN pg_class c ON c.oid = a.table_name
          WHERE a.source_type = $1 AND NOT pg_has_role($2, c.relowner, 'USAGE')
            AND NOT (has_schema_privilege($2, c.relnamespace, 'USAGE') AND has_table_privilege($2, c.oid, 'SELECT')
                     AND (NOT c.relrowsecurity OR EXISTS (SELECT FROM pg_roles r WHERE r.oid = $2 AND (r.rolsuper OR r.rolbypassrls))))
          ORDER BY c.oid LIMIT 1";
    /// Deletes declaration $3 of column $2 of table $1, or all of the column.
    FORGET(OIDOID, TEXTOID, TEXTOID) =
        "DELETE FROM claims.claimed_attributes a
          WHERE a.table_name = $1::regclass AND a.attribute = $2::name AND ($3 IS NULL OR a.declaration = $3::name)";
    /// Sets mode $4 and share $5 of declaration $3 of column $2 of table $1, or of all of the column.
    SET_ENFORCEMENT(OIDOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID) =
        "UPDATE claims.claimed_attributes a SET enforcement = $4, share = $5::numeric
          WHERE a.table_name = $1::regclass AND a.attribute = $2::name AND ($3 IS NULL OR a.declaration = $3::name)";
    /// Returns the source types of the declarations of column $2 of table $1, or of declaration $3, that are not enforced for all names.
    NOT_ENFORCED(OIDOID, TEXTOID, TEXTOID) =
        "SELECT DISTINCT a.source_type FROM claims.claimed_attributes a
          WHERE a.table_name = $1::regclass AND a.attribute = $2::name AND ($3 IS NULL OR a.declaration = $3::name)
            AND (a.enforcement <> 'enforce' OR a.share < 100) ORDER BY 1";
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

/// Returns the column of the table's primary key, if the key has one column.
pub fn key_column(connection: &Connection, table: Oid) -> Option<String> {
    connection.run(&KEY_COLUMN, View::Latest, [table.into()]).first(|row| row.must(1))
}

/// A column of a table of the application.
pub struct ClaimableColumn {
    pub type_name: String,
    pub has_fixed_text: bool,
    pub is_virtual: bool,
}

pub fn column(connection: &Connection, table: Oid, column: &str) -> Option<ClaimableColumn> {
    let found = connection.run(&COLUMN, View::Latest, [table.into(), column.into()]);
    found.first(|row| ClaimableColumn { type_name: row.must(1), has_fixed_text: row.must(2), is_virtual: row.must(3) })
}

/// The unique index that PostgreSQL has, or could have, on the names of a column.
pub struct Uniqueness {
    /// The expression that a suitable unique index would be on.
    pub expression: String,
    /// Whether there is a unique index on the expression or on the column.
    pub has_unique_index: bool,
    pub is_partitioned: bool,
}

/// Returns the unique index for the names of a column that a profile compares.
pub fn uniqueness(connection: &Connection, table: Oid, column: &str, profile: Profile) -> Option<Uniqueness> {
    let found = connection.run(&UNIQUENESS, View::Latest, [table.into(), column.into(), profile.name().into()]);
    found.first(|row| Uniqueness {
        expression: row.must(1),
        has_unique_index: row.must(2),
        is_partitioned: row.must(3),
    })
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

/// Returns a declaration of a column, or `None` if there is none with this name.
pub fn declaration(connection: &Connection, table: Oid, attribute: &str, name: &str) -> Option<Declaration> {
    let values = [table.into(), attribute.into(), name.into()];
    connection.run(&DECLARATION, View::Latest, values).first(|row| Declaration {
        attribute: attribute.to_owned(),
        name: name.to_owned(),
        bucket_type: row.must(1),
        subject_type: row.must(2),
        subject_key: row.must(3),
        source_type: row.must(4),
        source_key: row.get(5),
        condition: row.get(6),
        constraint_name: row.get(7),
    })
}

pub fn record(connection: &Connection, table: Oid, declaration: &Declaration, approval: &Approval) {
    let Declaration { attribute, name, bucket_type, subject_type, subject_key, source_type, .. } = declaration;
    let texts = [attribute, bucket_type, subject_type, subject_key, source_type].map(|text| text.as_str().into());
    let values = [table.into()].into_iter().chain(texts);
    let [source_key, condition, constraint_name] =
        [&declaration.source_key, &declaration.condition, &declaration.constraint_name]
            .map(|text| text.as_deref().into());
    let values = values.chain([source_key, condition, name.as_str().into(), constraint_name]);
    let values = values.chain([approval.owner.map(Oid::from).into(), approval.cell_id.into()]);
    connection.run(&RECORD, View::Statement, values);
}

/// Deletes a declaration of a column, or with `None` all of them. Returns whether there was one.
pub fn forget(connection: &Connection, table: Oid, attribute: &str, name: Option<&str>) -> bool {
    connection.run(&FORGET, View::Statement, [table.into(), attribute.into(), name.into()]).count() > 0
}

/// Sets the enforcement of a declaration of a column, or with `None` of all. Returns whether there is one.
pub fn set_enforcement(
    connection: &Connection,
    table: Oid,
    attribute: &str,
    name: Option<&str>,
    mode: &str,
    share: &str,
) -> bool {
    let values = [table.into(), attribute.into(), name.into(), mode.into(), share.into()];
    connection.run(&SET_ENFORCEMENT, View::Statement, values).count() > 0
}

/// Returns the source types of the declarations of a column, or of one of them, that are not enforced for all names.
pub fn not_enforced(connection: &Connection, table: Oid, attribute: &str, name: Option<&str>) -> Vec<String> {
    let values = [table.into(), attribute.into(), name.into()];
    connection.run(&NOT_ENFORCED, View::Statement, values).map(|row| row.must(1))
}

pub fn is_claimed(connection: &Connection, table: Oid) -> bool {
    connection.run(&IS_CLAIMED, View::Statement, [table.into()]).count() > 0
}

/// Returns the name of a table with claims of a source type whose rows a role may not read, if there is one.
pub fn unreadable_table(connection: &Connection, source_type: &str, role: Oid) -> Option<String> {
    connection.run(&UNREADABLE, View::Latest, [source_type.into(), role.into()]).first(|row| row.must(1))
}
