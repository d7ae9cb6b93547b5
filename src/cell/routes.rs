//! Statements on automatic mode: the cell, the service of all types that are not named, and those of types that are.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use claims_model::routes::{Route, Routes};
use pgrx::pg_sys::Oid;

use pg::cache::{self, Freshness};
use pg::query::{query, record};
use pg::spi::Connection;

record! {
    struct Relations {
        of_others: Option<Oid>,
        of_types: Option<Oid>,
        of_uniques: Option<Oid>,
    }

    struct OthersRow {
        cell_id: i64,
        service: Option<String>,
    }

    struct TypeRow {
        cell_id: i64,
        bucket_type: String,
        service: String,
    }

    /// A cell that automatic mode claims for.
    pub struct AutomaticCell {
        pub cell_id: i64,
        pub is_registered: bool,
    }
}

query! {
    fn relations() -> Option<Relations> = [Latest]
        "SELECT to_regclass('claims.automatic_service')::oid AS of_others, to_regclass('claims.automatic_types')::oid AS of_types,
                to_regclass('claims.unique_constraints')::oid AS of_uniques";
    fn others() -> Option<OthersRow> = [Latest] "SELECT cell_id, service FROM claims.automatic_service";
    fn types() -> Vec<TypeRow> = [Latest] "SELECT cell_id, bucket_type, service FROM claims.automatic_types";
    /// Returns the types of unique columns.
    fn uniques() -> Vec<String> = [Latest] "SELECT u.name::text FROM claims.unique_constraints u";
    /// Returns the cells that automatic mode claims for, usually one.
    pub fn cells() -> Vec<AutomaticCell> = [Latest]
        "SELECT a.cell_id, EXISTS (SELECT FROM claims.cells c WHERE c.cell_id = a.cell_id) AS is_registered
           FROM (SELECT s.cell_id FROM claims.automatic_service s UNION SELECT t.cell_id FROM claims.automatic_types t) a ORDER BY 1";
    /// Returns another cell for which automatic mode would stay on, if it were turned on for types of a cell, or for all types that are not
    /// named.
    pub fn other_cell(cell_id: i64, types: Option<&[String]>) -> Option<i64> = [Latest]
        "SELECT t.cell_id FROM claims.automatic_types t WHERE t.cell_id <> :cell_id AND (:types IS NULL OR NOT t.bucket_type = ANY (:types))
         UNION ALL SELECT s.cell_id FROM claims.automatic_service s WHERE s.cell_id <> :cell_id AND :types IS NOT NULL LIMIT 1";
    /// Lets no other transaction choose services until the end of this one.
    pub fn lock() = [Statement] "LOCK TABLE claims.automatic_service IN SHARE ROW EXCLUSIVE MODE";
    fn set_others(cell_id: i64, service: &str) = [Statement]
        "INSERT INTO claims.automatic_service AS a (cell_id, service) VALUES (:cell_id, :service)
         ON CONFLICT (single) DO UPDATE SET cell_id = excluded.cell_id, service = excluded.service";
    fn set_types(cell_id: i64, service: &str, types: &[String]) = [Statement]
        "INSERT INTO claims.automatic_types AS a (bucket_type, cell_id, service)
         SELECT DISTINCT u, :cell_id, :service FROM unnest(:types) AS u ORDER BY u
         ON CONFLICT (bucket_type) DO UPDATE SET cell_id = excluded.cell_id, service = excluded.service";
    fn forget_others() = [Statement] "DELETE FROM claims.automatic_service";
    /// Deletes the services of types, or of all types.
    fn forget_types(types: Option<&[String]>) = [Statement] "DELETE FROM claims.automatic_types WHERE :types IS NULL OR bucket_type = ANY (:types)";
}

/// The routes of automatic mode; `None` if it is off.
type AutomaticRoutes = Option<Rc<Routes>>;

thread_local! {
    static ROUTES: RefCell<Option<([Freshness; 3], AutomaticRoutes)>> = const { RefCell::new(None) };
}

/// Returns the routes of automatic mode, as committed now or changed by this transaction. `None` if it is off.
pub fn automatic(connection: &Connection) -> AutomaticRoutes {
    cache::catch_up();
    if let Some(cached) = cached() {
        return cached;
    }
    let read = relations(connection);
    let relation =
        |of: fn(&Relations) -> Option<Oid>| Freshness::of(read.as_ref().and_then(of).unwrap_or(Oid::INVALID));
    let fresh = [relation(|read| read.of_others), relation(|read| read.of_types), relation(|read| read.of_uniques)];
    let place = |service: Option<String>| service.map_or(Route::Here, |service| Route::Service(service.into()));
    let others = others(connection).map(|row| (row.cell_id, place(row.service)));
    let by_type = types(connection);
    let cell_id = others.as_ref().map(|(cell_id, _)| *cell_id).or(by_type.first().map(|row| row.cell_id));
    let routes = cell_id.map(|cell_id| {
        let others = others.map(|(_, place)| place);
        let by_type = by_type.into_iter().map(|row| (row.bucket_type, row.service.into())).collect();
        // A script that updates the extension may not have made the table yet.
        let has_uniques = read.as_ref().is_some_and(|read| read.of_uniques.is_some());
        let uniques = if has_uniques { uniques(connection).into_iter().collect() } else { BTreeSet::new() };
        Rc::new(Routes { cell_id, others, by_type, uniques, of_uniques: Some(Route::Here) })
    });
    ROUTES.replace(Some((fresh, routes.clone())));
    routes
}

fn cached() -> Option<AutomaticRoutes> {
    ROUTES.with_borrow(|cached| {
        let (fresh, routes) = cached.as_ref()?;
        fresh.iter().all(Freshness::is_fresh).then(|| routes.clone())
    })
}

/// Like [`automatic`], if this session has cached that.
pub fn automatic_if_cached() -> Option<AutomaticRoutes> {
    cache::catch_up();
    cached()
}

/// Sets the service of types, or of all types that are not named.
pub fn set(connection: &Connection, cell_id: i64, service: &str, types: Option<&[String]>) {
    match types {
        Some(types) => set_types(connection, cell_id, service, types),
        None => set_others(connection, cell_id, service),
    }
}

/// Ends automatic mode: for types, or for everything.
pub fn forget(connection: &Connection, types: Option<&[String]>) {
    if types.is_none() {
        forget_others(connection);
    }
    forget_types(connection, types);
}
