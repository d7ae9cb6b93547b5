//! Type tables, cells with their modes and limits, cached in the session until one of them changes anywhere.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CStr;
use std::rc::Rc;

use claims_model::{Confusables, Kind, Naming, Profile, TypeTable, Types};
use pgrx::pg_sys::Oid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::distribution;
use crate::pg::spi::{self, Connection, Row, View};
use crate::pg::statement::shared_statement;
use crate::pg::table::TableRow;
use crate::pg::{cache, citus, gate, roles, table};
use crate::store::service::limits::{self, CellLimits};
use crate::store::service::modes::{self, ModeSetting};

shared_statement! {
    /// Types, their names, and cells, for where their tables are not to be looked into: by part 1 bucket types with profile and
    /// confusables (all others compare bytes), 2 subject types, 3 source types, 4 names with their kind, 5 cells.
    ALL() =
        "SELECT 1 AS part, b.id::bigint, b.name, b.profile, b.confusables, NULL::boolean AS first, NULL::oid AS role, NULL::text AS role_name
           FROM claims.bucket_types b
         UNION ALL SELECT 2, s.id, s.name, NULL, NULL, NULL, NULL, NULL FROM claims.subject_types s
         UNION ALL SELECT 3, s.id, s.name, NULL, NULL, NULL, NULL, NULL FROM claims.source_types s
         UNION ALL SELECT 4, n.id, n.name, n.kind, NULL, n.first, NULL, NULL FROM claims.type_names n
         UNION ALL SELECT 5, c.cell_id, c.name, c.address, NULL, NULL, c.role::oid, c.role_name::text FROM claims.cells c";
}

/// A registered cell.
pub struct Cell {
    pub role: Oid,
    pub name: Option<String>,
    pub address: Option<String>,
}

/// What every call looks up.
pub struct Catalog {
    pub types: Types,
    /// The types by the names that they had first, where that makes a difference.
    renamed: Option<Types>,
    pub cells: HashMap<i64, Cell>,
    pub modes: Vec<ModeSetting>,
    pub limits: HashMap<i64, CellLimits>,
}

impl Catalog {
    /// The types by names that never change: for digests, which are compared with those of another time or place.
    pub fn lasting_types(&self) -> &Types {
        self.renamed.as_ref().unwrap_or(&self.types)
    }
}

thread_local! {
    static CACHED: RefCell<Option<(u64, Rc<Catalog>)>> = const { RefCell::new(None) };
}

/// How often to read a catalog that is to be kept.
const READINGS: usize = 3;

/// The catalog as of now: what is committed, and what this transaction changed itself. Never older than the last
/// change that this session was told of, whatever the transaction's own snapshot.
pub fn current(connection: &Connection) -> Rc<Catalog> {
    let catalog = cached().unwrap_or_else(|| load(connection));
    distribution::require_read_committed();
    catalog
}

/// The same, for calls that have no use for SPI themselves.
pub fn current_without_spi() -> Rc<Catalog> {
    let catalog = cached().unwrap_or_else(|| spi::connect(load));
    distribution::require_read_committed();
    catalog
}

/// The same, if this session has read it already.
pub fn current_as_known() -> Option<Rc<Catalog>> {
    cached()
}

fn cached() -> Option<Rc<Catalog>> {
    let version = cache::version();
    if !gate::is_open() {
        return None;
    }
    CACHED.with_borrow(|cached| cached.as_ref().filter(|(of, _)| *of == version).map(|(_, c)| c.clone()))
}

fn load(connection: &Connection) -> Rc<Catalog> {
    let mut readings = 0;
    cache::watch(TABLES.iter().copied().filter_map(table::number).collect());
    loop {
        // A change that is announced while the tables are read may be missed by the reading: then read again.
        let version = cache::version();
        let catalog = Rc::new(read(connection));
        if cache::version() == version {
            CACHED.replace(Some((version, catalog.clone())));
            return catalog;
        }
        // Something is announced at every look (always, under `debug_discard_caches`): what was committed when each table was
        // read is good for this call, and is not kept.
        readings += 1;
        if readings == READINGS {
            return catalog;
        }
    }
}

/// What the catalog is read from.
const TABLES: [&CStr; 7] =
    [c"bucket_types", c"subject_types", c"source_types", c"type_names", c"cells", c"mode_settings", c"limit_settings"];

