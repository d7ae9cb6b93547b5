//! The names and rows of captured changes.

use std::rc::Rc;

use claims_names::Profile;

use crate::origin::Origin;
use crate::{Problem, limits, source_key};

/// A bucket with the name of its type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedBucket {
    pub bucket_type: Rc<str>,
    /// The canonical form of the name.
    pub value: String,
    /// Whether the type's profile refuses the name. Then `value` is the name in the row, and no claim can exist.
    pub is_forbidden: bool,
}

impl NamedBucket {
    /// Returns the bucket of a name in a row, and the name itself if it is not the canonical form. The error says why
    /// the name is too long for any bucket.
    pub fn named(bucket_type: Rc<str>, profile: Profile, given: String) -> Result<(Self, Option<String>), Problem> {
        if profile == Profile::Exact {
            let excess = limits::bucket_value_excess(&given);
            return excess.map_or(Ok((NamedBucket { bucket_type, value: given, is_forbidden: false }, None)), Err);
        }
        match profile.canonical(&given).map(|canonical| (*canonical != *given).then(|| canonical.into_owned())) {
            Ok(None) => Ok((NamedBucket { bucket_type, value: given, is_forbidden: false }, None)),
            Ok(Some(value)) => Ok((NamedBucket { bucket_type, value, is_forbidden: false }, Some(given))),
            Err(problem) if problem.is_length() => Err(Problem::name(problem)),
            Err(_) => Ok((NamedBucket { bucket_type, value: given, is_forbidden: true }, None)),
        }
    }
}

/// The id of a subject or a source. Numbers are sent as numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Id {
    Number(i64),
    Text(String),
}

impl Id {
    pub fn to_text(&self) -> String {
        match self {
            Id::Number(number) => number.to_string(),
            Id::Text(text) => text.clone(),
        }
    }
}

/// The subject and the source of a claim. A NULL key remains until the batch is built.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ends {
    pub subject_type: Rc<str>,
    pub subject_id: Option<Id>,
    pub source_type: Rc<str>,
    pub source_id: Option<Id>,
    /// The name in the row, if it is not the canonical form.
    pub display: Option<String>,
    pub origin: Origin,
}

/// The limit of a [`crate::capture::Capacity`] that the changes exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooMany {
    Buckets,
    Bytes,
}

impl Ends {
    /// Returns whether a claim on the bucket can have these ends. The service refuses all others for their form.
    pub fn fit(&self, bucket: &NamedBucket) -> bool {
        let is_id = |id: &Option<Id>| match id {
            Some(Id::Number(_)) => true,
            Some(Id::Text(text)) => source_key::is_id(text),
            None => false,
        };
        is_id(&self.subject_id)
            && is_id(&self.source_id)
            && !bucket.is_forbidden
            && !bucket.value.is_empty()
            && limits::bucket_value_excess(&bucket.value).is_none()
    }

    /// Returns the bytes of its texts, without the names of types, which all entries share.
    pub(crate) fn bytes(&self) -> usize {
        let text = |id: &Option<Id>| match id {
            Some(Id::Text(text)) => text.len(),
            _ => 0,
        };
        text(&self.subject_id) + text(&self.source_id) + self.display.as_ref().map_or(0, String::len)
    }

    /// Returns whether both have one source, and so one row.
    pub fn has_source_of(&self, other: &Ends) -> bool {
        (&self.source_type, &self.source_id) == (&other.source_type, &other.source_id)
    }
}
