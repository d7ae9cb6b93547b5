//! `expected_records`: the claims that the cell's own tables call for.

use std::borrow::Cow;
use std::rc::Rc;

use claims_model::digest::{Digest, Entry};
use claims_model::source_key::is_id;
use claims_model::source_range::{self, SourceRange};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use serde_json::{Value, json};

use crate::access;
use crate::arguments::{self, source_range};
use crate::cell::client::naming::RequiredNaming;
use crate::error::{ClaimsError, VerificationError};
use crate::pg::jsonb::JsonText;
use crate::pg::spi::{self, Connection};
use crate::store::catalog;
use crate::store::cell::expected::{self, Attribute, Calling};
use claims_model::limits::{BUCKET_VALUE_CHARS, ID_CHARS, MAX_COMPARED};

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn expected_records(
    source_type: Option<String>,
    source_id_gt: default!(Option<String>, "NULL"),
    source_id_lte: default!(Option<String>, "NULL"),
) -> Result<JsonText, ErrorReport> {
    let records = spi::connect(|connection| {
        let source_type = access::given(source_type, "source_type")?;
        let catalog = catalog::current(connection);
        let (_, source_type) = arguments::source_type(&source_type, &catalog.types)?;
        let range = source_range(source_id_gt, source_id_lte)?;
        let mut records = Expected::of(connection, &source_type, true).records(&range)?.claims;
        records.sort_by(|a, b| {
            let by_source = source_range::compare(&a.source_id, &b.source_id);
            by_source.then_with(|| (a.bucket_type(), &a.value).cmp(&(b.bucket_type(), &b.value)))
        });
        Ok::<_, ClaimsError>(list_json(&records))
    })?;
    Ok(JsonText(records))
}

/// A claim that a row calls for.
#[derive(Clone)]
pub struct Called {
    attribute: Rc<Attribute>,
    /// The canonical form of the name, and the form that the row has where that is another one.
    pub value: String,
    display: Option<String>,
    pub subject_id: String,
    pub source_id: String,
}

impl Called {
    pub fn bucket_type(&self) -> &str {
        &self.attribute.bucket_type
    }

    /// The column that calls for it.
    pub fn attribute(&self) -> &Rc<Attribute> {
        &self.attribute
    }

    pub fn is_as(&self, other: &Called) -> bool {
        self.bucket_type() == other.bucket_type()
            && (&self.value, &self.subject_id, &self.source_id) == (&other.value, &other.subject_id, &other.source_id)
    }

    /// As `begin_update` takes it.
    fn json(&self) -> Value {
        json!({
            "bucket": {"type": self.attribute.bucket_type, "value": self.display.as_ref().unwrap_or(&self.value)},
            "subject": {"type": self.attribute.subject_type, "id": self.subject_id},
            "source": {"type": self.attribute.source_type, "rails_primary_key_id": self.source_id},
        })
    }
}

/// Claims as a JSON list.
pub fn list_json<'c>(claims: impl IntoIterator<Item = &'c Called>) -> String {
    Value::Array(claims.into_iter().map(Called::json).collect()).to_string()
}

/// The claim that a row calls for; `None` where there can be no such claim: the value is empty, too long, or none that the
/// type's profile takes, or there is no subject or source, or none that has an id.
pub fn called(attribute: &Rc<Attribute>, row: Calling) -> Option<Called> {
    claim_of(attribute, row).ok()
}

/// The same; the row as it is where there can be no such claim.
fn claim_of(attribute: &Rc<Attribute>, row: Calling) -> Result<Called, Calling> {
    match row {
        Calling { source_id: Some(source_id), value: given, subject_id: Some(subject_id) }
            if is_id(&source_id) && is_id(&subject_id) =>
        {
            let (value, display) = match attribute.profile.canonical(&given) {
                Err(_) => {
                    return Err(Calling { source_id: Some(source_id), value: given, subject_id: Some(subject_id) });
                }
                Ok(Cow::Borrowed(_)) => (given, None),
                Ok(Cow::Owned(same)) if same == given => (same, None),
                Ok(Cow::Owned(value)) => (value, Some(given)),
            };
            Ok(Called { attribute: attribute.clone(), value, display, subject_id, source_id })
        }
        row => Err(row),
    }
}

/// What a range calls for, in short.
#[derive(Debug, Clone, Copy, Default)]
pub struct Summary {
    pub claims: Digest,
    /// Rows that call for what can be no claim.
    pub unclaimable: i64,
}

impl Summary {
    pub fn without(&self, part: &Summary) -> Summary {
        Summary { claims: self.claims.without(&part.claims), unclaimable: self.unclaimable - part.unclaimable }
    }
}

