//! What is stored of a request with its lease: types by the names that are shown, ids as text, names in their canonical form and, where
//! that was another one, as they were given.

use claims_model::{BadInput, Batch, Bucket, Claim, Destroy, Problem, Reference, TypeTable, Types};

use crate::error::ClaimsError;
use crate::pg::jsonb::Jsonb;
use crate::pg::jsonb_writer::{Field, JsonbWriter, Written};

/// `{"create_records": […], "destroy_records": […]}`, in the order of the request. Fields are in the order of jsonb.
pub fn payload(batch: &Batch, types: &Types) -> Result<Jsonb, ClaimsError> {
    let creates = |json: &mut JsonbWriter| {
        json.array(batch.creates.iter(), |json, Claim { bucket, display, subject, source }| {
            record(json, types, (bucket, display.as_deref()), Some(subject), Some(source))
        })
    };
    let destroys = |json: &mut JsonbWriter| {
        json.array(batch.destroys.iter(), |json, Destroy { bucket, subject, source }| {
            record(json, types, (bucket, None), subject.as_ref(), source.as_ref())
        })
    };
    Jsonb::object(&[("create_records", &creates), ("destroy_records", &destroys)])
        .ok_or_else(|| BadInput::new("create_records", Problem::BatchTooLarge).into())
}

fn record(
    json: &mut JsonbWriter,
    types: &Types,
    (bucket, display): (&Bucket, Option<&str>),
    subject: Option<&Reference>,
    source: Option<&Reference>,
) -> Written {
    let bucket = |json: &mut JsonbWriter| {
        let type_name = |json: &mut JsonbWriter| json.text(name(&types.bucket, bucket.bucket_type));
        let value = |json: &mut JsonbWriter| json.text(&bucket.value);
        let given = |json: &mut JsonbWriter| json.text(display.unwrap_or_default());
        let fields: [Field; 3] = [("type", &type_name), ("value", &value), ("display_value", &given)];
        json.object(if display.is_some() { &fields } else { &fields[..2] })
    };
    let source = source.map(|Reference { type_id, id }| {
        move |json: &mut JsonbWriter| {
            let type_name = |json: &mut JsonbWriter| json.text(name(&types.source, *type_id));
            json.object(&[("type", &type_name), ("rails_primary_key_id", &|json| json.text(id))])
        }
    });
    let subject = subject.map(|Reference { type_id, id }| {
        move |json: &mut JsonbWriter| {
            let type_name = |json: &mut JsonbWriter| json.text(name(&types.subject, *type_id));
            json.object(&[("id", &|json| json.text(id)), ("type", &type_name)])
        }
    });
    let mut fields: Vec<Field> = Vec::with_capacity(3);
    fields.push(("bucket", &bucket));
    fields.extend(source.as_ref().map(|source| -> Field { ("source", source) }));
    fields.extend(subject.as_ref().map(|subject| -> Field { ("subject", subject) }));
    json.object(&fields)
}

/// Every id in a batch was looked up in these tables.
fn name(table: &TypeTable, id: i32) -> &str {
    table.name(id).unwrap_or("UNSPECIFIED")
}
