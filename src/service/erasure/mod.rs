//! Replaces an erased name in what outlives its claim at the service: the audit log, the change feed, the log of admin actions, skeletons, and
//! names that are kept back.
//!
//! A claim of nobody holds the name meanwhile, so that no begin takes it: others see it in flight, and it is gone with the COMMIT.

pub mod errors;

use std::time::Instant;

use claims_model::erasure::erased_form;
use claims_model::history::name_key;
use claims_model::{Bucket, Claim, NOBODY, Reference, Types};
use serde_json::Value;
use uuid::Uuid;

use self::errors::ErasureError;
use crate::kernel::call::Call;
use crate::kernel::error::ClaimsError;
use crate::kernel::settings;
use crate::service::claims::{CLAIM_TABLES, CONTENTION_SQLSTATES, FoundClaim, kept};
use crate::service::quarantine::{drop_skeletons, keep_skeletons};
use pg::jsonb::JsonText;
use pg::query::{query, record};
use pg::settings::LockWaits;
use pg::spi::Connection;
use pg::subtransaction::translate_error;

::pgrx::extension_sql_file!("../../../sql/install/service/erasure.sql", name = "erasure", requires = ["tables"]);

/// A place where a name was, and the number of rows in which it was replaced.
pub type Erased = (&'static str, i64);

/// A name to erase, and the form that replaces it.
pub struct NameToErase<'n> {
    pub bucket: Bucket<'n>,
    /// The first name of its type.
    pub first_type_name: String,
    pub form: String,
}

/// Returns the array of names of a row, with the erased form in place of the name.
macro_rules! without_name {
    ($table:literal, $type_column:literal, $is_type:literal) => {
        concat!(
            "ARRAY(SELECT CASE WHEN ",
            $is_type,
            " AND n.value = :value THEN :form ELSE n.value END
                     FROM unnest(",
            $table,
            ".",
            $type_column,
            ", ",
            $table,
            ".bucket_values) WITH ORDINALITY AS n (type, value, nth)
                    ORDER BY n.nth)"
        )
    };
}

record! {
    /// A row of the log of admin actions whose arguments may have a name.
    struct ActionRow { id: Uuid, arguments: String }
}

