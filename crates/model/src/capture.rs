//! The changes of one transaction to claimed values: added and removed claims, netted by bucket, with their
//! subtransactions.

pub use crate::captured::{Ends, Id, NamedBucket, TooMany};
use crate::limits;
use crate::nesting;
use crate::net::Net;
use crate::record_json::{JsonId, JsonRecord, push_records};

/// The limits of the changes that the log stores for a transaction. Changes that cancel each other out are not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    pub buckets: usize,
    /// The bytes of all texts: names, their spellings in rows, and ids.
    pub bytes: usize,
}

impl Capacity {
    /// The capacity of every transaction's log. No batch has more buckets, and sending takes several times as many
    /// bytes.
    pub const OF_TRANSACTION: Capacity = Capacity { buckets: 200_000, bytes: 256 * 1024 * 1024 };
}

/// The longest text of a captured column that is read, in bytes. A longer one has more than
/// [`limits::BUCKET_VALUE_CHARS`] characters.
pub const READ_BYTES: usize = 4 * limits::BUCKET_VALUE_CHARS;

#[derive(Debug, PartialEq, Eq)]
enum LogEntry {
    Changes(Net),
    /// The call with this number is sending the changes before this entry.
    Sending(u64),
    /// The changes before this entry are sent.
    Sent,
}

/// The changes of a transaction in order. Each entry has the subtransaction that has added it, or one into which that was released
/// ([`nesting`]). So the end of a subtransaction changes only the entries at the end of the log.
#[derive(Debug)]
pub struct Log {
    entries: Vec<(u32, LogEntry)>,
    capacity: Capacity,
    /// The size of all entries together.
    size: Size,
    /// The number of the last [`Sending`].
    sendings: u64,
    /// The number of sendings that have begun and neither ended nor been rolled back.
    unfinished: usize,
}

/// The number of buckets, and of the bytes of all texts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Size {
    buckets: usize,
    bytes: usize,
}

impl Size {
    fn of(entry: &LogEntry) -> Size {
        match entry {
            LogEntry::Changes(net) => Size { buckets: net.buckets(), bytes: net.bytes() },
            LogEntry::Sending(_) | LogEntry::Sent => Size::default(),
        }
    }

    fn add(&mut self, Size { buckets, bytes }: Size) {
        self.buckets += buckets;
        self.bytes += bytes;
    }

    fn subtract(&mut self, Size { buckets, bytes }: Size) {
        self.buckets -= buckets;
        self.bytes -= bytes;
    }
}

/// A call that sends the changes that were pending when it began, and none that are captured later.
#[derive(Debug, PartialEq, Eq)]
pub struct Sending {
    number: u64,
}

impl Default for Log {
    fn default() -> Self {
        Log::with_capacity(Capacity::OF_TRANSACTION)
    }
}

impl Log {
    /// Returns a log with another capacity than [`Capacity::OF_TRANSACTION`].
    pub fn with_capacity(capacity: Capacity) -> Self {
        Log { entries: Vec::new(), capacity, size: Size::default(), sendings: 0, unfinished: 0 }
    }

    /// Returns whether nothing was recorded, or everything was rolled back.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of buckets with changes.
    pub fn buckets(&self) -> usize {
        self.size.buckets
    }

    /// Returns whether no change is unsent.
    pub fn is_all_sent(&self) -> bool {
        let unsent = self.entries.iter().rev().take_while(|(_, entry)| *entry != LogEntry::Sent);
        unsent.map(|(_, entry)| entry).all(|entry| matches!(entry, LogEntry::Changes(net) if net.is_empty()))
    }

    /// Records, in a subtransaction, that a claim was added (`by` 1) or removed (-1). Returns whether the changes exceed the log's
    /// [`Capacity`]. Then the caller calls [`Log::forget_excess`].
    pub fn record(&mut self, subtransaction: u32, bucket: NamedBucket, ends: Ends, by: i64) -> bool {
        if !matches!(self.entries.last(), Some((owner, LogEntry::Changes(_))) if *owner == subtransaction) {
            self.entries.push((subtransaction, LogEntry::Changes(Net::default())));
        }
        self.change_last(|net| net.record(bucket, ends, by));
        self.excess().is_some()
    }

    /// Forgets changes until the others fit into the log's [`Capacity`]: first those of bucket types without a service, and only if the others
    /// alone exceed it, all changes of the last entry. A call that needs a forgotten type gets an error. The rollback of a subtransaction also
    /// undoes that its own changes were forgotten.
    pub fn forget_excess(&mut self, has_service: impl Fn(&str) -> bool) {
        let Some(excess) = self.excess() else { return };
        // A rollback undoes most if the last entry alone is changed.
        self.forget_in_last(excess, &has_service);
        if self.excess().is_none() {
            return;
        }
        for (_, entry) in &mut self.entries {
            if let LogEntry::Changes(net) = entry {
                net.forget(excess, &has_service);
            }
        }
        self.size = Size::default();
        self.entries.iter().for_each(|(_, entry)| self.size.add(Size::of(entry)));
        if let Some(excess) = self.excess() {
            self.forget_in_last(excess, |_| false);
        }
    }

