//! A cache of the type tables, the cells, their modes and their limits. Each session keeps it until one of these tables changes.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CStr;
use std::rc::Rc;

use claims_model::quarantine::{LONGEST_US, Quarantine, Reclaim};
use claims_model::{Kind, Naming, TypeTable, Types};
use pgrx::PgTrigger;
use pgrx::datum::Interval;
use pgrx::pg_sys::Oid;

use super::limits::{self, CellLimits};
use super::modes::{self, ModeSetting};
use super::namings::{self, NamingRows};
use super::tables::{self, Tables};
use pg::clock::Moment;
use pg::query::{query, record};
use pg::spi::{self, Connection};
use pg::statement::{self, Reach};
use pg::table::{RowStamp, TableRow};
use pg::{cache, compatibility, table};

record! {
    /// A row of one of [TABLES]. Columns that its table does not have are empty.
    struct AnyRow {
        /// The kind of row: `type`, `name` or `cell`.
        part: String,
        /// The kind of type.
        kind: String,
        id: i64,
        name: String,
        profile: String,
        confusables: String,
        keep_for: Option<Interval>,
        reclaim: String,
        first: bool,
        cell_name: Option<String>,
        address: Option<String>,
        role: Oid,
        role_name: Option<String>,
    }
}

query! {
    /// Reads the type tables and the cells, where a scan of the table itself would find no rows. Subject and source types have no profile,
    /// which compares them byte by byte.
    fn all() -> Vec<AnyRow> = [Latest Anywhere]
        "SELECT 'type' AS part, 'bucket' AS kind, b.id::bigint, b.name, b.profile, b.confusables, b.keep_for, b.reclaim, false AS first,
                NULL::text AS cell_name, NULL::text AS address, 0::oid AS role, NULL::text AS role_name FROM claims.bucket_types b
         UNION ALL SELECT 'type', 'subject', s.id, s.name, '', '', NULL, '', false, NULL, NULL, 0::oid, NULL FROM claims.subject_types s
         UNION ALL SELECT 'type', 'source', s.id, s.name, '', '', NULL, '', false, NULL, NULL, 0::oid, NULL FROM claims.source_types s
         UNION ALL SELECT 'name', n.kind, n.id, n.name, '', '', NULL, '', n.first, NULL, NULL, 0::oid, NULL FROM claims.type_names n
         UNION ALL SELECT 'cell', '', c.cell_id, '', '', '', NULL, '', false, c.name, c.address, c.role::oid, c.role_name::text FROM claims.cells c";
}

/// The cell for which a database claims that needs none otherwise: for its unique columns. The largest number that every client of JSON reads
/// exactly.
pub const CELL_OF_DATABASE: i64 = (1 << 53) - 1;

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
    /// How long names are kept back after their owners gave them up, for those bucket types whose names are.
    pub quarantines: HashMap<i32, Quarantine>,
    /// The versions of the rows of `bucket_types` from which `types.naming` was read.
    pub naming_rows: NamingRows,
}

impl Catalog {
    /// Returns who may have names of a type while they are kept back. For a type whose quarantine has ended, names may still be.
    pub fn reclaim(&self, bucket_type: i32) -> Reclaim {
        self.quarantines.get(&bucket_type).map(|quarantine| quarantine.reclaim).unwrap_or_default()
    }

    /// Returns until when a name is kept back that is given up at a time, or `None` if its type has no quarantine.
    pub fn available_at(&self, bucket_type: i32, given_up_at: Moment) -> Option<Moment> {
        let quarantine = self.quarantines.get(&bucket_type)?;
        Some(Moment(given_up_at.0.saturating_add(quarantine.keep_for_us)))
    }

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

    /// Returns the types with the comparison rules that the snapshot of the calling query shows, for type `only` or for all. Distributed
    /// tables have no such snapshot: then the types are returned unchanged.
    pub fn types_in_snapshot(&self, tables: Tables, only: Option<i32>) -> Cow<'_, Types> {
        if !tables.have_snapshot() {
            return Cow::Borrowed(&self.types);
        }
        namings::types_in_snapshot(&self.types, &self.naming_rows, only)
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
    let catalog = current_if_cached().unwrap_or_else(|| load(connection));
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
    let catalog = current_if_cached().unwrap_or_else(|| spi::connect_as_owner(load));
    statement::require(Reach::Anywhere);
    catalog
}