query! {
    fn key() -> Option<Vec<u8>> = [Statement] "SELECT k.key FROM claims.erasure_key k FOR SHARE";
    /// Makes a key of 244 random bits, unless another session has.
    fn make_key() = [Statement]
        "INSERT INTO claims.erasure_key (key)
         VALUES (decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')) ON CONFLICT DO NOTHING";
    pub fn forget_key() -> usize = [Statement] "DELETE FROM claims.erasure_key k";
    fn free_again(bucket_type: i32, value: &str, nobody: i64) = [Statement]
        "DELETE FROM claims.claims c
          WHERE c.bucket_value = :value AND c.bucket_type = :bucket_type AND c.creator_id = :nobody";
    /// Replaces a name, and in the conflicts of refused begins also where another name looks like it.
    fn erase_audited(old_key: i64, new_key: i64, type_name: &str, bucket_type: i32, value: &str, form: &str) -> usize = [Statement] concat!(
        "WITH type_name AS MATERIALIZED (
             SELECT n.name FROM claims.type_names n WHERE n.kind = 'bucket' AND n.id = :bucket_type
             UNION SELECT t.name FROM claims.bucket_types t WHERE t.id = :bucket_type)
         UPDATE claims.audit_log a
            SET bucket_values = ", without_name!("a", "bucket_types", "n.type = :type_name"), ",
                search_keys = array_append(array_remove(a.search_keys, :old_key), :new_key),
                conflict = CASE WHEN a.conflict ? 'conflicts' THEN a.conflict || jsonb_build_object('conflicts', coalesce(
                    (SELECT jsonb_agg(
                                e.conflict
                                || CASE WHEN n.name IS NOT NULL AND e.conflict ->> 'similar_to' = :value
                                        THEN jsonb_build_object('similar_to', :form) ELSE '{}' END
                                || CASE WHEN n.name IS NOT NULL AND e.conflict #>> '{bucket,value}' = :value
                                        THEN jsonb_build_object('bucket', (e.conflict -> 'bucket') || jsonb_build_object('value', :form))
                                        ELSE '{}' END
                                ORDER BY e.nth)
                       FROM jsonb_array_elements(a.conflict -> 'conflicts') WITH ORDINALITY AS e (conflict, nth)
                       LEFT JOIN type_name n ON n.name = e.conflict #>> '{bucket,type}'), '[]')) ELSE a.conflict END
          WHERE a.search_keys @> ARRAY[:old_key]");
    fn erase_told(bucket_type: i32, value: &str, form: &str) -> usize = [Statement] concat!(
        "UPDATE claims.change_sets s SET bucket_values = ", without_name!("s", "bucket_types", "n.type = :bucket_type"), "
          WHERE s.bucket_values @> ARRAY[:value] AND s.bucket_types @> ARRAY[:bucket_type]");
    /// Returns the admin actions whose arguments are about names of a type.
    fn actions_about(bucket_type: i32) -> Vec<ActionRow> = [Statement]
        "SELECT l.id, l.arguments::text FROM claims.admin_log l
          WHERE (l.arguments ? 'bucket_values' OR l.arguments ? 'bucket_value')
            AND l.arguments ->> 'bucket_type' IN (SELECT n.name FROM claims.type_names n WHERE n.kind = 'bucket' AND n.id = :bucket_type
                                                  UNION SELECT t.name FROM claims.bucket_types t WHERE t.id = :bucket_type
                                                  UNION SELECT :bucket_type::text)";
    fn change_action(id: Uuid, arguments: JsonText) = [Statement] "UPDATE claims.admin_log l SET arguments = :arguments WHERE l.id = :id";
    /// Deletes the skeleton of a name that nobody has.
    fn drop_skeleton(bucket_type: i32, value: &str) -> usize = [Statement]
        "DELETE FROM claims.skeletons s WHERE s.bucket_type = :bucket_type AND s.bucket_value = :value AND s.reserved = ''";
}

/// Returns the key by which names are replaced. The first call makes it.
fn own_key(connection: &Connection) -> Vec<u8> {
    key(connection).unwrap_or_else(|| {
        make_key(connection);
        key(connection).unwrap_or_default()
    })
}

/// Returns a name with the form that replaces it.
pub fn to_erase<'n>(call: &Call, types: &Types, bucket: Bucket<'n>) -> NameToErase<'n> {
    let key = own_key(call.connection);
    let profile = types.naming(bucket.bucket_type).profile;
    let form = erased_form(&key, bucket.bucket_type, profile, &bucket.value);
    let first_type_name = types.bucket.first_name(bucket.bucket_type).unwrap_or_default().to_owned();
    NameToErase { bucket, first_type_name, form }
}

/// Replaces a name in the tables of the service. Raises an error if somebody has it. Returns the places, each with the number of its rows.
pub fn erase(call: &Call, types: &Types, name: &NameToErase) -> Result<Vec<Erased>, ClaimsError> {
    let NameToErase { bucket, first_type_name, form } = name;
    let (connection, bucket_type, value) = (call.connection, bucket.bucket_type, &*bucket.value);
    let kept = hold_free(call, types, name)?;
    let (old_key, new_key) = (name_key(bucket_type, value), name_key(bucket_type, form));
    let erased = vec![
        ("audit_log", erase_audited(connection, old_key, new_key, first_type_name, bucket_type, value, form) as i64),
        ("change_sets", erase_told(connection, bucket_type, value, form) as i64),
        ("admin_log", erase_in_actions(connection, types, name)),
        ("skeletons", drop_skeleton(connection, bucket_type, value) as i64),
        ("quarantined_names", kept as i64),
    ];
    free_again(connection, bucket_type, value, NOBODY);
    Ok(erased)
}

/// Frees a name that is kept back: replaces it there, or deletes it where the form is a name already. Returns the number of names.
fn erase_kept(call: &Call, types: &Types, name: &NameToErase) -> usize {
    let (bucket_type, value) = (name.bucket.bucket_type, &*name.bucket.value);
    let form = Bucket { bucket_type, value: name.form.as_str().into() };
    let replaced = kept::rename(call.connection, bucket_type, value, &name.form);
    let deleted = kept::free(call.connection, bucket_type, &[value]).len();
    if replaced + deleted > 0 {
        drop_skeletons(call, types, std::iter::once(&name.bucket));
        keep_skeletons(call, types, std::iter::once(&form).filter(|_| replaced > 0));
    }
    replaced + deleted
}

/// Holds a name that nobody has until the erasure is committed. Waits for open transactions that have the name up to `claims.wait_timeout`. Returns
/// the number of names that were kept back.
fn hold_free(call: &Call, types: &Types, name: &NameToErase) -> Result<usize, ClaimsError> {
    let bucket = &name.bucket;
    let _waits = LockWaits::until(Instant::now() + settings::wait_timeout());
    let in_flight = || ClaimsError::from(ErasureError::InFlight);
    let nothing = || Reference { type_id: 0, id: "0".into() };
    let claim = Claim { bucket: bucket.clone(), subject: nothing(), source: nothing(), display: None };
    let hold = || {
        let (tables, around) = (CLAIM_TABLES.of(call), call.tables.surroundings());
        let kept = erase_kept(call, types, name);
        Ok::<_, ClaimsError>((kept, tables.add_new(call.connection, NOBODY, &[&claim], around)))
    };
    // Another transaction may be claiming the form.
    let (kept, held) = translate_error(&CONTENTION_SQLSTATES, in_flight, hold)?;
    if !held.is_empty() {
        return Ok(kept);
    }
    let found = CLAIM_TABLES.of(call).standing(call.connection, &[bucket]).into_values().next();
    Err(match found {
        None => ErasureError::InFlight,
        Some(FoundClaim { kept: Some(kept), .. }) => match kept.reclaiming_cell {
            Some(cell_id) => ErasureError::Held { cell_id },
            None => ErasureError::InFlight,
        },
        Some(found) if found.holder_cell_id == NOBODY => ErasureError::Reserved,
        Some(found) if !found.active => ErasureError::Held { cell_id: found.holder_cell_id },
        Some(found) => ErasureError::Owned { cell_id: found.holder_cell_id },
    }
    .into())
}

/// Replaces every spelling of a name in the arguments of admin actions. Returns the number of actions.
fn erase_in_actions(connection: &Connection, types: &Types, name: &NameToErase) -> i64 {
    let is_it = |given: &str| {
        let canonical = types.canonical_for_lookup(name.bucket.bucket_type, given);
        canonical.is_ok_and(|canonical| canonical == name.bucket.value)
    };
    let mut changed = 0;
    for ActionRow { id, arguments } in actions_about(connection, name.bucket.bucket_type) {
        let Ok(mut arguments) = serde_json::from_str::<Value>(&arguments) else { continue };
        let mut replaced = 0;
        for key in ["bucket_value", "bucket_values"] {
            match arguments.get_mut(key) {
                Some(Value::Array(values)) => {
                    replaced += values.iter_mut().map(|value| replace(value, is_it, &name.form)).sum::<usize>();
                }
                Some(value) => replaced += replace(value, is_it, &name.form),
                None => {}
            }
        }
        if replaced > 0 {
            changed += 1;
            change_action(connection, id, JsonText(arguments.to_string()));
        }
    }
    changed
}

/// Replaces a text that is the name. Returns 1 if it is.
fn replace(value: &mut Value, is_it: impl Fn(&str) -> bool, form: &str) -> usize {
    let is_name = value.as_str().is_some_and(is_it);
    if is_name {
        *value = form.into();
    }
    usize::from(is_name)
}
