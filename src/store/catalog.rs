//! Type tables, cells with their modes and limits, cached in the session until one of them changes anywhere.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use claims_model::{Confusables, Kind, Naming, Profile, TypeTable, Types};
use pgrx::pg_sys::Oid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::pg::spi::{self, Connection, Row, View};
use crate::pg::statement::statement;
use crate::pg::{cache, gate};
use crate::store::service::limits::{self, CellLimits};
use crate::store::service::modes::{self, ModeSetting};

statement! {
    RELATIONS() = "SELECT to_regclass('claims.bucket_types')::oid, to_regclass('claims.subject_types')::oid,
                          to_regclass('claims.source_types')::oid, to_regclass('claims.cells')::oid,
                          to_regclass('claims.type_names')::oid, to_regclass('claims.mode_settings')::oid,
                          to_regclass('claims.limit_settings')::oid";
    /// Types, their names, and cells, in one statement: a session's first call plans it. By part: 1 bucket types with profile and
    /// confusables (all others compare bytes), 2 subject types, 3 source types, 4 names with their kind, 5 cells.
    ALL() =
        "SELECT 1 AS part, b.id::bigint, b.name, b.profile, b.confusables, NULL::boolean AS first, NULL::oid AS role FROM claims.bucket_types b
         UNION ALL SELECT 2, s.id, s.name, NULL, NULL, NULL, NULL FROM claims.subject_types s
         UNION ALL SELECT 3, s.id, s.name, NULL, NULL, NULL, NULL FROM claims.source_types s
         UNION ALL SELECT 4, n.id, n.name, n.kind, NULL, n.first, NULL FROM claims.type_names n
         UNION ALL SELECT 5, c.cell_id, c.name, c.address, NULL, NULL, c.role::oid FROM claims.cells c";
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
    /// The types by names that never change, where those are not the shown ones.
    pub fn renamed_types(&self) -> Option<&Types> {
        self.renamed.as_ref()
    }

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
    cached().unwrap_or_else(|| load(connection))
}

/// The same, for calls that have no use for SPI themselves.
pub fn current_without_spi() -> Rc<Catalog> {
    cached().unwrap_or_else(|| spi::connect(load))
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
    let relations = connection.run(&RELATIONS, View::Latest, []);
    cache::watch(relations.first(|row| (1..=7).filter_map(|at| row.get(at)).collect()).unwrap_or_default());
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

fn read(connection: &Connection) -> Catalog {
    let mut shown: [Vec<(i32, String)>; 3] = Default::default();
    let mut names: [Vec<(i32, String, bool)>; 3] = Default::default();
    let (mut naming, mut cells) = (HashMap::new(), HashMap::new());
    let each = |row: Row| {
        // Ids of types are numbers of four bytes.
        let (part, id) = (row.must::<i32>(1), row.must::<i64>(2));
        let number = i32::try_from(id).unwrap_or_default();
        match part {
            4 => {
                let kind: String = row.must(4);
                if let Some(at) = KINDS.iter().position(|of| of.name() == kind) {
                    names[at].push((number, row.must(3), row.must(6)));
                }
            }
            5 => {
                cells.insert(id, Cell { role: row.must(7), name: row.get(3), address: row.get(4) });
            }
            _ => {
                if part == 1
                    && let Some(other) = naming_of(&row.must::<String>(4), &row.must::<String>(5))
                {
                    naming.insert(number, other);
                }
                shown[part as usize - 1].push((number, row.must(3)));
            }
        }
    };
    connection.run(&ALL, View::Latest, []).map(each);
    let mut tables = shown.into_iter().zip(names).map(|(shown, names)| TypeTable::new(shown).with_names(names));
    let mut table = || tables.next().unwrap_or_default();
    let types = Types { bucket: table(), subject: table(), source: table(), naming };
    Catalog {
        renamed: types.by_first_names(),
        types,
        cells,
        modes: modes::all(connection),
        limits: limits::all(connection).into_iter().collect(),
    }
}

/// In the order of the parts of ALL.
const KINDS: [Kind; 3] = [Kind::Bucket, Kind::Subject, Kind::Source];

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
    if let Ok(relation) = trigger.relid() {
        cache::announce_change(relation);
    }
    Ok(None)
}
