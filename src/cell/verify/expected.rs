//! `expected_records`: returns the claims that the cell's own tables need.

use std::borrow::Cow;
use std::rc::Rc;

use claims_model::digest::{Digest, Entry};
use claims_model::payload::{NamedRecord, named_records};
use claims_model::routes::Routes;
use claims_model::source_key::is_id;
use claims_model::source_range::{self, SourceRange};

use crate::cell::claimed::expected::{self, Attribute, ClaimedRow};
use crate::cell::client::naming::RequiredNaming;
use crate::cell::{reading, routes};
use crate::kernel::arguments::{self, source_range};
use crate::kernel::catalog;
use crate::kernel::error::ClaimsError;
use crate::service::verify::errors::RangeError;
use claims_model::limits::{BUCKET_VALUE_CHARS, ID_CHARS, MAX_COMPARED};
use pg::jsonb::JsonText;
use pg::prelude::*;
use pg::spi::{self, Connection};

#[pg_extern(schema = "claims", security_definer, stable)]
#[search_path(pg_catalog, pg_temp)]
fn expected_records(
    source_type: Option<String>,
    source_id_gt: default!(Option<String>, "NULL"),
    source_id_lte: default!(Option<String>, "NULL"),
) -> Result<JsonText, ErrorReport> {
    let records = spi::connect(|connection| {
        let source_type = arguments::required(source_type, "source_type")?;
        let source_type = reading::readable_source_type(connection, &source_type)?;
        let range = source_range(source_id_gt, source_id_lte)?;
        let mut records = Expected::of(connection, &source_type, true).records(&range)?.claims;
        records.sort_by(|a, b| {
            let by_source = source_range::compare(&a.source_id, &b.source_id);
            by_source.then_with(|| (a.bucket_type(), &a.value).cmp(&(b.bucket_type(), &b.value)))
        });
        list_json(&records)
    })?;
    Ok(JsonText(records))
}

/// A claim that a row needs.
#[derive(Clone)]
pub struct ExpectedClaim {
    attribute: Rc<Attribute>,
    /// The name in canonical form.
    pub value: String,
    /// The row's spelling of the name, if that differs.
    display: Option<String>,
    pub subject_id: String,
    pub source_id: String,
}

impl ExpectedClaim {
    pub fn bucket_type(&self) -> &str {
        &self.attribute.bucket_type
    }

    /// Returns the column that needs the claim.
    pub fn attribute(&self) -> &Rc<Attribute> {
        &self.attribute
    }

    /// Returns whether the declaration is off for this name, so that its row needs no claim now.
    pub fn is_off(&self) -> bool {
        self.attribute.is_off(&self.value)
    }

    pub fn is_as(&self, other: &ExpectedClaim) -> bool {
        self.bucket_type() == other.bucket_type()
            && (&self.value, &self.subject_id, &self.source_id) == (&other.value, &other.subject_id, &other.source_id)
    }

    /// Returns the claim as a record of `begin_update`.
    fn record(&self) -> NamedRecord<'_> {
        let ExpectedClaim { attribute, value, display, subject_id, source_id } = self;
        NamedRecord {
            bucket: (&attribute.bucket_type, display.as_ref().unwrap_or(value)),
            subject: (&attribute.subject_type, subject_id),
            source: (&attribute.source_type, source_id),
        }
    }
}

pub fn list_json<'c>(claims: impl IntoIterator<Item = &'c ExpectedClaim>) -> Result<String, ClaimsError> {
    Ok(named_records(claims.into_iter().map(ExpectedClaim::record))?)
}

/// Returns the claim that a row needs, or `None` if its declaration is off, or such a claim is impossible: the value is empty, too long, or
/// refused by the type's profile, or the row has no valid subject id or source id.
pub fn expected_claim(attribute: &Rc<Attribute>, row: ClaimedRow) -> Option<ExpectedClaim> {
    enforced_or_off_claim(attribute, row).filter(|claim| !claim.is_off())
}

/// Like [expected_claim], also if the declaration is off.
pub fn enforced_or_off_claim(attribute: &Rc<Attribute>, row: ClaimedRow) -> Option<ExpectedClaim> {
    claim_of(attribute, row).ok()
}

