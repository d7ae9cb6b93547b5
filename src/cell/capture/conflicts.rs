//! The conflicts of a refused save: which row and which declaration each concerns. `last_conflicts` returns those of the session's
//! last refused save.

use std::cell::RefCell;

use claims_model::capture::{Create, Id};
use claims_model::outgoing::{Outgoing, Refusal, refusals};
use claims_model::refused::{RefusedName, refused_names};
use pgrx::pg_sys::Oid;
use serde_json::Value;

use super::errors::CaptureError;
use super::refused_save::{ClaimedTwice, RefusedSave};
use crate::kernel::catalog;
use crate::kernel::error::ClaimsError;
use pg::name::{Name, Relation};
use pg::prelude::*;
use pg::{roles, spi};

/// The last refused save.
struct RefusedBefore {
    /// The role that saved.
    role: Oid,
    names: Vec<RefusedName>,
}

thread_local! {
    static LAST: RefCell<Option<RefusedBefore>> = const { RefCell::new(None) };
}

/// Returns the service's conflicts as an error that names rows and declarations, and remembers them. Returns any other error as it is.
pub fn explained(outgoing: &Outgoing, error: ClaimsError) -> ClaimsError {
    let Some((refusals, error)) = refusals_of(&error).zip(error.refusal().cloned()) else { return error };
    let rows = outgoing.rows();
    let names = refused_names(refusals, |bucket| rows.row_of(bucket));
    remember(&names);
    CaptureError::RefusedSave(RefusedSave { error, names }).into()
}

/// Returns the conflicts with which a service has refused a batch. `None` for any other error.
pub fn refusals_of(error: &ClaimsError) -> Option<Vec<Refusal>> {
    refusals(error.refusal()?.detail.as_deref()?)
}

/// Returns the error for a name that several rows of the cell have, and remembers it as a conflict.
pub fn claimed_twice(cell_id: i64, create: &Create) -> ClaimsError {
    const REASON: &str = "taken";
    let Create { bucket, ends, .. } = create;
    let name = RefusedName {
        origin: ends.origin.clone(),
        bucket_type: bucket.bucket_type.to_string(),
        bucket_value: bucket.value.clone(),
        given: ends.display.clone().unwrap_or_else(|| bucket.value.clone()),
        source_id: ends.source_id.as_ref().map(Id::to_text),
        reason: REASON.to_owned(),
        retryable: false,
        holder_cell_id: Some(cell_id),
    };
    remember(std::slice::from_ref(&name));
    let [bucket_type, value] = [&name.bucket_type, &name.bucket_value].map(|text| Value::from(text.as_str()));
    let conflicts = format!(
        r#"[{{"op":"create","bucket":{{"type":{bucket_type},"value":{value}}},"reason":"{REASON}","retryable":false,"holder_cell_id":{cell_id},"lease_age_seconds":null}}]"#
    );
    CaptureError::ClaimedTwice(ClaimedTwice { name, conflicts }).into()
}

fn remember(names: &[RefusedName]) {
    LAST.set(Some(RefusedBefore { role: roles::caller(), names: names.to_vec() }));
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn last_conflicts() -> Result<
    TableIterator<
        'static,
        (
            name!(table_name, Option<Relation>),
            name!(attribute, Option<Name>),
            name!(bucket_type, String),
            name!(bucket_value, String),
            name!(source_id, Option<String>),
            name!(reason, String),
            name!(retryable, bool),
            name!(holder_cell_id, Option<i64>),
            name!(holder_cell_name, Option<String>),
        ),
    >,
    ErrorReport,
> {
    crate::kernel::access::refuse_restricted()?;
    // Another role may use the session now.
    let may_read = |refusal: &&RefusedBefore| roles::has_privileges_of(roles::caller(), refusal.role);
    let names = LAST.with_borrow(|last| last.as_ref().filter(may_read).map(|refusal| refusal.names.clone()));
    let catalog = spi::connect(catalog::current);
    let row = move |name: RefusedName| {
        let declared = name.origin.0;
        let holder = name.holder_cell_id.and_then(|cell| catalog.cells.get(&cell)?.name.clone());
        (
            declared.as_ref().map(|declared| Relation(Oid::from(declared.table))),
            declared.map(|declared| Name(declared.column_name.clone())),
            name.bucket_type,
            name.bucket_value,
            name.source_id,
            name.reason,
            name.retryable,
            name.holder_cell_id,
            holder,
        )
    };
    let rows: Vec<_> = names.unwrap_or_default().into_iter().map(row).collect();
    Ok(TableIterator::new(rows))
}
