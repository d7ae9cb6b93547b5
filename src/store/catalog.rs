//! A cache of the type tables, the cells, their modes and their limits. Each session keeps it until one of these tables changes.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CStr;
use std::rc::Rc;

use claims_model::{Kind, Naming, TypeTable, Types};
use pgrx::PgTrigger;
use pgrx::pg_sys::Oid;

use crate::store::namings::{self, NamingRows};
use crate::tables::shared::limits::{self, CellLimits};
use crate::tables::shared::modes::{self, ModeSetting};
use crate::tables::{self, Tables};
use pg::spi::{self, Connection, Row, View};
use pg::statement::{self, Reach, shared_statement};
use pg::table::{RowVersion, TableRow};
use pg::{cache, compatibility, table};

shared_statement! {
    /// Reads the type tables and the cells, where a scan of the table itself would find no rows.
    /// `part` is 1 for bucket types with profile and confusables (all other types compare bytes), 2 for subject types,
    /// 3 for source types, 4 for names with their kind, and 5 for cells.
    ALL() =
        "SELECT 1 AS part, b.id::bigint, b.name, b.profile, b.confusables, NULL::boolean AS first, NULL::oid AS role, NULL::text AS role_name
           FROM claims.bucket_types b
         UNION ALL SELECT 2, s.id, s.name, NULL, NULL, NULL, NULL, NULL FROM claims.subject_types s
         UNION ALL SELECT 3, s.id, s.name, NULL, NULL, NULL, NULL, NULL FROM claims.source_types s
         UNION ALL SELECT 4, n.id, n.name, n.kind, NULL, n.first, NULL, NULL FROM claims.type_names n
         UNION ALL SELECT 5, c.cell_id, c.name, c.address, NULL, NULL, c.role::oid, c.role_name::text FROM claims.cells c";
}

pub struct Cell {
    pub role: Oid,
    pub name: Option<String>,
    pub address: Option<String>,
}

/// The data that every call looks up.
pub struct Catalog {
    pub types: Types,
    /// The types under their first names; `None` if no type has been renamed.
    renamed: Option<Types>,
    pub cells: HashMap<i64, Cell>,
    pub modes: Vec<ModeSetting>,
    pub limits: HashMap<i64, CellLimits>,
    /// The versions of the rows of `bucket_types` from which `types.naming` was read.
    pub naming_rows: NamingRows,
}

impl Catalog {
    /// Returns how many fences and denied calls of a cell have rows in the audit log within a second.
    pub fn refusals_per_second(&self, cell_id: i64) -> i32 {
        let of_cell = self.limits.get(&cell_id).and_then(|limits| limits.refusals_per_second);
        of_cell.unwrap_or(limits::REFUSALS_PER_SECOND)
    }

    /// Returns the types under their first names, which never change. Digests use them: two digests may be computed at
    /// different times or in different databases.
    pub fn lasting_types(&self) -> &Types {
        self.renamed.as_ref().unwrap_or(&self.types)
    }

    /// Returns the types with the comparison rules that the snapshot of the calling query shows, for type `only` or for all.
    pub fn types_in_snapshot(&self, tables: &dyn Tables, only: Option<i32>) -> Cow<'_, Types> {
        namings::types_in_snapshot(tables, &self.types, &self.naming_rows, only)
    }
}

thread_local! {
    static CACHED: RefCell<Option<(u64, Rc<Catalog>)>> = const { RefCell::new(None) };
}

/// Maximum number of reads by which [load] tries to get a result that it may cache.
const MAX_READS: usize = 3;

/// Returns the catalog: what is committed now, and what this transaction has changed. It is never older than the last
/// invalidation that this session has received, even if the transaction's snapshot is older.
pub fn current(connection: &Connection) -> Rc<Catalog> {
    let catalog = cached().unwrap_or_else(|| load(connection));
    statement::require(Reach::Anywhere);
    catalog
}

/// Returns whether two names, one of them perhaps of the service, are names of one source type.
pub fn same_source_type(connection: &Connection, one: &str, other: &str) -> bool {
    let catalog = current(connection);
    let id = |name| catalog.types.source.id(name);
    one == other || id(one).is_some_and(|one| id(other) == Some(one))
}

/// Like [current], for callers that do not need SPI otherwise.
pub fn current_without_spi() -> Rc<Catalog> {
    let catalog = cached().unwrap_or_else(|| spi::connect_as_owner(load));
    statement::require(Reach::Anywhere);
    catalog
}

pub fn current_if_cached() -> Option<Rc<Catalog>> {
    cached()
}

fn cached() -> Option<Rc<Catalog>> {
    let version = cache::version();
    if !compatibility::is_checked() {
        return None;
    }
    CACHED.with_borrow(|cached| cached.as_ref().filter(|(of, _)| *of == version).map(|(_, c)| c.clone()))
}

fn load(connection: &Connection) -> Rc<Catalog> {
    compatibility::require();
    let mut reads = 0;
    cache::watch(TABLES.iter().copied().filter_map(table::number).collect());
    loop {
        // An invalidation that arrives during the read may be of a change that the read has missed: read again.
        let version = cache::version();
        let catalog = Rc::new(read(connection, version));
        if cache::version() == version {
            CACHED.replace(Some((version, catalog.clone())));
            return catalog;
        }
        // Invalidations keep arriving (always, under `debug_discard_caches`). Each table was read as committed at that moment,
        // so the result is good for this call. It is not cached.
        reads += 1;
        if reads == MAX_READS {
            return catalog;
        }
    }
}

/// The tables that the catalog is read from.
const TABLES: [&CStr; 7] =
    [c"bucket_types", c"subject_types", c"source_types", c"type_names", c"cells", c"mode_settings", c"limit_settings"];