/// Like [enforced_or_off_claim], and returns the row as [Unclaimable] if the claim is impossible.
pub fn claim_of(attribute: &Rc<Attribute>, row: ClaimedRow) -> Result<ExpectedClaim, Unclaimable> {
    match row {
        ClaimedRow { source_id: Some(source_id), value: spelling, subject_id: Some(subject_id) }
            if is_id(&source_id) && is_id(&subject_id) =>
        {
            let (value, display) = match attribute.profile.canonical(&spelling) {
                Err(_) => return Err(Unclaimable::new(attribute, Some(source_id), spelling, true)),
                Ok(Cow::Borrowed(_)) => (spelling, None),
                Ok(Cow::Owned(same)) if same == spelling => (same, None),
                Ok(Cow::Owned(value)) => (value, Some(spelling)),
            };
            Ok(ExpectedClaim { attribute: attribute.clone(), value, display, subject_id, source_id })
        }
        ClaimedRow { source_id, value, .. } => Err(Unclaimable::new(attribute, source_id, value, false)),
    }
}

/// The digest of the claims that a range needs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Summary {
    pub claims: Digest,
    /// Number of rows that need an impossible claim.
    pub unclaimable: i64,
}

impl Summary {
    pub fn without(&self, part: &Summary) -> Summary {
        Summary { claims: self.claims.without(&part.claims), unclaimable: self.unclaimable - part.unclaimable }
    }
}

/// The claims that a range needs.
#[derive(Default)]
pub struct Records {
    pub claims: Vec<ExpectedClaim>,
    pub unclaimable: Vec<Unclaimable>,
}

/// A row that needs an impossible claim. Texts longer than a name or an id are cut.
pub struct Unclaimable {
    pub bucket_type: String,
    pub value: String,
    pub source_id: Option<String>,
    /// Whether the name is impossible. Otherwise a key of the row is.
    pub is_name: bool,
}

impl Unclaimable {
    fn new(attribute: &Attribute, source_id: Option<String>, value: String, is_name: bool) -> Self {
        Unclaimable {
            bucket_type: attribute.bucket_type.clone(),
            value: cut(value, BUCKET_VALUE_CHARS),
            source_id: source_id.map(|id| cut(id, ID_CHARS)),
            is_name,
        }
    }
}

fn cut(mut text: String, chars: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(chars) {
        text.truncate(end);
    }
    text
}

/// The tables and columns whose claims have one source type.
pub struct Expected<'c> {
    connection: &'c Connection,
    attributes: Vec<Rc<Attribute>>,
    /// Columns whose rows call for no claim now, but may have claims: those that are off.
    dormant: Vec<Rc<Attribute>>,
    /// Columns whose names are claimed at another service. Their rows have source ids of this source type, too.
    elsewhere: Vec<Rc<Attribute>>,
    as_caller: bool,
    /// The service that is compared, and those of all bucket types.
    service: Option<(Rc<Routes>, Rc<str>)>,
}

impl<'c> Expected<'c> {
    /// Finds the columns of a source type. With `as_caller` all reads use the snapshot of the calling query; otherwise each has a
    /// snapshot of its own.
    pub fn of(connection: &'c Connection, source_type: &str, as_caller: bool) -> Self {
        let all = expected::of_source(connection, source_type).into_iter().map(Rc::new);
        let (dormant, attributes) = all.partition(|attribute| attribute.is_dormant());
        Expected { connection, attributes, dormant, elsewhere: Vec::new(), as_caller, service: None }
    }

    pub fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// Returns the range above a source id that has a number of rows. The last one has no upper bound.
    pub fn range_above(&self, above: Option<String>, rows: i64) -> SourceRange {
        let range = SourceRange { above, up_to: None };
        SourceRange { up_to: self.end_of(&range, rows), ..range }
    }

    /// Finds the columns of a source type whose names are claimed at a service. Each read has a snapshot of its own.
    pub fn at(connection: &'c Connection, source_type: &str, service: &str) -> Self {
        let all = Expected::of(connection, source_type, false);
        let Some(routes) = routes::automatic(connection) else { return all };
        let belongs = |attribute: &Rc<Attribute>| routes.belongs_to(service, &attribute.bucket_type);
        let (attributes, elsewhere) = all.attributes.into_iter().partition(belongs);
        let service = Some((routes, service.into()));
        Expected { connection, attributes, dormant: all.dormant, elsewhere, as_caller: false, service }
    }

    /// Returns the other service to which the claims of a bucket type belong, if they do not belong to this one.
    pub fn service_of(&self, bucket_type: &str) -> Option<Rc<str>> {
        let (routes, service) = self.service.as_ref()?;
        routes.elsewhere(service, bucket_type)
    }

    /// Returns whether a column of the source type is claimed, at whatever service.
    pub fn is_claimed(&self) -> bool {
        !self.attributes.is_empty() || !self.elsewhere.is_empty() || !self.dormant.is_empty()
    }

    /// Returns whether all names of the source type that are claimed now are claimed at another service.
    pub fn is_elsewhere(&self) -> bool {
        self.attributes.is_empty() && self.dormant.is_empty()
    }

