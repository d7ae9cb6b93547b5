//! `erase_name` and `forget_erasure_key`: make a name that nobody has any more forgotten, in the service's database and in that of a cell.

use claims_model::types::Kind;
use claims_model::{BadInput, Bucket, Problem, id};

use super::claimed::expected;
use crate::kernel::admin_action::AdminAction;
use crate::kernel::arguments;
use crate::kernel::call::{Call, answer};
use crate::kernel::catalog::Catalog;
use crate::kernel::error::ClaimsError;
use crate::service::erasure::errors::ErasureError;
use crate::service::erasure::{self, Erased, NameToErase};
use pg::prelude::*;
use pg::query::query;
use pg::spi::Connection;

/// The names of a bucket type, as a cell stores it with names.
macro_rules! is_of_type {
    ($column:literal) => {
        concat!(
            $column,
            " IN (SELECT n.name FROM claims.type_names n WHERE n.kind = 'bucket' AND n.id = :bucket_type
                  UNION SELECT t.name FROM claims.bucket_types t WHERE t.id = :bucket_type)"
        )
    };
}

query! {
    fn erase_observed(bucket_type: i32, value: &str, form: &str) -> usize = [Statement] concat!(
        "UPDATE claims.observed o SET bucket_value = :form WHERE o.bucket_value = :value AND ", is_of_type!("o.bucket_type"));
    fn erase_collisions(bucket_type: i32, value: &str, form: &str) -> usize = [Statement] concat!(
        "UPDATE claims.imported_collisions c SET bucket_value = :form WHERE c.bucket_value = :value AND ", is_of_type!("c.bucket_type"));
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn erase_name(
    bucket_type: Option<String>,
    bucket_value: Option<String>,
    reason: Option<String>,
) -> Result<TableIterator<'static, (name!(place, String), name!(rows, i64))>, ErrorReport> {
    let action = AdminAction::begin("erase_name", reason)?;
    arguments::require!(bucket_type, bucket_value);
    let (catalog, name) = Call::run(|call| {
        call.tables.require_here()?;
        let catalog = call.current_catalog();
        let bucket = bucket(&catalog, &bucket_type, &bucket_value)?;
        let name = erasure::to_erase(call, &catalog.types, bucket);
        Ok::<_, ClaimsError>((catalog, name))
    })?;
    // The logs of the action must not have the name.
    let action = action.with("bucket_type", bucket_type).with("erased", name.form.as_str());
    let erased = action.perform_counted(|call| {
        must_have_no_row(call.connection, &catalog, &name)?;
        let mut erased = erasure::erase(call, &catalog.types, &name)?;
        erased.extend(erase_here(call.connection, &name));
        let total = erased.iter().map(|(_, rows)| rows).sum();
        Ok((erased, vec![("rows", total)]))
    })?;
    Ok(TableIterator::new(erased.into_iter().map(|(place, rows)| (place.to_owned(), rows))))
}

/// Returns the name that two arguments mean. It may be one that its profile refuses today.
fn bucket(catalog: &Catalog, bucket_type: &str, bucket_value: &str) -> Result<Bucket<'static>, ClaimsError> {
    let number = id::type_from_text(bucket_type, Kind::Bucket, &catalog.types)
        .map_err(|problem| BadInput::new("bucket_type", problem))?;
    let value = catalog.types.canonical_for_lookup(number, bucket_value);
    let value = value.map_err(|problem| BadInput::new("bucket_value", Problem::name(problem)))?;
    Ok(Bucket { bucket_type: number, value: value.into_owned().into() })
}

/// Raises an error if a row of a claimed table has the name. Takes no locks.
fn must_have_no_row(connection: &Connection, catalog: &Catalog, name: &NameToErase) -> Result<(), ClaimsError> {
    let Some(type_name) = catalog.types.bucket.name(name.bucket.bucket_type) else { return Ok(()) };
    for attribute in expected::of_bucket(connection, type_name) {
        if !attribute.with_values_now(connection, &[&name.bucket.value]).is_empty() {
            return Err(ErasureError::HasRows { table: attribute.quoted_name.clone() }.into());
        }
    }
    Ok(())
}

/// Replaces a name in the tables of a cell.
fn erase_here(connection: &Connection, name: &NameToErase) -> [Erased; 2] {
    let (bucket_type, value, form) = (name.bucket.bucket_type, &*name.bucket.value, name.form.as_str());
    [
        ("observations", erase_observed(connection, bucket_type, value, form) as i64),
        ("import_collisions", erase_collisions(connection, bucket_type, value, form) as i64),
    ]
}

#[pg_extern(schema = "claims", security_definer)]
#[search_path(pg_catalog, pg_temp)]
fn forget_erasure_key(reason: Option<String>) -> Result<bool, ErrorReport> {
    answer(|| {
        let action = AdminAction::begin("forget_erasure_key", reason)?;
        action.perform(|call| Ok(erasure::forget_key(call.connection) > 0))
    })
}
