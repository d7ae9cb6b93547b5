//! Events that end with an error, on their way to the audit log. A transaction that fails cannot record its own failure, so it puts
//! a description into shared memory, and the background worker of the database inserts it.
//!
//! A description is lost, and counted for its cell, where there is no room for it: no worker fetches them, or they come faster than it
//! inserts them. Denied calls that come faster than the rate of their cell are counted only. A crash of the server loses those that were
//! not fetched.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Map, Value, json};
use uuid::Uuid;
use zerocopy::FromBytes;

use super::attribution;
use super::audit_id::next_id;
use super::pace;
use super::settings::{self, Audit};
use pg::background::{Sleeper, own_database};
use pg::clock::Moment;
use pg::shared::{Locked, Shared};
use pg::{roles, session};

/// The number of databases of a server that can have refusals recorded.
const DATABASES: usize = 4;
/// The number of databases that can have workers.
const MAX_READERS: usize = 64;
/// The room for descriptions of one database.
const RING_BYTES: usize = 1 << 20;
/// The longest description.
const MAX_BYTES: usize = 16 * 1024;
/// The bytes before a description: its length, and its cell.
const HEAD_BYTES: usize = size_of::<u32>() + size_of::<i64>();
/// The number of cells of a database whose lost descriptions are counted by cell. Those of further ones are counted together.
const LOSERS: usize = 64;
/// The cell of a description that names none. No cell has this number.
pub const NO_CELL: i64 = i64::MIN;

/// A number of lost descriptions of one cell.
#[derive(Clone, Copy, FromBytes)]
struct Lost {
    cell_id: i64,
    /// 0 for a free entry.
    count: u64,
}

/// The descriptions of one database: bytes from `begin` to `end`, both counted from the start of the server.
#[derive(Clone, Copy, FromBytes)]
pub struct Ring {
    /// Oid of the database, in a field as wide as the others; 0 for a free ring.
    database: u64,
    begin: u64,
    end: u64,
    /// The descriptions that were lost since the last look.
    lost: [Lost; LOSERS],
    /// The numbers of descriptions since the start of the server: of all, and of those that were lost.
    described_total: u64,
    lost_total: u64,
    bytes: [u8; RING_BYTES],
}

/// The process that fetches the descriptions of a database.
#[derive(FromBytes)]
pub struct Reader {
    /// Oid of the database; 0 for a free place.
    database: AtomicU32,
    sleeper: Sleeper,
}

pub static RINGS: Locked<[Ring; DATABASES]> = Locked::new(c"claims refusals");
pub static READERS: Shared<[Reader; MAX_READERS]> = Shared::new(c"claims refusals readers");

impl Ring {
    fn push(&mut self, cell_id: i64, description: &[u8]) {
        if description.len() > MAX_BYTES || self.free() < HEAD_BYTES + description.len() {
            self.lose(cell_id, 1);
            return;
        }
        self.described_total += 1;
        let length = u32::try_from(description.len()).unwrap_or(0);
        self.write(&length.to_ne_bytes());
        self.write(&cell_id.to_ne_bytes());
        self.write(description);
    }

    /// Counts events that are lost before they are described.
    fn lose(&mut self, cell_id: i64, count: u64) {
        self.described_total += count;
        self.lose_described(cell_id, count);
    }

    fn lose_described(&mut self, cell_id: i64, count: u64) {
        self.lost_total += count;
        self.tell_lost(cell_id, count);
    }

    /// Counts descriptions for the next row that tells of lost ones.
    fn tell_lost(&mut self, cell_id: i64, count: u64) {
        let of = |wanted: i64| move |lost: &&mut Lost| lost.count > 0 && lost.cell_id == wanted;
        let entries = &mut self.lost;
        if let Some(lost) = entries.iter_mut().find(of(cell_id)) {
            lost.count += count;
        } else if let Some(lost) = entries.iter_mut().find(|lost| lost.count == 0) {
            *lost = Lost { cell_id, count };
        } else if let Some(lost) = entries.last_mut() {
            *lost = Lost { cell_id: NO_CELL, count: lost.count + count };
        }
    }

    fn has_lost(&self) -> bool {
        self.lost.iter().any(|lost| lost.count > 0)
    }