    /// Returns whether a declaration of the source type is off, for some names at least.
    pub fn has_off(&self) -> bool {
        !self.dormant.is_empty() || self.attributes.iter().any(|attribute| attribute.is_off_for_some())
    }

    /// Returns whether a claim can be of a row whose declaration is off.
    pub fn may_be_off(&self, bucket_type: &str, name: &str, source_id: &str) -> bool {
        let mut all = self.dormant.iter().chain(&self.attributes);
        all.any(|attribute| {
            attribute.bucket_type == bucket_type
                && attribute.is_off(name)
                && (!attribute.is_accepted || attribute.can_have(self.connection, source_id))
        })
    }

    pub fn attributes(&self) -> &[Rc<Attribute>] {
        &self.attributes
    }

    /// Returns the rules by which this database compares the names of these columns.
    pub fn naming(&self) -> RequiredNaming {
        let bucket_types = self.attributes.iter().map(|attribute| attribute.bucket_type.as_str());
        RequiredNaming::of(&catalog::current(self.connection).types, bucket_types)
    }

    /// Returns the estimated number of rows that need a claim, once for each column.
    pub fn estimated_rows(&self) -> i64 {
        self.attributes.iter().map(|attribute| attribute.estimated_rows(self.connection)).sum()
    }

    /// Passes the rows of a range that need a claim to `each`, in no order.
    pub fn each(&self, range: &SourceRange, mut each: impl FnMut(&Rc<Attribute>, ClaimedRow)) {
        for attribute in &self.attributes {
            attribute.each(self.connection, range, self.as_caller, |row| each(attribute, row));
        }
    }

    pub fn digest(&self, range: &SourceRange) -> Summary {
        let mut summary = Summary::default();
        self.each(range, |attribute, row| match enforced_or_off_claim(attribute, row) {
            None => summary.unclaimable += 1,
            Some(claim) if claim.is_off() => {}
            Some(expected_claim) => summary.claims.add(&Entry {
                bucket_type: &attribute.bucket_type,
                bucket_value: &expected_claim.value,
                subject_type: &attribute.subject_type,
                subject_id: &expected_claim.subject_id,
                source_id: &expected_claim.source_id,
            }),
        });
        summary
    }

    /// Returns all claims of a range, or an error if there are more than a comparison may have.
    pub fn records(&self, range: &SourceRange) -> Result<Records, ClaimsError> {
        let mut records = Records::default();
        let mut count = 0;
        self.each(range, |attribute, row| {
            count += 1;
            match claim_of(attribute, row) {
                _ if count > MAX_COMPARED => {}
                Ok(claim) if claim.is_off() => {}
                Ok(expected_claim) => records.claims.push(expected_claim),
                Err(row) => records.unclaimable.push(row),
            }
        });
        if count > MAX_COMPARED { Err(RangeError::TooLarge { limit: MAX_COMPARED }.into()) } else { Ok(records) }
    }

    /// Returns one attribute of each table of the source type.
    fn tables(&self) -> impl Iterator<Item = &Rc<Attribute>> {
        let dormant = move || self.dormant.iter().filter(|attribute| attribute.is_accepted);
        let all = move || self.attributes.iter().chain(&self.elsewhere).chain(dormant());
        let is_first = move |at: usize, of: &Attribute| !all().take(at).any(|before| before.has_rows_of(of));
        all().enumerate().filter(move |(at, attribute)| is_first(*at, attribute)).map(|(_, attribute)| attribute)
    }

    /// Returns the smallest source id up to which one of the tables has `rows` rows in the range. `None` if no table has so many.
    /// Rows with negative keys belong to the range, but are not counted.
    pub fn end_of(&self, range: &SourceRange, rows: i64) -> Option<String> {
        let id = |table: &Rc<Attribute>| {
            table.stretches(range).first().and_then(|keys| table.id_at(self.connection, keys, Some(rows - 1)))
        };
        self.tables().filter_map(id).min_by(|a, b| source_range::compare(a, b))
    }

    /// Returns a source id that divides the range in about equal halves. `None` if the range has too few different ids.
    pub fn middle_of(&self, range: &SourceRange) -> Option<String> {
        let stretches =
            self.tables().flat_map(|table| table.stretches(range).into_iter().map(move |keys| (table, keys)));
        let divides = |id: &String| {
            let end = SourceRange { above: Some(id.clone()), up_to: range.up_to.clone() };
            !end.is_void()
        };
        stretches.filter_map(|(table, keys)| table.id_at(self.connection, &keys, None)).find(divides)
    }

    /// Returns whether a row of one of the tables can have this source id. A claim from another source was made by an application that
    /// does not claim columns, and belongs to it.
    pub fn can_have(&self, id: &str) -> bool {
        self.tables().any(|table| table.can_have(self.connection, id))
    }
}
