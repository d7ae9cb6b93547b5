//! Names that nobody can have.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::rc::Rc;
use std::time::{Duration, Instant};

use claims_model::conflict::{self, StandingClaim, reason_for};
use claims_model::lookalike::looks;
use claims_model::types::Kind;
use claims_model::{BadInput, Bucket, Conflict, NOBODY, Op, Problem, Reason, Types, id};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::access;
use crate::acts::Act;
use crate::error::{ClaimsError, NamesError};
use crate::pg::clock::Moment;
use crate::pg::roles;
use crate::pg::settings::LockWaits;
use crate::pg::spi::Connection;
use crate::pg::subtransaction::subtransaction;
use crate::service::engine::{self, CONTENTION_SQLSTATES};
use crate::service::naming;
use crate::settings;
use crate::store::catalog::{self, Catalog};
use crate::store::service::looks as store;
use crate::store::service::reservations::{self, Reserved};

/// Names that one call may reserve.
const MAX_NAMES: usize = 10_000;

/// How often to look and take again, with waits of 1, 8, 64 and 512 milliseconds: as a begin does.
const ATTEMPTS: u32 = 4;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn reserve_names(
    bucket_type: Option<String>,
    bucket_values: Option<Vec<Option<String>>>,
    reason: Option<String>,
) -> Result<i64, ErrorReport> {
    let act = Act::begin("reserve_names", reason)?;
    let bucket_type = access::given(bucket_type, "bucket_type")?;
    let bucket_values = access::given(bucket_values, "bucket_values")?;
    let reason = act.reason().to_owned();
    let act = act.with("bucket_type", bucket_type.as_str()).with("bucket_values", bucket_values.clone());
    Ok(act.perform_counted(|connection| {
        let (catalog, names) = named(connection, &bucket_type, &bucket_values)?;
        let reserved = reserve(connection, &catalog, &names, &reason)?;
        Ok((reserved, vec![("reserved", reserved)]))
    })?)
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn unreserve_names(
    bucket_type: Option<String>,
    bucket_values: Option<Vec<Option<String>>>,
    reason: Option<String>,
) -> Result<i64, ErrorReport> {
    let act = Act::begin("unreserve_names", reason)?;
    let bucket_type = access::given(bucket_type, "bucket_type")?;
    let bucket_values = access::given(bucket_values, "bucket_values")?;
    let act = act.with("bucket_type", bucket_type.as_str()).with("bucket_values", bucket_values.clone());
    Ok(act.perform_counted(|connection| {
        let (catalog, names) = named(connection, &bucket_type, &bucket_values)?;
        let freed = unreserve(connection, &catalog, &names);
        Ok((freed, vec![("freed", freed)]))
    })?)
}

fn unreserve(connection: &Connection, catalog: &Catalog, names: &[Reserved]) -> i64 {
    let Some(number) = names.first().map(|name| name.bucket.bucket_type) else { return 0 };
    let values: Vec<_> = names.iter().map(|name| &*name.bucket.value).collect();
    let freed = reservations::unreserve(connection, number, &values);
    let freed: Vec<_> = freed.into_iter().map(|value| Bucket { bucket_type: number, value: value.into() }).collect();
    store::free(connection, &looks(freed.iter(), &catalog.types));
    freed.len() as i64
}

/// The names by their canonical forms, each once and in the order of all locks, by profiles that stay what they are until
/// the transaction ends.
fn named(
    connection: &Connection,
    bucket_type: &str,
    bucket_values: &[Option<String>],
) -> Result<(Rc<Catalog>, Vec<Reserved>), ClaimsError> {
    if bucket_values.len() > MAX_NAMES {
        let problem = Problem::TooMany { what: "names", got: bucket_values.len(), limit: MAX_NAMES };
        return Err(BadInput::new("bucket_values", problem).into());
    }
    let read = |catalog: &Catalog| {
        let number = id::type_from_text(bucket_type, Kind::Bucket, &catalog.types);
        Ok(number.map_err(|problem| BadInput::new("bucket_type", problem))?)
    };
    let catalog = catalog::current(connection);
    let (catalog, number) = naming::settled(connection, catalog, read, |number| naming::can_change(*number))?;
    let mut seen = HashSet::new();
    let mut names = Vec::new();
    for (index, given) in bucket_values.iter().enumerate() {
        let place = format!("bucket_values[{index}]");
        let given = given.as_deref().ok_or_else(|| BadInput::new(&place, Problem::Null))?;
        let name = canonical(&catalog.types, number, given).map_err(|problem| BadInput::new(&place, problem))?;
        if seen.insert(name.bucket.clone()) {
            names.push(name);
        }
    }
    names.sort_unstable_by(|a, b| a.bucket.cmp(&b.bucket));
    Ok((catalog, names))
}

fn canonical(types: &Types, bucket_type: i32, given: &str) -> Result<Reserved, Problem> {
    if given.is_empty() {
        return Err(Problem::Empty);
    }
    let value = types.canonical(bucket_type, given).map_err(Problem::name)?.into_owned();
    let display = (value != given).then(|| given.to_owned());
    Ok(Reserved { bucket: Bucket { bucket_type, value: value.into() }, display })
}

fn reserve(connection: &Connection, catalog: &Catalog, names: &[Reserved], reason: &str) -> Result<i64, ClaimsError> {
    let Some(bucket_type) = names.first().map(|name| name.bucket.bucket_type) else { return Ok(0) };
    let role = roles::name(roles::caller());
    let deadline = Instant::now() + Duration::from_millis(settings::wait_timeout().unsigned_abs());
    for attempt in 0..ATTEMPTS {
        let values: Vec<_> = names.iter().map(|name| &*name.bucket.value).collect();
        let before: HashSet<_> = reservations::among(connection, bucket_type, &values).into_iter().collect();
        let new: Vec<_> = names.iter().filter(|name| !before.contains(&*name.bucket.value)).collect();
        if new.is_empty() {
            return Ok(0);
        }
        let _waits = LockWaits::until(deadline.max(Instant::now() + Duration::from_millis(1 << (3 * attempt))));
        let around = engine::current().surroundings();
        let take = || {
            reservations::reserve(connection, bucket_type, &new, reason, &role);
            // Where a name that looks like it is claimed, that one keeps it to itself.
            store::take_free(connection, &looks(new.iter().map(|name| &name.bucket), &catalog.types));
            Ok::<_, Infallible>(())
        };
        let taken = subtransaction(&CONTENTION_SQLSTATES, || engine::bounded_within(connection, around, take));
        if taken.is_ok() {
            return Ok(new.len() as i64);
        }
        let conflicts = in_the_way(connection, &new);
        if let Some(weightiest) = conflict::weightiest(&conflicts) {
            let (count, detail) = (conflicts.len(), conflict::to_json(&conflicts, &catalog.types)?);
            return Err(NamesError::CannotReserve { weightiest, count, detail }.into());
        }
    }
    Err(ClaimsError::TableLocked)
}

/// Claims of names that are to be reserved, and who is at them.
fn in_the_way<'n>(connection: &Connection, names: &[&'n Reserved]) -> Vec<Conflict<'n>> {
    let buckets: Vec<_> = names.iter().map(|name| &name.bucket).collect();
    let found: HashMap<_, _> = engine::current().standing(connection, &buckets);
    let now = Moment::now();
    let conflict = |(bucket, is_contended): (&&'n Bucket<'static>, bool)| {
        let found = found.get(*bucket).filter(|found| found.holder_cell_id != NOBODY);
        let standing = found.map(|found| StandingClaim {
            holder_cell_id: found.holder_cell_id,
            active: found.active,
            is_meant: true,
            in_transfer: false,
        });
        let reason = match is_contended {
            true => Reason::InFlight,
            false => reason_for(Op::Create, NOBODY, standing)?,
        };
        Some(Conflict {
            op: Op::Create,
            bucket: (*bucket).clone(),
            reason,
            holder_cell_id: found.map(|found| found.holder_cell_id),
            lease_age_seconds: found.and_then(|found| found.lease_made_at).map(|made_at| made_at.seconds_until(now)),
            similar_to: None,
        })
    };
    let contended = engine::current().contended_buckets(connection, &buckets);
    buckets.iter().zip(contended).filter_map(conflict).collect()
}
