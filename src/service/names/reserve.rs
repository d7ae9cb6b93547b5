//! `reserve_names` and `unreserve_names`: names that no cell can claim.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Instant;

use claims_model::conflict::{self, ExistingClaim, reason_for};
use claims_model::lookalike::{BesideReserved, skeletons};
use claims_model::quarantine::KeptName;
use claims_model::types::Kind;
use claims_model::{BadInput, Bucket, Conflict, NOBODY, Op, Problem, Reason, Types, id};

use super::errors::{NamesError, notice_of_look_alikes};
use super::statements;
use super::tables::{NAME_TABLES, Reserved, ReservedBy};
use crate::kernel::admin_action::AdminAction;
use crate::kernel::call::Call;
use crate::kernel::catalog::{self, Catalog};
use crate::kernel::error::{ClaimsError, TablesError};
use crate::kernel::{arguments, settings};
use crate::service::claims::kept::FreedName;
use crate::service::claims::{
    Bearing, CLAIM_TABLES, CONTENTION_SQLSTATES, FoundClaim, KEY_TABLES, SKELETON_TABLES, kept, skeletons,
};
use crate::service::quarantine::drop_skeletons;
use crate::service::{ATTEMPTS, lock_timeout, naming};
use pg::clock::Moment;
use pg::prelude::*;
use pg::roles;
use pg::settings::LockWaits;
use pg::spi::Connection;
use pg::subtransaction::subtransaction;

