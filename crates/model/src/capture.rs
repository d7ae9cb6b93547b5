//! What a transaction has changed of the values that are claimed: added and removed claims, netted by bucket, with the
//! subtransactions that they belong to.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;

use claims_names::Profile;
use serde::{Serialize, Serializer};

use crate::payload::{BucketForm, SourceForm, SubjectForm};
use crate::{limits, source_key};

/// Buckets that one transaction's changes may touch before they are only counted as too many. No batch is larger, and
/// what is changed back on the way is forgotten.
pub const MAX_BUCKETS: usize = 200_000;

/// A bucket by the name of its type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedBucket {
    pub bucket_type: Rc<str>,
    /// The canonical form of the name.
    pub value: String,
    /// The type's profile does not take the name, which is as the row has it: there can be no such claim.
    pub is_forbidden: bool,
}

impl NamedBucket {
    /// The bucket of a name as a row has it, and that form where it is not the canonical one.
    pub fn named(bucket_type: Rc<str>, profile: Profile, given: String) -> (Self, Option<String>) {
        if profile == Profile::Exact {
            return (NamedBucket { bucket_type, value: given, is_forbidden: false }, None);
        }
        match profile.canonical(&given).map(|canonical| (*canonical != *given).then(|| canonical.into_owned())) {
            Ok(None) => (NamedBucket { bucket_type, value: given, is_forbidden: false }, None),
            Ok(Some(value)) => (NamedBucket { bucket_type, value, is_forbidden: false }, Some(given)),
            Err(_) => (NamedBucket { bucket_type, value: given, is_forbidden: true }, None),
        }
    }
}

/// The id of a subject or a source: numbers are sent as numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Id {
    Number(i64),
    Text(String),
}

/// What a claim belongs to and where it comes from. A key that is NULL stays one until the batch is made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ends {
    pub subject_type: Rc<str>,
    pub subject_id: Option<Id>,
    pub source_type: Rc<str>,
    pub source_id: Option<Id>,
    /// The name as the row has it, where its canonical form is another one.
    pub display: Option<String>,
}

/// By bucket: how often each claim on it was added, minus how often it was removed; never zero. Sums do not depend on
/// the order in which rows changed, so a swap within one statement is as good as one in two.
type Net = BTreeMap<NamedBucket, Vec<(Ends, i64)>>;

#[derive(Debug, PartialEq, Eq)]
enum LogEntry {
    Changes(Net),
    /// More buckets than [`MAX_BUCKETS`].
    TooMany,
    /// What came before is sent.
    Sent,
}

/// The changes of a transaction in order, each entry with the subtransaction that it ends with.
#[derive(Debug, Default)]
pub struct Log {
    entries: Vec<(u32, LogEntry)>,
    limit: Option<usize>,
}

/// The changes are more than can be kept.
#[derive(Debug, PartialEq, Eq)]
pub struct TooMany;

impl Log {
    /// A log with another limit than [`MAX_BUCKETS`].
    pub fn with_limit(limit: usize) -> Self {
        Log { entries: Vec::new(), limit: Some(limit) }
    }

    /// Nothing was recorded, or everything was rolled back.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Nothing has changed since everything was sent.
    pub fn is_all_sent(&self) -> bool {
        let unsent = self.entries.iter().rev().take_while(|(_, entry)| *entry != LogEntry::Sent);
        unsent.map(|(_, entry)| entry).all(|entry| matches!(entry, LogEntry::Changes(net) if net.is_empty()))
    }

    /// Records, in a subtransaction, that a claim was added (`by` 1) or removed (-1).
    pub fn record(&mut self, subtransaction: u32, bucket: NamedBucket, ends: Ends, by: i64) {
        let limit = self.limit.unwrap_or(MAX_BUCKETS);
        match self.entries.last_mut() {
            Some((owner, LogEntry::Changes(net))) if *owner == subtransaction => add(net, bucket, ends, by),
            Some((owner, LogEntry::TooMany)) if *owner == subtransaction => return,
            _ => {
                let mut net = Net::new();
                add(&mut net, bucket, ends, by);
                self.entries.push((subtransaction, LogEntry::Changes(net)));
            }
        }
        let kept: usize = self.entries.iter().map(|(_, entry)| entry.len()).sum();
        if kept > limit
            && let Some((_, entry)) = self.entries.last_mut()
        {
            *entry = LogEntry::TooMany;
        }
    }

    /// Records that everything so far was sent. It is undone with its subtransaction.
    pub fn mark_sent(&mut self, subtransaction: u32) {
        self.entries.push((subtransaction, LogEntry::Sent));
        self.compact();
    }

    /// A subtransaction has committed into its parent.
    pub fn release(&mut self, subtransaction: u32, parent: u32) {
        for (owner, _) in &mut self.entries {
            if *owner == subtransaction {
                *owner = parent;
            }
        }
        self.compact();
    }

    /// A subtransaction was rolled back.
    pub fn roll_back(&mut self, subtransaction: u32) {
        self.entries.retain(|(owner, _)| *owner != subtransaction);
        self.compact();
    }

    /// Joins neighbours that end together.
    fn compact(&mut self) {
        let mut compacted: Vec<(u32, LogEntry)> = Vec::with_capacity(self.entries.len());
        for (owner, entry) in self.entries.drain(..) {
            match compacted.last_mut() {
                Some((last_owner, last)) if *last_owner == owner => match (&mut *last, entry) {
                    (LogEntry::Changes(net), LogEntry::Changes(more)) => merge(net, more),
                    (LogEntry::TooMany, LogEntry::Changes(_)) => {}
                    (LogEntry::Changes(_), LogEntry::TooMany) => *last = LogEntry::TooMany,
                    (_, LogEntry::Sent) => *last = LogEntry::Sent,
                    (_, entry) => compacted.push((owner, entry)),
                },
                _ => compacted.push((owner, entry)),
            }
        }
        self.entries = compacted;
    }

