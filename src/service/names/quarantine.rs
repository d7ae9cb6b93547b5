//! `set_quarantine`, `release_quarantine` and `purge_quarantine`: names that are kept back after their owners gave them up.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use claims_model::mode::Need;
use claims_model::quarantine::{LONGEST_US, Reclaim};
use claims_model::types::Kind;
use claims_model::{BadInput, NOBODY, Problem, id};

use super::errors::NamesError;
use super::reserve::named;
use super::tables::NAME_TABLES;
use crate::kernel::access;
use crate::kernel::admin_action::AdminAction;
use crate::kernel::arguments;
use crate::kernel::call::{Call, answer};
use crate::kernel::catalog::Catalog;
use crate::kernel::error::{ClaimsError, TablesError};
use crate::kernel::settings;
use crate::service::admin::ROLE_TABLES;
use crate::service::audit::AuditedName;
use crate::service::claims::OwnedName;
use crate::service::claims::kept::{self as statements, FreedName};
use crate::service::quarantine::drop_skeletons;
use crate::service::{admission, audit, lock_timeout, naming, waiters};
use pg::clock::Moment;
use pg::prelude::*;
use pg::settings::LockWaits;
use pg::subtransaction::{LOCK_ERRORS, translate_error};

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn set_quarantine(
    bucket_type: Option<String>,
    keep_for: Option<Interval>,
    reason: Option<String>,
    reclaim: default!(Option<String>, "'subject'"),
) -> Result<(), ErrorReport> {
    answer(|| {
        let action = AdminAction::begin("set_quarantine", reason)?;
        arguments::require!(bucket_type, keep_for, reclaim);
        let unknown = || BadInput::new("reclaim", Problem::OutOfRange { allowed: "subject, cell or nobody" });
        let reclaim = Reclaim::named(&reclaim).ok_or_else(unknown)?;
        if !(0..=i128::from(LONGEST_US)).contains(&keep_for.as_micros()) {
            return Err(BadInput::new("keep_for", Problem::OutOfRange { allowed: "0 to 36525 days" }).into());
        }
        let action = action.with("bucket_type", bucket_type.as_str()).with("keep_for", keep_for.to_string());
        action.with("reclaim", reclaim.name()).perform(|call| {
            let number = id::type_from_text(&bucket_type, Kind::Bucket, &call.current_catalog().types)
                .map_err(|problem| BadInput::new("bucket_type", problem))?;
            ROLE_TABLES.of(call).lock_types(call.connection)?;
            // No unique gets a type that exists, so under the lock the type stays what it is.
            let unique = if keep_for.as_micros() == 0 { None } else { statements::unique_of(call.connection, number) };
            if let Some(name) = unique {
                return Err(NamesError::ValuesOfUnique { name }.into());
            }
            statements::set(call.connection, number, keep_for, reclaim.name());
            Ok(())
        })
    })
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn release_quarantine(
    bucket_type: Option<String>,
    bucket_values: Option<Vec<Option<String>>>,
    reason: Option<String>,
) -> Result<i64, ErrorReport> {
    let action = AdminAction::begin("release_quarantine", reason)?;
    arguments::require!(bucket_type, bucket_values);
    let action = action.with("bucket_type", bucket_type.as_str()).with("bucket_values", bucket_values.clone());
    Ok(action.perform_counted(|call| {
        let (catalog, names) = named(call.connection, &bucket_type, &bucket_values)?;
        let Some(number) = names.first().map(|name| name.bucket.bucket_type) else {
            return Ok((0, vec![("released", 0)]));
        };
        let values: Vec<_> = names.iter().map(|name| &*name.bucket.value).collect();
        let deadline = Instant::now() + settings::wait_timeout();
        let _waits = LockWaits::until(deadline.max(Instant::now() + lock_timeout(1)));
        let release = || call.bounded(|| Ok::<_, ClaimsError>(statements::release(call.connection, number, &values)));
        let released = translate_error(LOCK_ERRORS, || TablesError::Locked.into(), release)?;
        let count = (released.freed.len() + released.ended) as i64;
        tell(call, catalog, released.freed);
        Ok((count, vec![("released", count)]))
    })?)
}

/// Lets names that were kept back be claimed, and records them in the audit log, by the cell that has given them up.
fn tell(call: &Call, catalog: Rc<Catalog>, freed: Vec<FreedName>) {
    let mut by_cell: BTreeMap<i64, Vec<OwnedName>> = BTreeMap::new();
    for name in freed {
        by_cell.entry(name.given_up_by.unwrap_or(NOBODY)).or_default().push(name.into_name());
    }
    let all = || by_cell.values().flatten().map(|name| &name.bucket);
    drop_skeletons(call, &catalog.types, all());
    waiters::settled(call, all(), false);
    for (cell_id, names) in &by_cell {
        let released = names.iter().map(|OwnedName { bucket, owner }| {
            let old = Some(owner.owner());
            AuditedName { op: "release", bucket, old, new: None }
        });
        let call = call.of_cell(*cell_id).with_catalog(catalog.clone());
        audit::changed(&call, None, "quarantine_released", &released.collect::<Vec<_>>());
    }
}

/// The number of rows that one statement deletes.
const PURGE_BATCH: i64 = 10_000;

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn purge_quarantine() -> Result<i64, ErrorReport> {
    Ok(Call::run(|call| {
        access::administer()?;
        admission::admit_everybody(&call.current_catalog(), Need::Settle)?;
        let mut total = 0;
        loop {
            let purged = purge(call, PURGE_BATCH) as i64;
            total += purged;
            if purged < PURGE_BATCH {
                return Ok::<_, ClaimsError>(total);
            }
            check_for_interrupts!();
        }
    })?)
}

/// Deletes at most `limit` names whose time is over. Returns how many: none while a profile changes, which renames them.
pub fn purge(call: &Call, limit: i64) -> usize {
    if !naming::hold_now() {
        return 0;
    }
    let purged = NAME_TABLES.of(call).purge_over(call.connection, Moment::now(), limit);
    drop_skeletons(call, &call.current_catalog().types, purged.iter());
    purged.len()
}
