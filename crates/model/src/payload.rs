//! The normalized request: types by name, ids as text, keys in one order. Two requests are equal exactly if their
//! normalized forms and their local transactions are.

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::batch::Batch;
use crate::claim::{Bucket, Claim, Destroy, Reference};
use crate::record_json::{JsonId, JsonRecord, push_records};
use crate::types::{TypeTable, Types};

#[derive(Serialize)]
pub struct ClaimForm<'a> {
    bucket: BucketForm<'a>,
    subject: SubjectForm<'a>,
    source: SourceForm<'a>,
}

/// A record with the names of its types, as a cell sends it.
pub struct NamedRecord<'a> {
    /// The type and the name.
    pub bucket: (&'a str, &'a str),
    /// The type and the id.
    pub subject: (&'a str, &'a str),
    pub source: (&'a str, &'a str),
}

/// Formats records as the JSON that `begin_update` takes.
pub fn named_records<'a>(records: impl IntoIterator<Item = NamedRecord<'a>>) -> Result<String, serde_json::Error> {
    let form = |record: NamedRecord<'a>| ClaimForm {
        bucket: BucketForm { type_name: record.bucket.0, value: record.bucket.1 },
        subject: SubjectForm { type_name: record.subject.0, id: record.subject.1 },
        source: SourceForm { type_name: record.source.0, rails_primary_key_id: record.source.1 },
    };
    let mut json = Vec::new();
    serde::Serializer::collect_seq(&mut serde_json::Serializer::new(&mut json), records.into_iter().map(form))?;
    String::from_utf8(json).map_err(serde::ser::Error::custom)
}

/// A bucket as JSON: `{"type": "ROUTES", "value": "x"}`.
#[derive(Serialize)]
pub struct BucketForm<'a> {
    #[serde(rename = "type")]
    type_name: &'a str,
    value: &'a str,
}

#[derive(Serialize)]
struct SubjectForm<'a> {
    #[serde(rename = "type")]
    type_name: &'a str,
    id: &'a str,
}

#[derive(Serialize)]
struct SourceForm<'a> {
    #[serde(rename = "type")]
    type_name: &'a str,
    rails_primary_key_id: &'a str,
}

fn name(table: &TypeTable, id: i32) -> &str {
    // The reader found every id of a batch in these tables.
    table.name(id).unwrap_or("UNSPECIFIED")
}

impl<'a> BucketForm<'a> {
    pub fn new(bucket: &'a Bucket, types: &'a Types) -> Self {
        BucketForm { type_name: name(&types.bucket, bucket.bucket_type), value: &bucket.value }
    }
}

fn subject_form<'a>(subject: &'a Reference, types: &'a Types) -> SubjectForm<'a> {
    SubjectForm { type_name: name(&types.subject, subject.type_id), id: &subject.id }
}

fn source_form<'a>(source: &'a Reference, types: &'a Types) -> SourceForm<'a> {
    SourceForm { type_name: name(&types.source, source.type_id), rails_primary_key_id: &source.id }
}

/// Returns a record for serialization.
pub fn claim_form<'a>(claim: &'a Claim, types: &'a Types) -> ClaimForm<'a> {
    ClaimForm {
        bucket: BucketForm::new(&claim.bucket, types),
        subject: subject_form(&claim.subject, types),
        source: source_form(&claim.source, types),
    }
}

/// Returns the text by which requests are compared. It has the names that types had first, and canonical forms only.
pub fn compared_text(batch: &Batch, lasting_types: &Types) -> String {
    let mut json = String::new();
    push_compared_text(&mut json, batch, lasting_types);
    json
}

/// Appends [`compared_text`] of a batch.
pub fn push_compared_text(json: &mut String, batch: &Batch, types: &Types) {
    json.reserve(TEXT_BYTES * (batch.records() + 1));
    json.push_str(r#"{"create_records":"#);
    let creates = batch.creates.iter();
    push_records(
        json,
        creates.map(|Claim { bucket, subject, source, .. }| json_record(types, bucket, Some(subject), Some(source))),
    );
    json.push_str(r#","destroy_records":"#);
    let destroys = batch.destroys.iter();
    push_records(
        json,
        destroys
            .map(|Destroy { bucket, subject, source }| json_record(types, bucket, subject.as_ref(), source.as_ref())),
    );
    json.push('}');
}

/// The bytes that most records have as text.
const TEXT_BYTES: usize = 192;

fn json_record<'a>(
    types: &'a Types,
    bucket: &'a Bucket,
    subject: Option<&'a Reference>,
    source: Option<&'a Reference>,
) -> JsonRecord<'a> {
    let end = |of: &'a TypeTable| move |to: &'a Reference| (name(of, to.type_id), JsonId::Text(&to.id));
    JsonRecord {
        bucket: (name(&types.bucket, bucket.bucket_type), &bucket.value),
        subject: subject.map(end(&types.subject)),
        source: source.map(end(&types.source)),
    }
}

/// Returns the SHA-256 of the compared text and the local transaction.
pub fn request_digest(compared: &str, cell_xid: Option<u64>) -> [u8; 32] {
    let mut hash = Sha256::new();
    match cell_xid {
        None => hash.update([0]),
        Some(xid) => {
            hash.update([1]);
            hash.update(xid.to_be_bytes());
        }
    }
    hash.update(compared.as_bytes());
    hash.finalize().into()
}