/// A row of one of these tables.
enum CatalogRow {
    /// With how its names are compared, where it is a bucket type and that is not byte by byte.
    Type {
        kind: Kind,
        id: i32,
        name: String,
        naming: Option<Naming>,
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

fn read(connection: &Connection) -> Catalog {
    let mut shown: [Vec<(i32, String)>; 3] = Default::default();
    let mut names: [Vec<(i32, String, bool)>; 3] = Default::default();
    let (mut naming, mut cells) = (HashMap::new(), HashMap::new());
    for row in looked_up().unwrap_or_else(|| queried(connection)) {
        match row {
            CatalogRow::Type { kind, id, name, naming: other } => {
                shown[kind as usize].push((id, name));
                naming.extend(other.map(|other| (id, other)));
            }
            CatalogRow::Name { kind, id, name, is_first } => names[kind as usize].push((id, name, is_first)),
            CatalogRow::Cell { id, cell } => cells.extend([(id, cell)]),
        }
    }
    let mut tables = shown.into_iter().zip(names).map(|(shown, names)| TypeTable::new(shown).with_names(names));
    let mut table = || tables.next().unwrap_or_default();
    let types = Types { bucket: table(), subject: table(), source: table(), naming };
    // Of most installations nothing is in these two.
    let has_rows = |table| citus::is_installed() || table::rows(table, |_| ()).is_none_or(|rows| !rows.is_empty());
    Catalog {
        renamed: types.by_first_names(),
        types,
        cells,
        modes: if has_rows(c"mode_settings") { modes::all(connection) } else { Vec::new() },
        limits: if has_rows(c"limit_settings") { limits::all(connection) } else { Vec::new() }.into_iter().collect(),
    }
}

/// The rows, from the tables themselves. `None`: one of them is not there, or perhaps elsewhere: where Citus is installed, it may
/// have the rows of a table in others.
fn looked_up() -> Option<Vec<CatalogRow>> {
    if citus::is_installed() {
        return None;
    }
    let bucket_type = |row: &TableRow| {
        let naming = naming_of(&row.must::<String>(c"profile"), &row.must::<String>(c"confusables"));
        CatalogRow::Type { kind: Kind::Bucket, id: row.must(c"id"), name: row.must(c"name"), naming }
    };
    let type_of = |kind| {
        move |row: &TableRow| CatalogRow::Type { kind, id: row.must(c"id"), name: row.must(c"name"), naming: None }
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

/// The same, by a statement.
fn queried(connection: &Connection) -> Vec<CatalogRow> {
    let each = |row: Row| {
        // Ids of types are numbers of four bytes.
        let (part, number) = (row.must::<i32>(1), row.must::<i64>(2));
        let id = i32::try_from(number).unwrap_or_default();
        let shown = |kind, naming| Some(CatalogRow::Type { kind, id, name: row.must(3), naming });
        match part {
            1 => shown(Kind::Bucket, naming_of(&row.must::<String>(4), &row.must::<String>(5))),
            2 => shown(Kind::Subject, None),
            3 => shown(Kind::Source, None),
            4 => {
                let kind = Kind::named(&row.must::<String>(4))?;
                Some(CatalogRow::Name { kind, id, name: row.must(3), is_first: row.must(6) })
            }
            _ => {
                // Where the tables are spread, the numbers of roles are those of whichever node has written them.
                let role = match distribution::is_spread() {
                    true => row.get::<String>(8).and_then(|name| roles::called(&name)).unwrap_or(Oid::INVALID),
                    false => row.must(7),
                };
                Some(CatalogRow::Cell { id: number, cell: Cell { role, name: row.get(3), address: row.get(4) } })
            }
        }
    };
    connection.run(&ALL, View::Latest, []).map(each).into_iter().flatten().collect()
}

/// How the names of a bucket type are compared, where that is not byte by byte and nothing else. The table takes no other words.
fn naming_of(profile: &str, confusables: &str) -> Option<Naming> {
    let profile = Profile::parse(profile).unwrap_or_default();
    let confusables = Confusables::parse(confusables).unwrap_or_default();
    let naming = Naming { profile, confusables };
    (naming != Naming::default()).then_some(naming)
}

/// Statement trigger on the cached tables; declared in sql/install/service/admin.sql.
#[pg_trigger(sql = false)]
fn announce_change<'a>(
    trigger: &'a PgTrigger<'a>,
) -> Result<Option<PgHeapTuple<'a, AllocatedByPostgres>>, ErrorReport> {
    if let (Ok(relation), Ok(name)) = (trigger.relid(), trigger.table_name()) {
        cache::announce_change(relation);
        // On the nodes of a cluster the rows are in a shard: sessions watch the table that it is of.
        let table = name.trim_end_matches(|c: char| c.is_ascii_digit()).strip_suffix('_');
        if let Some(table) = table.filter(|table| *table != name).and_then(table::called) {
            cache::announce_change(table);
        }
    }
    Ok(None)
}