    fn forget_in_last(&mut self, excess: TooMany, is_kept: impl Fn(&str) -> bool) {
        self.change_last(|net| net.forget(excess, is_kept));
    }

    /// Changes the last entry, if it has changes.
    fn change_last(&mut self, change: impl FnOnce(&mut Net)) {
        let Some((_, entry)) = self.entries.last_mut() else { return };
        self.size.subtract(Size::of(entry));
        if let LogEntry::Changes(net) = entry {
            change(net);
        }
        self.size.add(Size::of(entry));
    }

    /// Returns the limit that the entries exceed.
    fn excess(&self) -> Option<TooMany> {
        let Size { buckets, bytes } = self.size;
        if buckets > self.capacity.buckets {
            Some(TooMany::Buckets)
        } else {
            (bytes > self.capacity.bytes).then_some(TooMany::Bytes)
        }
    }

    /// Returns all pending changes for the caller to send. Changes that are recorded later stay pending when the sending is marked
    /// as sent. The error says that changes of a type that has a service were forgotten.
    pub fn begin_sending(
        &mut self,
        subtransaction: u32,
        has_service: impl Fn(&str) -> bool,
    ) -> Result<(Sending, Pending), TooMany> {
        let pending = self.pending_for(has_service)?;
        self.sendings += 1;
        self.unfinished += 1;
        self.entries.push((subtransaction, LogEntry::Sending(self.sendings)));
        Ok((Sending { number: self.sendings }, pending))
    }

    /// Returns whether a sending has begun that has neither ended nor been rolled back.
    pub fn is_sending(&self) -> bool {
        self.unfinished > 0
    }

    /// Records that the changes of a sending were sent, except those of bucket types that stay pending. The rollback of the subtransaction in
    /// which it began undoes that.
    pub fn mark_sent(&mut self, sending: Sending, stays: impl Fn(&str) -> bool) {
        let begun = LogEntry::Sending(sending.number);
        let Some(at) = self.entries.iter().rposition(|(_, entry)| *entry == begun) else { return };
        let own = self.entries[at].0;
        let of_earlier = |(_, entry): &(u32, LogEntry)| *entry == LogEntry::Sent;
        let first = self.entries[..at].iter().rposition(of_earlier).map_or(0, |earlier| earlier + 1);
        let mut remaining = Net::default();
        for (owner, entry) in &mut self.entries[first..at] {
            self.size.subtract(Size::of(entry));
            if let LogEntry::Changes(net) = entry {
                // The rollback of the sending makes all changes of other subtransactions pending again.
                remaining.merge(if *owner == own { net.split_off(&stays) } else { net.copy_of(&stays) });
            }
            self.size.add(Size::of(entry));
        }
        self.entries[at].1 = LogEntry::Sent;
        self.unfinished -= 1;
        if !remaining.is_empty() {
            let remaining = LogEntry::Changes(remaining);
            self.size.add(Size::of(&remaining));
            self.entries.insert(at + 1, (own, remaining));
        }
        self.compact(first.saturating_sub(1));
    }

    /// Records that a subtransaction has committed into its parent.
    pub fn release(&mut self, subtransaction: u32, parent: u32) {
        let first = self.first_since(subtransaction);
        self.entries[first..].iter_mut().for_each(|(owner, _)| *owner = parent);
        self.compact(first.saturating_sub(1));
    }

    pub fn roll_back(&mut self, subtransaction: u32) {
        for (_, entry) in self.entries.split_off(self.first_since(subtransaction)) {
            self.size.subtract(Size::of(&entry));
            self.unfinished -= usize::from(matches!(entry, LogEntry::Sending(_)));
        }
    }

    /// Returns the position of the first entry that was added since a subtransaction began.
    fn first_since(&self, subtransaction: u32) -> usize {
        nesting::first_since(&self.entries, subtransaction, |(owner, _)| *owner)
    }

    /// Joins adjacent entries of one subtransaction, from a position on.
    fn compact(&mut self, from: usize) {
        let to_compact = self.entries.split_off(from.min(self.entries.len()));
        for (owner, entry) in to_compact {
            let is_own = |entry: &&mut (u32, LogEntry)| entry.0 == owner;
            match entry {
                LogEntry::Changes(more) => match self.entries[from..].last_mut().filter(is_own) {
                    Some((_, last @ LogEntry::Changes(_))) => {
                        self.size.subtract(Size::of(last));
                        self.size.subtract(Size { buckets: more.buckets(), bytes: more.bytes() });
                        if let LogEntry::Changes(net) = last {
                            net.merge(more);
                        }
                        self.size.add(Size::of(last));
                    }
                    _ => self.entries.push((owner, LogEntry::Changes(more))),
                },
                LogEntry::Sent => {
                    // A rollback that undoes this sending undoes the changes before it, too.
                    let is_over = |entry: &LogEntry| matches!(entry, LogEntry::Changes(_) | LogEntry::Sent);
                    while let Some((_, last)) =
                        self.entries[from..].last().filter(|(of, last)| *of == owner && is_over(last))
                    {
                        self.size.subtract(Size::of(last));
                        self.entries.pop();
                    }
                    self.entries.push((owner, LogEntry::Sent));
                }
                LogEntry::Sending(_) => self.entries.push((owner, entry)),
            }
        }
    }