    /// Takes the oldest description.
    fn pop(&mut self) -> Option<Description> {
        if self.begin == self.end {
            return None;
        }
        let (mut length, mut cell_id) = ([0; size_of::<u32>()], [0; size_of::<i64>()]);
        self.read(&mut length);
        self.read(&mut cell_id);
        let mut text = vec![0; usize::try_from(u32::from_ne_bytes(length)).unwrap_or(0).min(MAX_BYTES)];
        self.read(&mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        Some(Description { cell_id: i64::from_ne_bytes(cell_id), text })
    }

    fn filled(&self) -> usize {
        usize::try_from(self.end - self.begin).unwrap_or(RING_BYTES)
    }

    fn free(&self) -> usize {
        RING_BYTES - self.filled().min(RING_BYTES)
    }

    fn write(&mut self, from: &[u8]) {
        for byte in from {
            self.bytes[position(self.end)] = *byte;
            self.end += 1;
        }
    }

    fn read(&mut self, into: &mut [u8]) {
        for byte in into {
            *byte = self.bytes[position(self.begin)];
            self.begin += 1;
        }
    }
}

fn position(at: u64) -> usize {
    usize::try_from(at % RING_BYTES as u64).unwrap_or(0)
}

/// Returns the position of this database's ring. Takes a free one if it has none.
fn own_ring(rings: &mut [Ring; DATABASES]) -> Option<usize> {
    let own = u64::from(own_database());
    let found = rings.iter().position(|ring| ring.database == own);
    found.or_else(|| {
        let free = rings.iter().position(|ring| ring.database == 0)?;
        rings[free].database = own;
        Some(free)
    })
}

/// Describes a call that was denied. Does nothing unless `claims.audit` is `all`. Beyond the rate of the cell it is only counted.
/// `limits` returns the cell if it is registered, and its rate.
pub fn denied(cell_id: Option<i64>, limits: impl FnOnce() -> (i64, i32)) {
    if settings::audit() != Audit::All {
        return;
    }
    let (of, per_second) = limits();
    match pace::pass_refusals(of, per_second, 1) {
        Some(0) => {
            count_lost(of, 1);
        }
        _ => record("denied", cell_id, of, None, Map::new),
    }
}

/// Counts events of a cell that are not described. Returns false if no worker can tell of them.
pub fn count_lost(cell_id: i64, count: usize) -> bool {
    let own = own_database();
    let has_reader =
        || READERS.get().is_some_and(|all| all.iter().any(|one| one.database.load(Ordering::Acquire) == own));
    if !has_reader() {
        return false;
    }
    let lose = |ring: &mut Ring| {
        let is_first = !ring.has_lost();
        ring.lose(cell_id, count as u64);
        is_first
    };
    let is_first = RINGS.write(|rings| own_ring(rings).map(|at| lose(&mut rings[at]))).flatten();
    if is_first == Some(true) {
        wake_readers();
    }
    is_first.is_some()
}

/// Describes an event. `more` returns further members of its description, and is called only if `claims.audit` is `all`. If the
/// description is lost, it counts for cell `of`.
pub fn record(
    what: &str,
    cell_id: Option<i64>,
    of: i64,
    lease: Option<Uuid>,
    more: impl FnOnce() -> Map<String, Value>,
) {
    if settings::audit() != Audit::All {
        return;
    }
    let address = session::client_address().map(|address| address.text);
    let mut described = more();
    let common = [
        ("at_us", json!(Moment::now().0)),
        ("id", json!(next_id())),
        ("cell_id", json!(cell_id)),
        ("what", json!(what)),
        ("lease_uuid", json!(lease)),
        ("session_role", json!(roles::name(roles::of_session()))),
        ("client_address", json!(address)),
        ("application_name", json!(session::application_name())),
    ];
    described.extend(common.map(|(name, value)| (name.to_owned(), value)));
    let said = attribution::of_session();
    described.entry("context").or_insert_with(|| json!(said.context));
    described.entry("cell_role").or_insert_with(|| json!(said.cell_role));
    push(of, cut(described, MAX_BYTES).as_bytes());
}

/// The members of a description that are lists with an element for each conflict.
const LISTS: [&str; 5] = ["ops", "bucket_types", "bucket_values", "subjects", "sources"];

/// Returns a description as text of at most so many bytes. Leaves out the last conflicts, and then all members but the common ones, so
/// that what remains is valid JSON. Escaped control characters take six bytes each.
fn cut(mut described: Map<String, Value>, most: usize) -> String {
    loop {
        let text = Value::Object(described.clone()).to_string();
        if text.len() <= most {
            return text;
        }
        let listed = described.get("bucket_values").and_then(Value::as_array).map_or(0, Vec::len);
        if listed > 1 {
            let shorten = |list: Option<&mut Value>| {
                if let Some(list) = list.and_then(Value::as_array_mut) {
                    list.truncate(listed - 1);
                }
            };
            LISTS.iter().for_each(|name| shorten(described.get_mut(*name)));
            if let Some(conflict) = described.get_mut("conflict") {
                shorten(conflict.get_mut("conflicts"));
                let omitted = conflict["omitted"].as_u64().unwrap_or(0) + 1;
                conflict["omitted"] = json!(omitted);
            }
        } else if listed == 1 || described.contains_key("conflict") {
            LISTS.iter().for_each(|name| drop(described.remove(*name)));
            described.insert("conflict".to_owned(), json!({ "cut": true }));
            if listed == 0 {
                described.remove("conflict");
            }
        } else {
            // The common members are short: roles and applications have 63 bytes.
            return text;
        }
    }
}

fn push(cell_id: i64, description: &[u8]) {
    let pushed = RINGS.write(|rings| {
        let at = own_ring(rings)?;
        let ring = &mut rings[at];
        let (before, had_lost) = (ring.filled(), ring.has_lost());
        ring.push(cell_id, description);
        Some((before, ring.filled(), ring.has_lost() && !had_lost))
    });
    let Some(Some((before, after, is_first_lost))) = pushed else { return };
    // The worker waits for more of them after the first one, until the ring is half full.
    let half = RING_BYTES / 2;
    if before == 0 || (before < half && after >= half) || is_first_lost {
        wake_readers();
    }
}

fn wake_readers() {
    let own = own_database();
    let readers = READERS.get().into_iter().flatten();
    readers.filter(|reader| reader.database.load(Ordering::Acquire) == own).for_each(|reader| reader.sleeper.wake());
}

/// A description that was fetched.
pub struct Description {
    /// The cell, or [`NO_CELL`].
    pub cell_id: i64,
    pub text: String,
}

/// The descriptions that were fetched, and the numbers of those that were lost, by cell.
#[derive(Default)]
pub struct Fetched {
    pub descriptions: Vec<Description>,
    pub lost: Vec<(i64, u64)>,
}

/// Makes this process the one that is woken when there are descriptions of its database.
pub fn become_reader() {
    let own = own_database();
    let is_own = |reader: &&Reader| {
        let taken = reader.database.compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire);
        taken.is_ok() || taken == Err(own)
    };
    if let Some(reader) = READERS.get().and_then(|readers| readers.iter().find(is_own)) {
        reader.sleeper.become_this_process();
    }
}

