//! Events that end with an error, on their way to the audit log. A transaction that fails cannot record its own failure, so it puts
//! a description into shared memory, and the background worker of the database inserts it.
//!
//! A description is lost, and counted, where there is no room for it: no worker fetches them, or they come faster than it inserts
//! them. A crash of the server loses those that were not fetched.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Map, Value, json};
use uuid::Uuid;
use zerocopy::FromBytes;

use crate::pg::background::{Sleeper, own_database};
use crate::pg::clock::Moment;
use crate::pg::shared::{Locked, Shared};
use crate::pg::{roles, session};
use crate::settings::{self, Audit};
use crate::tables::rows::audit::next_id;

/// The number of databases of a server that can have refusals recorded.
const DATABASES: usize = 4;
/// The number of databases that can have workers.
const MAX_READERS: usize = 64;
/// The room for descriptions of one database.
const RING_BYTES: usize = 1 << 20;
/// The longest description.
const MAX_BYTES: usize = 16 * 1024;
/// The bytes before a description, which are its length.
const LENGTH_BYTES: usize = size_of::<u32>();

/// The descriptions of one database: bytes from `begin` to `end`, both counted from the start of the server.
#[derive(Clone, Copy, FromBytes)]
pub struct Ring {
    /// Oid of the database, in a field as wide as the others; 0 for a free ring.
    database: u64,
    begin: u64,
    end: u64,
    /// The number of descriptions for which there was no room since the last look.
    lost: u64,
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
    fn push(&mut self, description: &[u8]) {
        self.described_total += 1;
        if description.len() > MAX_BYTES || self.free() < LENGTH_BYTES + description.len() {
            self.lose(1);
            return;
        }
        let length = u32::try_from(description.len()).unwrap_or(0);
        self.write(&length.to_ne_bytes());
        self.write(description);
    }

    fn lose(&mut self, count: u64) {
        self.lost += count;
        self.lost_total += count;
    }

    /// Takes the oldest description.
    fn pop(&mut self) -> Option<Vec<u8>> {
        if self.begin == self.end {
            return None;
        }
        let mut length = [0; LENGTH_BYTES];
        self.read(&mut length);
        let mut description = vec![0; usize::try_from(u32::from_ne_bytes(length)).unwrap_or(0).min(MAX_BYTES)];
        self.read(&mut description);
        Some(description)
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

/// Describes a call that was denied. Does nothing unless `claims.audit` is `all`.
pub fn denied(cell_id: Option<i64>) {
    record("denied", cell_id, None, Map::new);
}

/// Describes an event. `more` returns further members of its description, and is called only if `claims.audit` is `all`.
pub fn record(what: &str, cell_id: Option<i64>, lease: Option<Uuid>, more: impl FnOnce() -> Map<String, Value>) {
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
    push(Value::Object(described).to_string().as_bytes());
}

fn push(description: &[u8]) {
    let pushed = RINGS.write(|rings| {
        let at = own_ring(rings)?;
        let ring = &mut rings[at];
        let before = ring.filled();
        ring.push(description);
        Some((before, ring.filled()))
    });
    let Some(Some((before, after))) = pushed else { return };
    // The worker waits for more of them after the first one, until the ring is half full.
    let half = RING_BYTES / 2;
    if before == 0 || (before < half && after >= half) {
        let own = own_database();
        let readers = READERS.get().into_iter().flatten();
        readers
            .filter(|reader| reader.database.load(Ordering::Acquire) == own)
            .for_each(|reader| reader.sleeper.wake());
    }
}

/// The descriptions that were fetched, and the number of those that were lost.
#[derive(Default)]
pub struct Fetched {
    pub descriptions: Vec<String>,
    pub lost: u64,
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

/// Counts as lost what was fetched and not recorded: descriptions, and a number of lost ones that no row tells yet.
pub fn are_lost(descriptions: u64, lost_before: u64) {
    RINGS.write(|rings| {
        if let Some(at) = own_ring(rings) {
            rings[at].lose(descriptions);
            rings[at].lost += lost_before;
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

/// Fetches up to `limit` descriptions of this database.
pub fn fetch(limit: usize) -> Fetched {
    let own = u64::from(own_database());
    let fetched = RINGS.write(|rings| {
        let ring = rings.iter_mut().find(|ring| ring.database == own)?;
        let lost = std::mem::take(&mut ring.lost);
        let descriptions = std::iter::from_fn(|| ring.pop()).take(limit);
        let descriptions = descriptions.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect();
        Some(Fetched { descriptions, lost })
    });
    fetched.flatten().unwrap_or_default()
}