    /// What has changed since the last time that it was sent.
    pub fn pending(&self) -> Result<Pending, TooMany> {
        let sent = self.entries.iter().rposition(|(_, entry)| *entry == LogEntry::Sent).map_or(0, |at| at + 1);
        let mut nets: Vec<&Net> = Vec::new();
        for (_, entry) in &self.entries[sent..] {
            match entry {
                LogEntry::Changes(changes) => nets.push(changes),
                LogEntry::TooMany => return Err(TooMany),
                LogEntry::Sent => {}
            }
        }
        if let [only] = nets.as_slice() {
            return Ok(Pending::new(only));
        }
        let mut net = Net::new();
        nets.into_iter().for_each(|more| merge(&mut net, more.clone()));
        Ok(Pending::new(&net))
    }
}

impl LogEntry {
    fn len(&self) -> usize {
        if let LogEntry::Changes(net) = self { net.len() } else { 0 }
    }
}

fn add(net: &mut Net, bucket: NamedBucket, ends: Ends, by: i64) {
    let mut place = match net.entry(bucket) {
        Entry::Occupied(place) => place,
        Entry::Vacant(place) => {
            place.insert(vec![(ends, by)]);
            return;
        }
    };
    let claims = place.get_mut();
    match claims.iter().position(|(known, _)| *known == ends) {
        Some(at) => {
            claims[at].1 += by;
            if claims[at].1 == 0 {
                claims.remove(at);
            }
        }
        None => claims.push((ends, by)),
    }
    if claims.is_empty() {
        place.remove();
    }
}

fn merge(net: &mut Net, more: Net) {
    for (bucket, claims) in more {
        for (ends, by) in claims {
            add(net, bucket.clone(), ends, by);
        }
    }
}

/// A claim to make: a bucket that was not there before, or that was another claim's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create {
    pub bucket: NamedBucket,
    pub ends: Ends,
    /// Rows that call for it.
    pub rows: i64,
}

/// A bucket that rows have given up. Only one of them can have had the claim; which one, the service knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDestroy {
    pub bucket: NamedBucket,
    pub ends: Vec<Ends>,
}

/// What is to be sent, in the order of the buckets. A bucket in both lists goes from one claim to another: it is replaced.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pending {
    pub creates: Vec<Create>,
    pub destroys: Vec<PendingDestroy>,
    /// Buckets that were there before, and that more rows have now. They cannot be claimed once more.
    pub doubled: Vec<NamedBucket>,
}

impl Pending {
    fn new(net: &Net) -> Self {
        let mut pending = Pending::default();
        for (bucket, claims) in net {
            let bucket = bucket.clone();
            // Mostly a row that is new.
            if let [(ends, rows @ 1..)] = claims.as_slice() {
                pending.creates.push(Create { bucket, ends: ends.clone(), rows: *rows });
                continue;
            }
            let mut claims = claims.clone();
            claims.sort_unstable();
            let rows = claims.iter().map(|(_, by)| by).sum();
            let (added, removed): (Vec<_>, Vec<_>) = claims.into_iter().partition(|(_, by)| *by > 0);
            // More rows came than went, and so more than one has it now.
            if !added.is_empty() && !removed.is_empty() && rows > 0 {
                pending.doubled.push(bucket);
                continue;
            }
            // A row that could have no claim has none to give up.
            let ends: Vec<_> = removed.into_iter().map(|(ends, _)| ends).filter(|ends| ends.fit(&bucket)).collect();
            if !ends.is_empty() {
                pending.destroys.push(PendingDestroy { bucket: bucket.clone(), ends });
            }
            if let Some((ends, _)) = added.into_iter().next() {
                pending.creates.push(Create { bucket, ends, rows });
            }
        }
        pending
    }

    /// There is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.creates.is_empty() && self.destroys.is_empty() && self.doubled.is_empty()
    }
}

impl Ends {
    /// Whether a claim on the bucket can have these ends: all that the service refuses by its form can not.
    fn fit(&self, bucket: &NamedBucket) -> bool {
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

    /// Of the same row.
    pub fn has_source_of(&self, other: &Ends) -> bool {
        (&self.source_type, &self.source_id) == (&other.source_type, &other.source_id)
    }
}

#[derive(Serialize)]
struct RecordForm<'a> {
    bucket: BucketForm<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<SubjectForm<'a, Option<&'a Id>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<SourceForm<'a, Option<&'a Id>>>,
}

/// Of a record as JSON.
const LIKELY_BYTES: usize = 160;

/// Records as the JSON that `begin_update` takes, names as the rows have them. A record without ends, a destroy, is of whatever claim is there.
pub fn records_json<'a>(
    records: impl IntoIterator<Item = (&'a NamedBucket, Option<&'a Ends>)>,
) -> Result<String, serde_json::Error> {
    let form = |(bucket, ends): (&'a NamedBucket, Option<&'a Ends>)| RecordForm {
        bucket: BucketForm {
            type_name: &bucket.bucket_type,
            value: ends.and_then(|ends| ends.display.as_deref()).unwrap_or(&bucket.value),
        },
        subject: ends.map(|ends| SubjectForm { type_name: &ends.subject_type, id: ends.subject_id.as_ref() }),
        source: ends
            .map(|ends| SourceForm { type_name: &ends.source_type, rails_primary_key_id: ends.source_id.as_ref() }),
    };
    let records = records.into_iter();
    let mut json = Vec::with_capacity(LIKELY_BYTES * records.size_hint().0);
    serde_json::Serializer::new(&mut json).collect_seq(records.map(form))?;
    String::from_utf8(json).map_err(serde::ser::Error::custom)
}
