//! The payload that is stored with a lease: its request, with the current names of types, ids as text, and names in canonical
//! form. The original spelling of a name is stored, too, if it differs.

use claims_model::{BadInput, Batch, Bucket, Claim, Destroy, Problem, Reference, TypeTable, Types};

use crate::pg::jsonb::Jsonb;
use crate::pg::jsonb_writer::{Field, MissingValue, TooLarge, Written};

/// Returns `{"create_records": […], "destroy_records": […]}`, in the order of the request.
pub fn payload<'t>(batch: &'t Batch, types: &'t Types) -> Result<Jsonb, BadInput> {
    let creates = |json: MissingValue<'_, 't>| {
        json.array(batch.creates.iter(), |json, Claim { bucket, display, subject, source }| {
            record(json, types, (bucket, display.as_deref()), Some(subject), Some(source))
        })
    };
    let destroys = |json: MissingValue<'_, 't>| {
        json.array(batch.destroys.iter(), |json, Destroy { bucket, subject, source }| {
            record(json, types, (bucket, None), subject.as_ref(), source.as_ref())
        })
    };
    let whole = Jsonb::object(&[("create_records", &creates), ("destroy_records", &destroys)]);
    whole.map_err(|TooLarge| BadInput::new("batch", Problem::PayloadTooLarge))
}

fn record<'t>(
    json: MissingValue<'_, 't>,
    types: &'t Types,
    (bucket, display): (&'t Bucket, Option<&'t str>),
    subject: Option<&'t Reference>,
    source: Option<&'t Reference>,
) -> Written {
    let bucket = |json: MissingValue<'_, 't>| {
        let type_name = |json: MissingValue<'_, 't>| json.text(name(&types.bucket, bucket.bucket_type));
        let value = |json: MissingValue<'_, 't>| json.text(&bucket.value);
        let given = |json: MissingValue<'_, 't>| json.text(display.unwrap_or_default());
        let fields: [Field; 3] = [("type", &type_name), ("value", &value), ("display_value", &given)];
        json.object(if display.is_some() { &fields } else { &fields[..2] })
    };
    let source = source.map(|source| reference(&types.source, source, "rails_primary_key_id"));
    let subject = subject.map(|subject| reference(&types.subject, subject, "id"));
    let mut fields: Vec<Field> = Vec::with_capacity(3);
    fields.push(("bucket", &bucket));
    fields.extend(source.as_ref().map(|source| -> Field { ("source", source) }));
    fields.extend(subject.as_ref().map(|subject| -> Field { ("subject", subject) }));
    json.object(&fields)
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
