//! Statements on automatic mode: the cell, the service of all types that are not named, and those of types that are.

use std::cell::RefCell;
use std::rc::Rc;

use claims_model::routes::{Place, Routes};
use pgrx::pg_sys::Oid;

use pg::cache::{self, Freshness};
use pg::spi::{Connection, View};
use pg::statement::statement;

statement! {
    RELATIONS() = "SELECT to_regclass('claims.automatic_service')::oid, to_regclass('claims.automatic_types')::oid";
    AUTOMATIC() = "SELECT cell_id, service FROM claims.automatic_service";
    TYPES() = "SELECT cell_id, bucket_type, service FROM claims.automatic_types";
    /// Reads the cells that automatic mode claims for, each with whether it is registered.
    CELLS() =
        "SELECT a.cell_id, EXISTS (SELECT FROM claims.cells c WHERE c.cell_id = a.cell_id)
           FROM (SELECT s.cell_id FROM claims.automatic_service s UNION SELECT t.cell_id FROM claims.automatic_types t) a ORDER BY 1";
    /// Returns another cell than $1 for which automatic mode is on: for types that are not named unless $2 is NULL, and for types not in $2.
    OTHER_CELL(INT8OID, TEXTARRAYOID) =
        "SELECT t.cell_id FROM claims.automatic_types t WHERE t.cell_id <> $1 AND ($2 IS NULL OR NOT t.bucket_type = ANY ($2))
         UNION ALL SELECT s.cell_id FROM claims.automatic_service s WHERE s.cell_id <> $1 AND $2 IS NOT NULL LIMIT 1";
    /// Lets one transaction at a time choose services.
    LOCK() = "LOCK TABLE claims.automatic_service IN SHARE ROW EXCLUSIVE MODE";
    SET(INT8OID, TEXTOID) =
        "INSERT INTO claims.automatic_service AS a (cell_id, service) VALUES ($1, $2)
         ON CONFLICT (single) DO UPDATE SET cell_id = excluded.cell_id, service = excluded.service";
    SET_TYPES(INT8OID, TEXTOID, TEXTARRAYOID) =
        "INSERT INTO claims.automatic_types AS a (bucket_type, cell_id, service) SELECT DISTINCT u, $1, $2 FROM unnest($3) AS u ORDER BY u
         ON CONFLICT (bucket_type) DO UPDATE SET cell_id = excluded.cell_id, service = excluded.service";
    FORGET() = "DELETE FROM claims.automatic_service";
    /// Deletes the services of types $1, or of all types.
    FORGET_TYPES(TEXTARRAYOID) = "DELETE FROM claims.automatic_types WHERE $1 IS NULL OR bucket_type = ANY ($1)";
}

/// The routes of automatic mode; `None` if it is off.
type Cached = Option<Rc<Routes>>;

thread_local! {
    static ROUTES: RefCell<Option<([Freshness; 2], Cached)>> = const { RefCell::new(None) };
}

/// Returns the routes of automatic mode, as committed now or changed by this transaction. `None` if it is off.
pub fn automatic(connection: &Connection) -> Cached {
    cache::catch_up();
    if let Some(cached) = cached() {
        return cached;
    }
    let relation = |number| connection.run(&RELATIONS, View::Latest, []).first(|row| row.get(number)).flatten();
    let fresh = [1, 2].map(|number| Freshness::of(relation(number).unwrap_or(Oid::INVALID)));
    let place = |service: Option<String>| service.map_or(Place::Here, |service| Place::Service(service.into()));
    let others = connection.run(&AUTOMATIC, View::Latest, []);
    let others = others.first(|row| (row.must::<i64>(1), place(row.get(2))));
    let by_type = connection.run(&TYPES, View::Latest, []);
    let by_type = by_type.map(|row| (row.must::<i64>(1), row.must::<String>(2), row.must::<String>(3)));
    let cell_id = others.as_ref().map(|(cell_id, _)| *cell_id).or(by_type.first().map(|(cell_id, ..)| *cell_id));
    let routes = cell_id.map(|cell_id| {
        let others = others.map(|(_, place)| place);
        let by_type = by_type.into_iter().map(|(_, bucket_type, service)| (bucket_type, service.into())).collect();
        Rc::new(Routes { cell_id, others, by_type })
    });
    ROUTES.replace(Some((fresh, routes.clone())));
    routes
}

fn cached() -> Option<Cached> {
    ROUTES.with_borrow(|cached| {
        let (fresh, routes) = cached.as_ref()?;
        fresh.iter().all(Freshness::is_fresh).then(|| routes.clone())
    })
}

/// Like [`automatic`], if this session has cached that.
pub fn automatic_if_cached() -> Option<Cached> {
    cache::catch_up();
    cached()
}

/// Returns the cells that automatic mode claims for, usually one, each with whether it is registered.
pub fn cells(connection: &Connection) -> Vec<(i64, bool)> {
    connection.run(&CELLS, View::Latest, []).map(|row| (row.must(1), row.must(2)))
}

/// Lets no other transaction choose services until the end of this one.
pub fn lock(connection: &Connection) {
    connection.run(&LOCK, View::Statement, []);
}

/// Returns another cell for which automatic mode would stay on, if it were turned on for types of a cell, or for all types that are not named.
pub fn other_cell(connection: &Connection, cell_id: i64, types: Option<&[String]>) -> Option<i64> {
    let values = [cell_id.into(), types.map(<[String]>::to_vec).into()];
    connection.run(&OTHER_CELL, View::Latest, values).first(|row| row.must(1))
}

/// Sets the service of types, or of all types that are not named.
pub fn set(connection: &Connection, cell_id: i64, service: &str, types: Option<Vec<String>>) {
    match types {
        Some(types) => connection.run(&SET_TYPES, View::Statement, [cell_id.into(), service.into(), types.into()]),
        None => connection.run(&SET, View::Statement, [cell_id.into(), service.into()]),
    };
}

/// Ends automatic mode: for types, or for everything.
pub fn forget(connection: &Connection, types: Option<Vec<String>>) {
    if types.is_none() {
        connection.run(&FORGET, View::Statement, []);
    }
    connection.run(&FORGET_TYPES, View::Statement, [types.into()]);
}
