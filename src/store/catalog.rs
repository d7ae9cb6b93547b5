//! Type tables, cells with their modes and limits, cached in the session until one of them changes anywhere.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use claims_model::{Confusables, Kind, Naming, Profile, TypeTable, Types};
use pgrx::pg_sys::Oid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::pg::spi::{self, Connection, Row, View};
use crate::pg::statement::{Statement, statement};
use crate::pg::{cache, gate};
use crate::store::service::limits::{self, CellLimits};
use crate::store::service::modes::{self, ModeSetting};

statement! {
    RELATIONS() = "SELECT to_regclass('claims.bucket_types')::oid, to_regclass('claims.subject_types')::oid,
                          to_regclass('claims.source_types')::oid, to_regclass('claims.cells')::oid,
                          to_regclass('claims.type_names')::oid, to_regclass('claims.mode_settings')::oid,
                          to_regclass('claims.limit_settings')::oid";
    BUCKET_TYPES() = "SELECT id, name FROM claims.bucket_types";
    /// Most databases have none of these.
    NAMING() = "SELECT id, profile, confusables FROM claims.bucket_types WHERE profile <> 'exact' OR confusables <> 'allow'";
    SUBJECT_TYPES() = "SELECT id, name FROM claims.subject_types";
    SOURCE_TYPES() = "SELECT id, name FROM claims.source_types";
    TYPE_NAMES(TEXTOID) = "SELECT id, name, first FROM claims.type_names WHERE kind = $1";
    CELLS() = "SELECT cell_id, role::oid, name, address FROM claims.cells";
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
    let table = |kind: Kind, statement: &'static std::thread::LocalKey<Statement>| {
        let shown = connection.run(statement, View::Latest, []).map(|row| (row.must(1), row.must(2)));
        let names = connection.run(&TYPE_NAMES, View::Latest, [kind.name().into()]);
        TypeTable::new(shown).with_names(names.map(|row| (row.must(1), row.must(2), row.must(3))))
    };
    let types = Types {
        bucket: table(Kind::Bucket, &BUCKET_TYPES),
        subject: table(Kind::Subject, &SUBJECT_TYPES),
        source: table(Kind::Source, &SOURCE_TYPES),
        naming: connection.run(&NAMING, View::Latest, []).map(naming).into_iter().collect(),
    };
    let cells = connection.run(&CELLS, View::Latest, []);
    Catalog {
        renamed: types.by_first_names(),
        types,
        cells: cells
            .map(|row| (row.must(1), Cell { role: row.must(2), name: row.get(3), address: row.get(4) }))
            .into_iter()
            .collect(),
        modes: modes::all(connection),
        limits: limits::all(connection).into_iter().collect(),
    }
}

/// A type and how its names are compared. The table takes no other words.
fn naming(row: Row) -> (i32, Naming) {
    let profile = Profile::parse(&row.must::<String>(2)).unwrap_or_default();
    let confusables = Confusables::parse(&row.must::<String>(3)).unwrap_or_default();
    (row.must(1), Naming { profile, confusables })
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