pub fn current_if_cached() -> Option<Rc<Catalog>> {
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

/// The rows of [TABLES].
#[derive(Default)]
struct CatalogRows {
    /// The shown names of the types of each kind.
    shown: [Vec<(i32, String)>; 3],
    /// All names of the types of each kind, and whether each was the first one.
    names: [Vec<(i32, String, bool)>; 3],
    /// The bucket types that do not compare byte by byte.
    naming: HashMap<i32, Naming>,
    quarantines: HashMap<i32, Quarantine>,
    /// The versions of the rows of bucket types; `None` if a statement has read them.
    versions: Option<HashMap<i32, RowStamp>>,
    cells: HashMap<i64, Cell>,
}

fn read(connection: &Connection, read_at: u64) -> Catalog {
    let CatalogRows { shown, names, naming, quarantines, versions, cells } =
        scanned().unwrap_or_else(|| queried(connection));
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
        quarantines,
        naming_rows: NamingRows { read_at, versions },
    }
}

/// Reads the rows by scanning the tables. Returns `None` if a table is missing, or its rows may be elsewhere.
fn scanned() -> Option<CatalogRows> {
    if !tables::have_rows_here() {
        return None;
    }
    let (mut rows, mut versions) = (CatalogRows::default(), HashMap::new());
    let bucket_type = |row: &TableRow| {
        let quarantine = quarantine(row.get(c"keep_for"), &row.must::<String>(c"reclaim"));
        (row.must(c"id"), row.must(c"name"), namings::of_row(row), quarantine)
    };
    for (id, name, (naming, version), quarantine) in table::rows(c"bucket_types", bucket_type)? {
        rows.quarantines.extend(quarantine.map(|quarantine| (id, quarantine)));
        rows.shown[Kind::Bucket as usize].push((id, name));
        rows.naming.extend(naming.map(|naming| (id, naming)));
        versions.extend(version.map(|version| (id, version)));
    }
    let other_type = |row: &TableRow| (row.must(c"id"), row.must(c"name"));
    rows.shown[Kind::Subject as usize] = table::rows(c"subject_types", other_type)?;
    rows.shown[Kind::Source as usize] = table::rows(c"source_types", other_type)?;
    let name = |row: &TableRow| (row.must::<String>(c"kind"), (row.must(c"id"), row.must(c"name"), row.must(c"first")));
    for (kind, name) in table::rows(c"type_names", name)? {
        if let Some(kind) = Kind::named(&kind) {
            rows.names[kind as usize].push(name);
        }
    }
    let cell = |row: &TableRow| {
        let role = row.must(c"role");
        (row.must(c"cell_id"), Cell { role, name: row.get(c"name"), address: row.get(c"address") })
    };
    rows.cells = table::rows(c"cells", cell)?.into_iter().collect();
    Some(CatalogRows { versions: Some(versions), ..rows })
}

/// Returns how names of a bucket type are kept back, or `None` if they are not. The table's CHECK constraints admit no other words.
fn quarantine(keep_for: Option<Interval>, reclaim: &str) -> Option<Quarantine> {
    let keep_for_us = i64::try_from(keep_for?.as_micros()).unwrap_or(LONGEST_US).min(LONGEST_US);
    (keep_for_us > 0).then(|| Quarantine { keep_for_us, reclaim: Reclaim::named(reclaim).unwrap_or_default() })
}

/// Reads the rows by [all].
fn queried(connection: &Connection) -> CatalogRows {
    let (tables, mut rows) = (tables::of_this_database(), CatalogRows::default());
    for row in all(connection) {
        // Ids of types are int4.
        let (kind, id) = (Kind::named(&row.kind), i32::try_from(row.id).unwrap_or_default());
        match (&*row.part, kind) {
            ("type", Some(kind)) => {
                rows.shown[kind as usize].push((id, row.name));
                rows.quarantines.extend(quarantine(row.keep_for, &row.reclaim).map(|quarantine| (id, quarantine)));
                rows.naming.extend(namings::naming(&row.profile, &row.confusables).map(|naming| (id, naming)));
            }
            ("name", Some(kind)) => rows.names[kind as usize].push((id, row.name, row.first)),
            ("cell", _) => {
                // In distributed tables the oid of a role is that of the node which wrote the row.
                let role = tables.role(row.role, row.role_name);
                rows.cells.insert(row.id, Cell { role, name: row.cell_name, address: row.address });
            }
            _ => {}
        }
    }
    rows
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