/// A row of one of [TABLES].
enum CatalogRow {
    /// A type. `naming` is set for a bucket type that does not compare byte by byte.
    Type {
        kind: Kind,
        id: i32,
        name: String,
        naming: Option<Naming>,
        version: Option<RowVersion>,
    },
    Name {
        kind: Kind,
        id: i32,
        name: String,
        is_first: bool,
    },
    Cell {
        id: i64,
        cell: Cell,
    },
}

fn read(connection: &Connection, read_at: u64) -> Catalog {
    let mut shown: [Vec<(i32, String)>; 3] = Default::default();
    let mut names: [Vec<(i32, String, bool)>; 3] = Default::default();
    let (mut naming, mut cells, mut versions) = (HashMap::new(), HashMap::new(), HashMap::new());
    let rows = scanned();
    let has_versions = rows.is_some();
    for row in rows.unwrap_or_else(|| queried(connection)) {
        match row {
            CatalogRow::Type { kind, id, name, naming: other, version } => {
                shown[kind as usize].push((id, name));
                naming.extend(other.map(|other| (id, other)));
                versions.extend(version.map(|version| (id, version)));
            }
            CatalogRow::Name { kind, id, name, is_first } => names[kind as usize].push((id, name, is_first)),
            CatalogRow::Cell { id, cell } => cells.extend([(id, cell)]),
        }
    }
    let mut tables = shown.into_iter().zip(names).map(|(shown, names)| TypeTable::new(shown).with_names(names));
    let mut table = || tables.next().unwrap_or_default();
    let types = Types { bucket: table(), subject: table(), source: table(), naming };
    // In most installations these two tables are empty.
    let has_rows = |table| !tables::have_rows_here() || table::rows(table, |_| ()).is_none_or(|rows| !rows.is_empty());
    Catalog {
        renamed: types.by_first_names(),
        types,
        cells,
        modes: if has_rows(c"mode_settings") { modes::all(connection) } else { Vec::new() },
        limits: if has_rows(c"limit_settings") { limits::all(connection) } else { Vec::new() }.into_iter().collect(),
        naming_rows: NamingRows { read_at, versions: has_versions.then_some(versions) },
    }
}

/// Reads the rows by scanning the tables. Returns `None` if a table is missing, or its rows may be elsewhere.
fn scanned() -> Option<Vec<CatalogRow>> {
    if !tables::have_rows_here() {
        return None;
    }
    let bucket_type = |row: &TableRow| {
        let (id, name) = (row.must(c"id"), row.must(c"name"));
        let (naming, version) = namings::of_row(row);
        CatalogRow::Type { kind: Kind::Bucket, id, name, naming, version }
    };
    let type_of = |kind| {
        move |row: &TableRow| {
            let (id, name) = (row.must(c"id"), row.must(c"name"));
            CatalogRow::Type { kind, id, name, naming: None, version: None }
        }
    };
    let mut rows = table::rows(c"bucket_types", bucket_type)?;
    rows.extend(table::rows(c"subject_types", type_of(Kind::Subject))?);
    rows.extend(table::rows(c"source_types", type_of(Kind::Source))?);
    let name = |row: &TableRow| {
        let kind = Kind::named(&row.must::<String>(c"kind"))?;
        let (name, id, is_first) = (row.must(c"name"), row.must(c"id"), row.must(c"first"));
        Some(CatalogRow::Name { kind, id, name, is_first })
    };
    rows.extend(table::rows(c"type_names", name)?.into_iter().flatten());
    let cell = |row: &TableRow| {
        let (id, role) = (row.must(c"cell_id"), row.must(c"role"));
        CatalogRow::Cell { id, cell: Cell { role, name: row.get(c"name"), address: row.get(c"address") } }
    };
    rows.extend(table::rows(c"cells", cell)?);
    Some(rows)
}

/// Reads the rows by [ALL].
fn queried(connection: &Connection) -> Vec<CatalogRow> {
    let tables = tables::of_this_database();
    let each = |row: Row| {
        // Ids of types are int4.
        let (part, number) = (row.must::<i32>(1), row.must::<i64>(2));
        let id = i32::try_from(number).unwrap_or_default();
        let shown = |kind, naming| Some(CatalogRow::Type { kind, id, name: row.must(3), naming, version: None });
        match part {
            1 => shown(Kind::Bucket, namings::naming(&row.must::<String>(4), &row.must::<String>(5))),
            2 => shown(Kind::Subject, None),
            3 => shown(Kind::Source, None),
            4 => {
                let kind = Kind::named(&row.must::<String>(4))?;
                Some(CatalogRow::Name { kind, id, name: row.must(3), is_first: row.must(6) })
            }
            _ => {
                // In distributed tables the oid of a role is that of the node which wrote the row.
                let role = tables.role(row.must(7), row.get(8));
                Some(CatalogRow::Cell { id: number, cell: Cell { role, name: row.get(3), address: row.get(4) } })
            }
        }
    };
    connection.run(&ALL, View::Latest, []).map(each).into_iter().flatten().collect()
}

/// Handles the statement trigger on the cached tables; sql/install/service/admin.sql declares it.
pub fn announce_change(trigger: &PgTrigger) {
    if let (Ok(relation), Ok(name)) = (trigger.relid(), trigger.table_name()) {
        cache::announce_change(relation);
        // On the nodes of a Citus cluster the row is in a shard, but sessions watch the distributed table.
        let table = name.trim_end_matches(|c: char| c.is_ascii_digit()).strip_suffix('_');
        if let Some(table) = table.filter(|table| *table != name).and_then(table::by_name) {
            cache::announce_change(table);
        }
    }
}