/// Counts as lost what was fetched and not recorded: the cells of descriptions, and numbers of lost ones that no row tells yet.
pub fn are_lost(descriptions: &[i64], lost_before: &[(i64, u64)]) {
    RINGS.write(|rings| {
        if let Some(at) = own_ring(rings) {
            descriptions.iter().for_each(|cell_id| rings[at].lose_described(*cell_id, 1));
            lost_before.iter().for_each(|(cell_id, count)| rings[at].tell_lost(*cell_id, *count));
        }
    });
}

/// Returns how many events of this database were described since the start of the server, and how many of them were lost. `None` if
/// there was none, or the library is not preloaded.
pub fn totals() -> Option<(u64, u64)> {
    let own = u64::from(own_database());
    let ring = |rings: &[Ring; DATABASES]| {
        rings.iter().find(|ring| ring.database == own).map(|ring| (ring.described_total, ring.lost_total))
    };
    RINGS.read(ring).flatten()
}

/// Returns how full the ring of this database is, from 0 to 1.
pub fn fill() -> f64 {
    let own = u64::from(own_database());
    let filled = RINGS.read(|rings| rings.iter().find(|ring| ring.database == own).map(Ring::filled)).flatten();
    filled.unwrap_or(0) as f64 / RING_BYTES as f64
}

/// Returns whether descriptions of this database were lost that no row tells yet.
pub fn has_lost() -> bool {
    let own = u64::from(own_database());
    RINGS.read(|rings| rings.iter().any(|ring| ring.database == own && ring.has_lost())).unwrap_or(false)
}

/// Fetches up to `limit` descriptions of this database, and with `lost` the numbers of those that were lost.
pub fn fetch(limit: usize, lost: bool) -> Fetched {
    let own = u64::from(own_database());
    let fetched = RINGS.write(|rings| {
        let ring = rings.iter_mut().find(|ring| ring.database == own)?;
        let mut fetched = Fetched::default();
        if lost {
            let told = ring.lost.iter_mut().filter(|lost| lost.count > 0);
            fetched.lost = told.map(|lost| (lost.cell_id, std::mem::take(&mut lost.count))).collect();
        }
        fetched.descriptions = std::iter::from_fn(|| ring.pop()).take(limit).collect();
        Some(fetched)
    });
    fetched.flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(values: &[String]) -> Map<String, Value> {
        let conflicts: Vec<_> = values.iter().map(|value| json!({ "bucket": { "value": value } })).collect();
        let all = json!({
            "what": "refused", "ops": vec!["create"; values.len()], "bucket_types": vec!["ROUTES"; values.len()],
            "bucket_values": values, "conflict": { "conflicts": conflicts, "omitted": 1 },
        });
        all.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn a_long_description_is_cut() {
        let control = "\u{1}".repeat(1024);
        let text = cut(described(&[control.clone(), control.clone(), "short".to_owned()]), MAX_BYTES);
        let read: Value = serde_json::from_str(&text).expect("valid JSON");
        assert!(text.len() <= MAX_BYTES);
        assert_eq!((&read["bucket_values"], &read["conflict"]["omitted"]), (&json!([control]), &json!(3)));
        assert_eq!([&read["ops"], &read["bucket_types"]], [&json!(["create"]), &json!(["ROUTES"])]);
        let text = cut(described(&[control]), 1000);
        assert_eq!(text, r#"{"conflict":{"cut":true},"what":"refused"}"#);
        let short = described(&["a".to_owned(), "b".to_owned()]);
        assert_eq!(cut(short.clone(), MAX_BYTES), Value::Object(short).to_string());
    }
}
