//! An outgoing batch as the service reads it, for a cell whose claims are in its own database: there nothing is sent as JSON.

use std::borrow::Cow;

use crate::batch::Batch;
use crate::capture::{Create, Ends, Id, NamedBucket};
use crate::claim::{Bucket, Claim, Destroy, Reference};
use crate::id::{bounded_text, named_type};
use crate::limits;
use crate::outgoing::Outgoing;
use crate::types::{Kind, Types};

impl Outgoing {
    /// Returns the batch as [`Batch::read`] reads it from [`Outgoing::json`]. Returns `None` if the service would refuse its form, or
    /// if a profile has changed since the rows were captured. The caller then sends the JSON, and gets the error.
    pub fn batch(&self, types: &Types) -> Option<Batch<'_>> {
        if self.is_empty() {
            return None;
        }
        let creates = self.creates.iter().map(|creating| claim(&creating.create, types)).collect::<Option<_>>()?;
        let destroys =
            self.destroys.iter().map(|destroying| destroy(&destroying.bucket, destroying.ends.last(), types));
        Batch::of_lists(creates, destroys.collect::<Option<_>>()?).ok()
    }
}

fn claim<'c>(create: &'c Create, types: &Types) -> Option<Claim<'c>> {
    let Create { bucket, ends, .. } = create;
    let (bucket, display) = named_bucket(bucket, ends.display.as_deref(), types)?;
    let (subject, source) = references(ends, types)?;
    Some(Claim { bucket, subject, source, display })
}

fn destroy<'d>(bucket: &'d NamedBucket, ends: Option<&'d Ends>, types: &Types) -> Option<Destroy<'d>> {
    let (bucket, _) = named_bucket(bucket, ends.and_then(|ends| ends.display.as_deref()), types)?;
    let Some(ends) = ends else { return Some(Destroy { bucket, subject: None, source: None }) };
    let (subject, source) = references(ends, types)?;
    Some(Destroy { bucket, subject: Some(subject), source: Some(source) })
}

/// Returns a bucket, and the name in the row if that is another spelling.
fn named_bucket<'n>(
    named: &'n NamedBucket,
    display: Option<&'n str>,
    types: &Types,
) -> Option<(Bucket<'n>, Option<Cow<'n, str>>)> {
    let bucket_type = named_type(&named.bucket_type, Kind::Bucket, types).ok()?;
    let given = bounded_text(display.unwrap_or(&named.value), limits::BUCKET_VALUE_CHARS).ok()?;
    let is_same = types.canonical(bucket_type, given).is_ok_and(|canonical| *canonical == *named.value);
    if !is_same || limits::bucket_value_excess(&named.value).is_some() {
        return None;
    }
    let display = (*given != *named.value).then_some(Cow::Borrowed(given));
    Some((Bucket { bucket_type, value: Cow::Borrowed(&named.value) }, display))
}

/// Returns the subject and the source.
fn references<'e>(ends: &'e Ends, types: &Types) -> Option<(Reference<'e>, Reference<'e>)> {
    let reference = |type_name: &str, kind, id: &'e Option<Id>| {
        let type_id = named_type(type_name, kind, types).ok()?;
        let id = match id.as_ref()? {
            Id::Number(number) => Cow::Owned(number.to_string()),
            Id::Text(text) => Cow::Borrowed(bounded_text(text, limits::ID_CHARS).ok()?),
        };
        Some(Reference { type_id, id })
    };
    let subject = reference(&ends.subject_type, Kind::Subject, &ends.subject_id)?;
    Some((subject, reference(&ends.source_type, Kind::Source, &ends.source_id)?))
}