/// What a range calls for, claim by claim.
#[derive(Default)]
pub struct Records {
    pub claims: Vec<Called>,
    pub unclaimable: Vec<Unclaimable>,
}

/// A row that calls for what can be no claim. Its texts may have any length: what is longer than a name, or an id, is cut.
pub struct Unclaimable {
    pub bucket_type: String,
    pub value: String,
    pub source_id: Option<String>,
}

fn cut(mut text: String, chars: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(chars) {
        text.truncate(end);
    }
    text
}

/// The rows behind one source type.
pub struct Expected<'c> {
    connection: &'c Connection,
    attributes: Vec<Rc<Attribute>>,
    as_caller: bool,
}

impl<'c> Expected<'c> {
    /// `as_caller`: all of it as the calling query sees it. Otherwise each look has a snapshot of its own.
    pub fn of(connection: &'c Connection, source_type: &str, as_caller: bool) -> Self {
        let attributes = expected::of_source(connection, source_type).into_iter().map(Rc::new).collect();
        Expected { connection, attributes, as_caller }
    }

    pub fn attributes(&self) -> &[Rc<Attribute>] {
        &self.attributes
    }

    /// How their names are compared here.
    pub fn naming(&self) -> RequiredNaming {
        let bucket_types = self.attributes.iter().map(|attribute| attribute.bucket_type.as_str());
        RequiredNaming::of(&catalog::current(self.connection).types, bucket_types)
    }

    fn each(&self, range: &SourceRange, mut each: impl FnMut(&Rc<Attribute>, Calling)) {
        for attribute in &self.attributes {
            attribute.each(self.connection, range, self.as_caller, |row| each(attribute, row));
        }
    }

    pub fn digest(&self, range: &SourceRange) -> Summary {
        let mut summary = Summary::default();
        self.each(range, |attribute, row| match called(attribute, row) {
            None => summary.unclaimable += 1,
            Some(called) => summary.claims.add(&Entry {
                bucket_type: &attribute.bucket_type,
                bucket_value: &called.value,
                subject_type: &attribute.subject_type,
                subject_id: &called.subject_id,
                source_id: &called.source_id,
            }),
        });
        summary
    }

    /// All claims of a range. An error where there are more than a comparison may have.
    pub fn records(&self, range: &SourceRange) -> Result<Records, ClaimsError> {
        let mut records = Records::default();
        let mut count = 0;
        self.each(range, |attribute, row| {
            count += 1;
            match claim_of(attribute, row) {
                _ if count > MAX_COMPARED => {}
                Ok(called) => records.claims.push(called),
                Err(row) => records.unclaimable.push(Unclaimable {
                    bucket_type: attribute.bucket_type.clone(),
                    value: cut(row.value, BUCKET_VALUE_CHARS),
                    source_id: row.source_id.map(|id| cut(id, ID_CHARS)),
                }),
            }
        });
        if count > MAX_COMPARED {
            Err(VerificationError::RangeTooLarge { limit: MAX_COMPARED }.into())
        } else {
            Ok(records)
        }
    }

    /// The tables behind the source type, each once.
    fn tables(&self) -> impl Iterator<Item = &Rc<Attribute>> {
        let is_first = |at: usize| !self.attributes[..at].iter().any(|before| before.has_rows_of(&self.attributes[at]));
        self.attributes.iter().enumerate().filter(move |(at, _)| is_first(*at)).map(|(_, attribute)| attribute)
    }

    /// The source id up to which there are `rows` rows in the range, in the table where that is soonest. `None`: no table
    /// has so many. Rows with negative keys come along; they do not count.
    pub fn end_of(&self, range: &SourceRange, rows: i64) -> Option<String> {
        let id = |table: &Rc<Attribute>| {
            table.stretches(range).first().and_then(|keys| table.id_at(self.connection, keys, Some(rows - 1)))
        };
        self.tables().filter_map(id).min_by(|a, b| source_range::compare(a, b))
    }

    /// A source id in the middle of the range, by which it can be halved. `None`: it has too few different ones.
    pub fn middle_of(&self, range: &SourceRange) -> Option<String> {
        let stretches =
            self.tables().flat_map(|table| table.stretches(range).into_iter().map(move |keys| (table, keys)));
        let divides = |id: &String| {
            let end = SourceRange { above: Some(id.clone()), up_to: range.up_to.clone() };
            !end.is_void()
        };
        stretches.filter_map(|(table, keys)| table.id_at(self.connection, &keys, None)).find(divides)
    }

    /// Whether a row of one of the tables can have this source id. A claim from a source that cannot be here was made by
    /// somebody who does not claim columns, and is his.
    pub fn can_have(&self, id: &str) -> bool {
        self.tables().any(|table| table.can_have(self.connection, id))
    }
}
