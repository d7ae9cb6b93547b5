//! The normalized request: types by name, ids as text, keys in one order. Two requests are the same exactly when
//! their normalized forms (and the local transaction they name) are.

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::batch::{Batch, Bucket, Claim, Reference};
use crate::types::{TypeTable, Types};

#[derive(Serialize)]
struct PayloadForm<'a> {
    create_records: Vec<ClaimForm<'a>>,
    destroy_records: Vec<DestroyForm<'a>>,
}

/// A record as JSON: bucket, subject, source.
#[derive(Serialize)]
pub struct ClaimForm<'a> {
    bucket: BucketForm<'a>,
    subject: SubjectForm<'a>,
    source: SourceForm<'a>,
}

#[derive(Serialize)]
struct DestroyForm<'a> {
    bucket: BucketForm<'a>,
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
    // Every id in a batch was looked up in these tables.
    table.name(id).unwrap_or("UNSPECIFIED")
}

impl<'a> BucketForm<'a> {
    pub fn new(bucket: &'a Bucket, types: &'a Types) -> Self {
        BucketForm { type_name: name(&types.bucket, bucket.bucket_type), value: &bucket.value }
    }
}

/// A record on its way into JSON.
pub fn claim_form<'a>(claim: &'a Claim, types: &'a Types) -> ClaimForm<'a> {
    let Reference { type_id: subject_type, id: subject_id } = &claim.subject;
    let Reference { type_id: source_type, id: source_id } = &claim.source;
    ClaimForm {
        bucket: BucketForm::new(&claim.bucket, types),
        subject: SubjectForm { type_name: name(&types.subject, *subject_type), id: subject_id },
        source: SourceForm { type_name: name(&types.source, *source_type), rails_primary_key_id: source_id },
    }
}

/// The normalized request as JSON text.
pub fn payload_text(batch: &Batch, types: &Types) -> Result<String, serde_json::Error> {
    let form = PayloadForm {
        create_records: batch.creates.iter().map(|claim| claim_form(claim, types)).collect(),
        destroy_records: batch
            .destroys
            .iter()
            .map(|bucket| DestroyForm { bucket: BucketForm::new(bucket, types) })
            .collect(),
    };
    serde_json::to_string(&form)
}

/// SHA-256 over what makes two requests the same: the normalized payload and the local transaction.
pub fn request_digest(payload: &str, cell_xid: Option<u64>) -> [u8; 32] {
    let mut hash = Sha256::new();
    match cell_xid {
        None => hash.update([0]),
        Some(xid) => {
            hash.update([1]);
            hash.update(xid.to_be_bytes());
        }
    }
    hash.update(payload.as_bytes());
    hash.finalize().into()
}
