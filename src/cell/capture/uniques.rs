//! Conflicts of unique values in one database. A claim of a table that gave up its values is replaced, a transaction that is changing a value is
//! waited for as PostgreSQL waits for it, and a violation reads like PostgreSQL's own.

use std::collections::BTreeSet;
use std::rc::Rc;

use claims_model::capture::{Create, Ends, Id, NamedBucket};
use claims_model::origin::Origin;
use claims_model::outgoing::{Outgoing, Refusal};
use claims_model::refused::weightiest;
use pgrx::PgSqlErrorCode as Code;

use super::errors::CaptureError;
use super::refused_save::{DoubleValue, RefusedSave};
use crate::cell::claimed::unique_tables;
use crate::kernel::catalog;
use crate::kernel::error::ClaimsError;
use pg::spi::Connection;
use pg::subtransaction::{Undone, subtransaction};

/// The generation with which values are claimed only to wait for others. No table has it.
const OF_NO_TABLE: i64 = 0;

/// Returns those of the types that are uniques.
pub fn among(connection: &Connection, buckets: &[&NamedBucket]) -> BTreeSet<String> {
    let types: BTreeSet<&str> = buckets.iter().map(|bucket| &*bucket.bucket_type).collect();
    if types.is_empty() {
        return BTreeSet::new();
    }
    let types: Vec<&str> = types.into_iter().collect();
    unique_tables::uniques_among(connection, &types).into_iter().collect()
}

/// Replaces claims of tables that have given up their values. Returns whether the batch has changed.
pub fn replace_given_up(
    connection: &Connection,
    outgoing: &mut Outgoing,
    refusals: &[Refusal],
    (cell_id, uniques): (i64, &BTreeSet<String>),
) -> bool {
    let taken = outgoing.taken(refusals, cell_id);
    let mut existing = Vec::new();
    for name in uniques {
        let buckets = || taken.iter().filter(|bucket| *bucket.bucket_type == **name);
        let values: Vec<&str> = buckets().map(|bucket| bucket.value.as_str()).collect();
        for given_up in unique_tables::given_up(connection, name, &values) {
            let bucket = buckets().find(|bucket| bucket.value == given_up.value);
            existing
                .extend(bucket.map(|bucket| ((*bucket).clone(), ends_of(&bucket.bucket_type, given_up.generation))));
        }
    }
    outgoing.replace(existing)
}

/// Returns the ends of a claim of a unique: the generation of the table is its subject and its source.
pub fn ends_of(unique: &Rc<str>, generation: i64) -> Ends {
    let generation = Some(Id::Number(generation));
    Ends {
        subject_type: unique.clone(),
        subject_id: generation.clone(),
        source_type: unique.clone(),
        source_id: generation,
        display: None,
        origin: Origin::default(),
    }
}

/// Waits for the transactions that are changing unique values of a refused batch, as long as the session's `lock_timeout` allows. Returns `false` if
/// there are none.
pub fn wait(connection: &Connection, outgoing: &Outgoing, refusals: &[Refusal]) -> bool {
    let in_flight = outgoing.in_flight(refusals);
    let uniques = among(connection, &in_flight);
    let catalog = catalog::current(connection);
    let mut has_waited = false;
    for name in &uniques {
        let Some(type_id) = catalog.types.bucket.id(name) else { continue };
        let mut values: Vec<String> = in_flight
            .iter()
            .filter(|bucket| *bucket.bucket_type == **name)
            .map(|bucket| bucket.value.clone())
            .collect();
        values.sort_unstable();
        let displays = vec![None; values.len()];
        // It only waits, and is undone.
        let claim = || {
            unique_tables::claim_values(connection, type_id, OF_NO_TABLE, &values, displays);
            Err::<(), ()>(())
        };
        let undone: Result<(), Undone<()>> = subtransaction(&[Code::ERRCODE_T_R_SERIALIZATION_FAILURE], claim);
        has_waited |= undone.is_err();
    }
    has_waited
}

/// Returns the violation behind the error of a refused save, or else the error.
pub fn explained(connection: &Connection, error: ClaimsError) -> ClaimsError {
    let Some(CaptureError::RefusedSave(RefusedSave { error: refusal, names })) = error.of() else { return error };
    let Some(name) = weightiest(names).filter(|_| refusal.sqlstate == *b"23505") else { return error };
    let Some(declared) = name.origin.0.clone() else { return error };
    if unique_tables::uniques_among(connection, &[&name.bucket_type]).is_empty() {
        return error;
    }
    let table = unique_tables::table_with(connection, &name.bucket_type, &name.bucket_value);
    DoubleValue { declared, given: name.given.clone(), table }.into()
}

/// Returns the violation of a value that the transaction has saved more than once, if its column is unique.
pub fn saved_twice(connection: &Connection, create: &Create) -> Option<ClaimsError> {
    let Create { bucket, ends, .. } = create;
    let declared = ends.origin.0.clone()?;
    if among(connection, &[bucket]).is_empty() {
        return None;
    }
    let given = ends.display.clone().unwrap_or_else(|| bucket.value.clone());
    Some(DoubleValue { declared, given, table: None }.into())
}