    /// Returns the changes since the last sending. The error says that some of them were forgotten.
    pub fn pending(&self) -> Result<Pending, TooMany> {
        self.pending_for(|_| true)
    }

    /// Like [`Log::pending`], but returns no error if only changes of types without a service were forgotten.
    pub fn pending_for(&self, has_service: impl Fn(&str) -> bool) -> Result<Pending, TooMany> {
        let sent = self.entries.iter().rposition(|(_, entry)| *entry == LogEntry::Sent).map_or(0, |at| at + 1);
        let mut nets: Vec<&Net> = Vec::new();
        for (_, entry) in &self.entries[sent..] {
            match entry {
                LogEntry::Changes(changes) => {
                    changes.forgotten(&has_service).map_or(Ok(()), Err)?;
                    nets.push(changes);
                }
                LogEntry::Sending(_) | LogEntry::Sent => {}
            }
        }
        if let [only] = nets.as_slice() {
            return Ok(Pending::new(only));
        }
        let mut net = Net::default();
        nets.into_iter().for_each(|more| net.merge(more.clone()));
        Ok(Pending::new(&net))
    }
}

/// A claim to create: a bucket that no row had before, or that another claim had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create {
    pub bucket: NamedBucket,
    pub ends: Ends,
    /// The number of rows that call for it.
    pub rows: i64,
}

/// A bucket that rows have given up. Only one of them can have had the claim, and only the service knows which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDestroy {
    pub bucket: NamedBucket,
    pub ends: Vec<Ends>,
}

/// The changes to send, in the order of the buckets. A bucket in both lists passes from one claim to another: it is
/// replaced.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pending {
    pub creates: Vec<Create>,
    pub destroys: Vec<PendingDestroy>,
    /// Buckets that rows had before, and that more rows have now, with one of the new rows. They cannot be claimed a second time.
    pub doubled: Vec<Create>,
}

impl Pending {
    fn new(net: &Net) -> Self {
        let mut pending = Pending::default();
        for (bucket, claims) in net.claims() {
            let bucket = bucket.clone();
            // In most cases one new row.
            if let [(ends, rows @ 1..)] = claims.as_slice() {
                pending.creates.push(Create { bucket, ends: ends.clone(), rows: *rows });
                continue;
            }
            let mut claims = claims.clone();
            claims.sort_unstable();
            let rows = claims.iter().map(|(_, by)| by).sum();
            let (added, removed): (Vec<_>, Vec<_>) = claims.into_iter().partition(|(_, by)| *by > 0);
            // More rows were added than removed, so more than one has the bucket now.
            if !added.is_empty() && !removed.is_empty() && rows > 0 {
                let ends = added.into_iter().next().map(|(ends, _)| ends);
                pending.doubled.extend(ends.map(|ends| Create { bucket, ends, rows }));
                continue;
            }
            // A row that could not have a claim has none to give up.
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

    /// Returns the ends of all changes.
    pub fn ends(&self) -> impl Iterator<Item = &Ends> {
        let creates = self.creates.iter().chain(&self.doubled).map(|create| &create.ends);
        creates.chain(self.destroys.iter().flat_map(|destroy| &destroy.ends))
    }

    /// Removes the changes whose ends do not fulfil a condition.
    pub fn retain(&mut self, mut keeps: impl FnMut(&Ends) -> bool) {
        self.creates.retain(|create| keeps(&create.ends));
        self.doubled.retain(|create| keeps(&create.ends));
        self.destroys.iter_mut().for_each(|destroy| destroy.ends.retain(&mut keeps));
        self.destroys.retain(|destroy| !destroy.ends.is_empty());
    }

    /// Returns whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.creates.is_empty() && self.destroys.is_empty() && self.doubled.is_empty()
    }
}

/// Formats records as the JSON that `begin_update` takes, with the names in the rows. A record without ends destroys
/// whatever claim exists.
pub fn records_json<'a>(records: impl Iterator<Item = (&'a NamedBucket, Option<&'a Ends>)>) -> String {
    let id = |id: &'a Option<Id>| match id {
        None => JsonId::Null,
        Some(Id::Number(number)) => JsonId::Number(*number),
        Some(Id::Text(text)) => JsonId::Text(text),
    };
    let record = |(bucket, ends): (&'a NamedBucket, Option<&'a Ends>)| JsonRecord {
        bucket: (&bucket.bucket_type, ends.and_then(|ends| ends.display.as_deref()).unwrap_or(&bucket.value)),
        subject: ends.map(|ends| (&*ends.subject_type, id(&ends.subject_id))),
        source: ends.map(|ends| (&*ends.source_type, id(&ends.source_id))),
    };
    let mut json = String::new();
    push_records(&mut json, records.map(record));
    json
}
