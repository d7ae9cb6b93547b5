//! The payload that is stored with a lease: its request, with the current names of types, ids as text, and names in canonical
//! form. The original spelling of a name is stored, too, if it differs.

use std::collections::HashSet;

use claims_model::{BadInput, Batch, Bucket, Claim, Destroy, Problem, Reason, Reference, TypeTable, Types};

use pg::jsonb::Jsonb;
use pg::jsonb_writer::{Field, MissingValue, TooLarge, Written};

/// A destroy that a lease begins without, and the reason.
pub type SkippedDestroy<'b> = (&'b Destroy<'b>, Reason);

/// Returns `{"create_records": […], "destroy_records": […]}`, in the order of the request.
pub fn payload<'t>(batch: &'t Batch, types: &'t Types) -> Result<Jsonb, BadInput> {
    write(batch, batch.destroys.iter(), &[], types)
}

/// Like [`payload`], without the destroys that were skipped, which are listed with their reasons under `skipped_destroys`.
pub fn payload_without<'t>(
    batch: &'t Batch,
    skipped: &'t [SkippedDestroy],
    types: &'t Types,
) -> Result<Jsonb, BadInput> {
    let buckets: HashSet<_> = skipped.iter().map(|(destroy, _)| &destroy.bucket).collect();
    let taken: Vec<_> = batch.destroys.iter().filter(|destroy| !buckets.contains(&destroy.bucket)).collect();
    write(batch, taken.iter().copied(), skipped, types)
}

fn write<'t, 'd: 't>(
    batch: &'t Batch,
    destroys: impl ExactSizeIterator<Item = &'t Destroy<'d>> + Clone,
    skipped: &'t [SkippedDestroy],
    types: &'t Types,
) -> Result<Jsonb, BadInput> {
    let creates = |json: MissingValue<'_, 't>| {
        json.array(batch.creates.iter(), |json, Claim { bucket, display, subject, source }| {
            record(json, types, (bucket, display.as_deref()), Some(subject), Some(source))
        })
    };
    let destroy_records = |json: MissingValue<'_, 't>| {
        json.array(destroys.clone(), |json, Destroy { bucket, subject, source }| {
            record(json, types, (bucket, None), subject.as_ref(), source.as_ref())
        })
    };
    let skips = |json: MissingValue<'_, 't>| {
        json.array(skipped.iter(), |json, (Destroy { bucket, .. }, reason)| {
            let bucket = |json: MissingValue<'_, 't>| bucket_of(json, types, bucket, None);
            let reason = |json: MissingValue<'_, 't>| json.text(reason.name());
            json.object(&[("bucket", &bucket), ("reason", &reason)])
        })
    };
    let fields: [Field; 3] =
        [("create_records", &creates), ("destroy_records", &destroy_records), ("skipped_destroys", &skips)];
    let whole = Jsonb::object(if skipped.is_empty() { &fields[..2] } else { &fields });
    whole.map_err(|TooLarge| BadInput::new("batch", Problem::PayloadTooLarge))
}

fn record<'t>(
    json: MissingValue<'_, 't>,
    types: &'t Types,
    (bucket, display): (&'t Bucket, Option<&'t str>),
    subject: Option<&'t Reference>,
    source: Option<&'t Reference>,
) -> Written {
    let bucket = |json: MissingValue<'_, 't>| bucket_of(json, types, bucket, display);
    let source = source.map(|source| reference(&types.source, source, "rails_primary_key_id"));
    let subject = subject.map(|subject| reference(&types.subject, subject, "id"));
    let mut fields: Vec<Field> = Vec::with_capacity(3);
    fields.push(("bucket", &bucket));
    fields.extend(source.as_ref().map(|source| -> Field { ("source", source) }));
    fields.extend(subject.as_ref().map(|subject| -> Field { ("subject", subject) }));
    json.object(&fields)
}

fn bucket_of<'t>(
    json: MissingValue<'_, 't>,
    types: &'t Types,
    bucket: &'t Bucket,
    display: Option<&'t str>,
) -> Written {
    let type_name = |json: MissingValue<'_, 't>| json.text(name(&types.bucket, bucket.bucket_type));
    let value = |json: MissingValue<'_, 't>| json.text(&bucket.value);
    let given = |json: MissingValue<'_, 't>| json.text(display.unwrap_or_default());
    let fields: [Field; 3] = [("type", &type_name), ("value", &value), ("display_value", &given)];
    json.object(if display.is_some() { &fields } else { &fields[..2] })
}

fn reference<'t>(
    types: &'t TypeTable,
    to: &'t Reference,
    id_key: &'static str,
) -> impl Fn(MissingValue<'_, 't>) -> Written {
    move |json| {
        let type_name = |json: MissingValue<'_, 't>| json.text(name(types, to.type_id));
        let id = |json: MissingValue<'_, 't>| json.text(&to.id);
        let (type_name, id): (Field, Field) = (("type", &type_name), (id_key, &id));
        // The shorter key comes first.
        json.object(&if id_key.len() < "type".len() { [id, type_name] } else { [type_name, id] })
    }
}

/// Returns the name of a type. Every id in a batch comes from these tables.
fn name(table: &TypeTable, id: i32) -> &str {
    table.name(id).unwrap_or("UNSPECIFIED")
}