/// Maximum number of names in one call.
const MAX_NAMES: usize = 10_000;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn reserve_names(
    bucket_type: Option<String>,
    bucket_values: Option<Vec<Option<String>>>,
    reason: Option<String>,
) -> Result<i64, ErrorReport> {
    let action = AdminAction::begin("reserve_names", reason)?;
    arguments::require!(bucket_type, bucket_values);
    let reason = action.reason().to_owned();
    let action = action.with("bucket_type", bucket_type.as_str()).with("bucket_values", bucket_values.clone());
    Ok(action.perform_counted(|call| {
        let (catalog, names) = named(call.connection, &bucket_type, &bucket_values)?;
        let reserved = reserve(call, &catalog, &names, &reason)?;
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
    let action = AdminAction::begin("unreserve_names", reason)?;
    arguments::require!(bucket_type, bucket_values);
    let action = action.with("bucket_type", bucket_type.as_str()).with("bucket_values", bucket_values.clone());
    Ok(action.perform_counted(|call| {
        let (catalog, names) = named(call.connection, &bucket_type, &bucket_values)?;
        let freed = unreserve(call, &catalog, &names);
        Ok((freed, vec![("freed", freed)]))
    })?)
}

fn unreserve(call: &Call, catalog: &Catalog, names: &[Reserved]) -> i64 {
    let Some(number) = names.first().map(|name| name.bucket.bucket_type) else { return 0 };
    let values: Vec<_> = names.iter().map(|name| &*name.bucket.value).collect();
    let freed = statements::unreserve(call.connection, number, &values);
    let freed: Vec<_> = freed.into_iter().map(|value| Bucket { bucket_type: number, value: value.into() }).collect();
    drop_skeletons(call, &catalog.types, freed.iter());
    freed.len() as i64
}

/// Returns the number of a bucket type. Its profile does not change until the transaction ends.
pub(super) fn locked_type(connection: &Connection, bucket_type: &str) -> Result<(Rc<Catalog>, i32), ClaimsError> {
    let read = |catalog: &Catalog| {
        let number = id::type_from_text(bucket_type, Kind::Bucket, &catalog.types);
        Ok(number.map_err(|problem| BadInput::new("bucket_type", problem))?)
    };
    naming::with_locked_profiles(connection, catalog::current(connection), read)
}

/// Returns the names in canonical form, each once, in lock order. Their profiles do not change until the transaction ends.
pub(super) fn named(
    connection: &Connection,
    bucket_type: &str,
    bucket_values: &[Option<String>],
) -> Result<(Rc<Catalog>, Vec<Reserved>), ClaimsError> {
    if bucket_values.len() > MAX_NAMES {
        let problem = Problem::TooMany { what: "names", got: bucket_values.len(), limit: MAX_NAMES };
        return Err(BadInput::new("bucket_values", problem).into());
    }
    let (catalog, number) = locked_type(connection, bucket_type)?;
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

/// Returns a name in its canonical form.
pub(super) fn canonical(types: &Types, bucket_type: i32, given: &str) -> Result<Reserved, Problem> {
    if given.is_empty() {
        return Err(Problem::Empty);
    }
    let value = types.canonical(bucket_type, given).map_err(Problem::name)?.into_owned();
    let display = (value != given).then(|| given.to_owned());
    Ok(Reserved { bucket: Bucket { bucket_type, value: value.into() }, display })
}

fn reserve(call: &Call, catalog: &Catalog, names: &[Reserved], reason: &str) -> Result<i64, ClaimsError> {
    let Some(bucket_type) = names.first().map(|name| name.bucket.bucket_type) else { return Ok(0) };
    let role = roles::name(roles::caller());
    let deadline = Instant::now() + settings::wait_timeout();
    for attempt in 0..ATTEMPTS {
        let values: Vec<_> = names.iter().map(|name| &*name.bucket.value).collect();
        let before: HashSet<_> =
            statements::reserved_among(call.connection, bucket_type, &values).into_iter().collect();
        let new: Vec<_> = names.iter().filter(|name| !before.contains(&*name.bucket.value)).collect();
        if new.is_empty() {
            return Ok(0);
        }
        let _waits = LockWaits::until(deadline.max(Instant::now() + lock_timeout(attempt)));
        let around = call.tables.surroundings();
        let take = || {
            // A name that is kept back is nobody's.
            let kept = kept::free(call.connection, bucket_type, &values);
            let kept: Vec<_> = kept.into_iter().map(FreedName::into_name).collect();
            drop_skeletons(call, &catalog.types, kept.iter().map(|name| &name.bucket));
            NAME_TABLES.of(call).reserve(call.connection, bucket_type, &new, &ReservedBy { reason, role: &role });
            let skeletons = skeletons(new.iter().map(|name| &name.bucket), &catalog.types);
            SKELETON_TABLES.of(call).put_skeletons(call.connection, &skeletons, Bearing::Reserved);
            Ok::<_, Infallible>(())
        };
        let taken = subtransaction(&CONTENTION_SQLSTATES, || call.bounded_within(around, take));
        if taken.is_ok() {
            notice_of_look_alikes(&claims_beside(call, catalog, &new));
            return Ok(new.len() as i64);
        }
        let conflicts = conflicts_with(call, &new);
        if let Some(decisive) = conflict::decisive_reason(&conflicts) {
            let (count, detail) = (conflicts.len(), conflict::to_json(&conflicts, &catalog.types)?);
            return Err(NamesError::CannotReserve { decisive, count, detail }.into());
        }
    }
    Err(TablesError::Locked.into())
}

/// Returns the claims that are confusable with names that were just reserved. They are older, and keep their skeletons.
fn claims_beside(call: &Call, catalog: &Catalog, names: &[&Reserved]) -> Vec<BesideReserved> {
    let skeletons = skeletons(names.iter().map(|name| &name.bucket), &catalog.types);
    if skeletons.is_empty() {
        return Vec::new();
    }
    let bearers =
        skeletons::bearers(call.connection, &skeletons.iter().map(|(skeleton, _)| *skeleton).collect::<Vec<_>>());
    let claims: Vec<_> = bearers.values().filter_map(|bearers| bearers.bearer.as_ref()).collect();
    let standing = CLAIM_TABLES.of(call).standing(call.connection, &claims);
    let beside = |(skeleton, name): &(_, &Bucket)| {
        let claim = bearers.get(skeleton)?.bearer.as_ref()?;
        let (reserved, cell_id) = (name.value.clone().into_owned(), standing.get(claim)?.holder_cell_id);
        Some(BesideReserved { reserved, claim: claim.value.clone().into_owned(), cell_id })
    };
    skeletons.iter().filter_map(beside).collect()
}

/// Returns the conflicts of names that cannot be reserved: claims, and names in flight.
fn conflicts_with<'n>(call: &Call, names: &[&'n Reserved]) -> Vec<Conflict<'n>> {
    let buckets: Vec<_> = names.iter().map(|name| &name.bucket).collect();
    let found: HashMap<_, _> = CLAIM_TABLES.of(call).standing(call.connection, &buckets);
    let now = Moment::now();
    let conflict = |(bucket, is_contended): (&&'n Bucket<'static>, bool)| {
        // A name that is kept back is taken over, unless a lease reclaims it. Another session may have reserved the others.
        let is_held = |found: &&FoundClaim| match found.kept {
            Some(kept) => kept.reclaiming_cell.is_some(),
            None => found.holder_cell_id != NOBODY,
        };
        let found = found.get(*bucket).filter(is_held);
        let standing = found.map(|found| ExistingClaim {
            holder_cell_id: found.holder_cell_id,
            active: found.active,
            is_meant: true,
            in_transfer: false,
            kept: found.kept.map(|_| KeptName { may_be_had: true, is_leased: true, is_leased_by_caller: false }),
        });
        let reason = match is_contended {
            true => Reason::InFlight,
            false => reason_for(Op::Create, NOBODY, standing)?,
        };
        Some(Conflict {
            holder_cell_id: found.map(|found| found.holder_cell_id).filter(|holder| *holder != NOBODY),
            lease_age_seconds: found.and_then(|found| found.lease_made_at).map(|made_at| made_at.seconds_until(now)),
            ..Conflict::new(Op::Create, (*bucket).clone(), reason)
        })
    };
    let contended = KEY_TABLES.of(call).contended_buckets(call.connection, &buckets);
    buckets.iter().zip(contended).filter_map(conflict).collect()
}
